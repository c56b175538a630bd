"""A host's /sys as large as wanted, made of files: 8 cards with 4 ports each by default."""

from __future__ import annotations

from pathlib import Path

COUNTERS = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
]
HW_COUNTERS = [
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
]
STATISTICS = [
    "collisions",
    "multicast",
    "rx_bytes",
    "rx_compressed",
    "rx_crc_errors",
    "rx_dropped",
    "rx_errors",
    "rx_fifo_errors",
    "rx_frame_errors",
    "rx_length_errors",
    "rx_missed_errors",
    "rx_nohandler",
    "rx_over_errors",
    "rx_packets",
    "tx_aborted_errors",
    "tx_bytes",
    "tx_carrier_errors",
    "tx_compressed",
    "tx_dropped",
    "tx_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_packets",
    "tx_window_errors",
]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def value_of(card: int, port: int, at: int) -> int:
    return 1_000_000 * card + 10_000 * port + at


def make_host(root: Path, *, cards: int = 8, ports: int = 4, driver: str = "mlx5_core", name: str = "mlx5_") -> None:
    (root / "sys/class/infiniband").mkdir(parents=True)
    (root / "sys/class/net").mkdir(parents=True)
    drivers = root / "sys/bus/pci/drivers" / driver
    drivers.mkdir(parents=True)
    for card in range(cards):
        pci = root / f"sys/devices/pci0000:00/0000:{card + 16:02x}:00.0"
        _card(pci)
        (pci / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        device = pci / "infiniband" / f"{name}{card}"
        for port in range(1, ports + 1):
            _port(device / "ports" / str(port), card, port)
            netdev = pci / "net" / f"eth_r{card}_p{port - 1}"
            _netdev(netdev, card, port)
            (netdev / "device").symlink_to("../..")
            (root / "sys/class/net" / netdev.name).symlink_to(
                f"../../devices/{pci.relative_to(root / 'sys/devices')}/net/{netdev.name}"
            )
        (device / "device").symlink_to("../..")
        (root / "sys/class/infiniband" / device.name).symlink_to(
            f"../../devices/{device.relative_to(root / 'sys/devices')}"
        )


def _card(pci: Path) -> None:
    write(pci / "current_link_speed", "32.0 GT/s PCIe")
    write(pci / "max_link_speed", "32.0 GT/s PCIe")
    write(pci / "current_link_width", "8")
    write(pci / "max_link_width", "16")
    write(pci / "aer_dev_correctable", "RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4")
    write(pci / "aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0")
    write(pci / "aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0")


def _port(path: Path, card: int, port: int) -> None:
    write(path / "state", "4: ACTIVE")
    write(path / "phys_state", "5: LinkUp")
    write(path / "rate", "400 Gb/sec (4X NDR)")
    write(path / "link_layer", "Ethernet")
    for at, counter in enumerate(COUNTERS):
        write(path / "counters" / counter, str(value_of(card, port, at)))
    for at, counter in enumerate(HW_COUNTERS):
        write(path / "hw_counters" / counter, str(value_of(card, port, 100 + at)))


def _netdev(path: Path, card: int, port: int) -> None:
    state = {
        "carrier": 1,
        "carrier_changes": 4,
        "carrier_up_count": 2,
        "carrier_down_count": 2,
        "speed": 400000,
        "mtu": 9000,
    }
    for file, value in {**state, "operstate": "up", "dev_port": port - 1}.items():
        write(path / file, str(value))
    for at, counter in enumerate(STATISTICS):
        write(path / "statistics" / counter, str(value_of(card, port, 200 + at)))
