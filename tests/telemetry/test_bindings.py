"""Bindings: real names of every dialect, none bound twice, and what is wrong in a file is named."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.base.errors import InputError
from railkeeper.telemetry.bind import Binder, Bound, Known, bind, binder
from railkeeper.telemetry.bindings import PART, read_dialect
from railkeeper.telemetry.signals import catalogue

# dialect, native name as the device says it, column, scale, width
REAL = [
    ("rdma.port", "state", "oper_up", 1, 64),
    ("rdma.port", "rate", "speed_gbps", 1, 64),
    ("mlx5.port", "port_xmit_data", "tx_bytes", 4, 64),
    ("mlx5.port", "port_rcv_data", "rx_bytes", 4, 64),
    ("mlx5.port", "excessive_buffer_overrun_errors", "buffer_overruns", 1, 4),
    ("mlx5.port", "symbol_error", "rx_symbol_errors", 1, 16),
    ("mlx5.port", "VL15_dropped", "management_drops", 1, 16),
    ("mlx5.hw", "local_ack_timeout_err", "ack_timeouts", 1, 32),
    ("mlx5.hw", "np_cnp_sent", "cnp_tx", 1, 64),
    ("mlx5.hw", "rx_icrc_encapsulated", "icrc_errors", 1, 32),
    ("mlx5.ethtool", "rx_prio3_pause", "pfc_rx_frames[3]", 1, 64),
    ("mlx5.ethtool", "tx_prio7_pause_duration", "pfc_tx_paused_us[7]", 1, 64),
    ("mlx5.ethtool", "rx_err_lane_0_phy", "lane_errors[0]", 1, 64),
    ("mlx5.ethtool", "rx_corrected_bits_phy", "fec_corrected_bits", 1, 64),
    ("mlx5.ethtool", "outbound_pci_stalled_rd_events", "pcie_stalled_seconds", 1, 64),
    ("bnxt.hw", "to_retransmits", "ack_timeouts", 1, 64),
    ("bnxt.hw", "local_ack_timeout_err", "ack_timeouts", 1, 64),
    ("bnxt_re.hw", "oos_drop_count", "out_of_sequence_rx", 1, 64),
    ("bnxt.ethtool", "rx_pfc_ena_frames_pri5", "pfc_rx_frames[5]", 1, 64),
    ("bnxt.ethtool", "pfc_pri3_tx_duration_us", "pfc_tx_paused_us[3]", 1, 64),
    ("bnxt.ethtool", "rx_fcs_err_frames", "rx_crc_errors", 1, 64),
    ("ionic.hw", "resp_rx_outouf_seq", "out_of_sequence_rx", 1, 64),
    ("ionic.hw", "tx_rdma_retx_pkts", "retransmitted_packets", 1, 64),
    ("ionic.ethtool", "frames_rx_bad_fcs", "rx_crc_errors", 1, 64),
    ("ionic.ethtool", "rx_pripause_3_1us_count", "pfc_rx_paused_us[3]", 1, 64),
    ("ionic.ethtool", "frames_rx_pri_3", "rx_priority_packets[3]", 1, 64),
    ("netdev", "carrier_down_count", "link_downs", 1, 32),
    ("netdev", "stats64.rx.bytes", "rx_bytes", 1, 64),
    ("pcie", "aer_dev_correctable.TOTAL_ERR_COR", "pcie_correctable_errors", 1, 64),
    ("pcie", "aer_dev_correctable.BadDLLP", "pcie_correctable_by[BadDLLP]", 1, 64),
    ("sonic.port", "SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S15", "fec_bin_codewords[15]", 1, 64),
    ("sonic.port", "SAI_PORT_STAT_PFC_3_RX_PKTS", "pfc_rx_frames[3]", 1, 64),
    ("sonic.port", "SAI_PORT_STAT_LLR_TX_REPLAY", "llr_tx_replays", 1, 64),
    ("sonic.port", "SAI_PORT_STAT_TRIM_PACKETS", "trim_packets", 1, 64),
    ("sonic.switch", "SAI_SWITCH_STAT_PACKET_INTEGRITY_DROP", "integrity_drops", 1, 64),
    ("sonic.transceiver_dom_sensor", "rx1power", "rx_power_dbm[0]", 1, 64),
    ("sonic.transceiver_dom_sensor", "tx8bias", "tx_bias_ma[7]", 1, 64),
    ("sonic.transceiver_status_flag", "rx3los", "rx_los[2]", 1, 64),
    ("sonic.port_operr", "mac_remote_fault_count", "oper_errors[remote fault]", 1, 64),
    ("sonic.appl_port", "oper_status", "oper_up", 1, 64),
    ("openconfig", "/interfaces/interface/state/counters/in-octets", "rx_bytes", 1, 64),
    ("openconfig", "/interfaces/interface/state/oper-status", "oper_up", 1, 64),
    ("dcgm.field", "230", "xid_last", 1, 64),
    ("dcgm", "DCGM_FI_DEV_XID_ERRORS", "xid_last", 1, 64),
    ("dcgm", "DCGM_FI_DEV_XID_ERROR", "xid_last", 1, 64),
    ("dcgm", "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", "nvlink_rx_symbol_errors", 1, 64),
    ("infiniband", "PortXmitData", "tx_bytes", 4, 64),
    ("infiniband", "SymbolErrorCounter", "rx_symbol_errors", 1, 16),
    ("node_exporter", "node_infiniband_port_data_received_bytes_total", "rx_bytes", 1, 64),
    ("node_exporter", "node_infiniband_packet_sequence_errors_total", "seq_naks_rx", 1, 32),
    ("node_exporter", "node_ethtool_received_prio3_pause", "pfc_rx_frames[3]", 1, 64),
    ("node_exporter", "node_network_carrier_down_changes_total", "link_downs", 1, 32),
    ("prometheus", "nccl_collective_exec_time_microseconds", "collective_seconds", 1e-6, 64),
    ("railkeeper.path", "lost", "path_probes_lost", 1, 64),
    ("mrc.ev", "nak_rx_no_bitmap", "naks_rx[NO_BITMAP]", 1, 64),
]


def one(dialect: str, native: str) -> Bound:
    found = bind(dialect, native)
    if found is not None:
        return found
    # The part is in a label.
    row = binder().dialect(dialect).exact[native]
    return Bound(row, "", row.signal.name)


@pytest.mark.parametrize(("dialect", "native", "column", "scale", "width"), REAL)
def test_real_names(dialect, native, column, scale, width):
    found = one(dialect, native)

    assert (found.column, found.row.scale, found.row.width) == (column, scale, width)


@pytest.mark.parametrize(
    ("dialect", "native", "why"),
    [
        ("bnxt.hw", "recoverable_errors", "wrong in the kernel's driver"),
        ("mlx5.hw", "lifespan", "age of the driver's cache"),
        ("mlx5.ethtool", "rx_bytes", "without RDMA"),
        ("mlx5.ethtool", "rx0_packets", "one ring"),
        ("sonic.rates", "FEC_POST_BER", "a convention"),
        ("sonic.port", "PORT_STAT_COUNTER_time_stamp", "when the switch has polled"),
        ("dcgm.field", "1215", "mantissa"),
        ("node_exporter", "node_infiniband_lifespan_seconds", "a bug"),
        ("sonic.lldp", "lldp_rem_sys_name", "neighbour"),
    ],
)
def test_names_that_are_not_wanted_say_why(dialect, native, why):
    assert why in binder().look(dialect, native).why
    assert bind(dialect, native) is None


@pytest.mark.parametrize(
    ("dialect", "native"),
    [
        ("mlx5.hw", "a_counter_of_next_year"),
        ("ionic.hw", "tx_rdma_something_new"),
        ("mlx5.ethtool", "rx_prio99_pause"),  # no such priority
        ("sonic.port", "SAI_PORT_STAT_PFC_3_RX_PKTS "),
        ("no.such.dialect", "rx_bytes"),
        ("sonic.transceiver_dom_sensor", "rx0power"),  # lanes count from 1 there
        ("sonic.port", "SAI_PORT_STAT_PFC_٣_RX_PKTS"),
    ],
)
def test_unknown_names_are_unbound(dialect, native):
    assert binder().look(dialect, native) is None


def sample(native: str, part: int = 3) -> str:
    return native.replace(PART, str(part))


@pytest.mark.parametrize("dialect", binder().dialects, ids=lambda d: d.name)
def test_no_name_is_bound_twice(dialect):
    for row in dialect.rows:
        hits = [r for r in dialect.rows if r.native == sample(row.native)]
        hits += [r for pattern, r in dialect.patterns if pattern.fullmatch(sample(row.native))]
        assert [r.native for r in hits] == [row.native]


@pytest.mark.parametrize("dialect", binder().dialects, ids=lambda d: d.name)
def test_every_row_and_every_known_name_is_reached(dialect):
    for row in dialect.rows:
        assert binder().look(dialect.name, sample(row.native)).row is row
    for native, why in dialect.known.items():
        hit = binder().look(dialect.name, sample(native.replace("{any}", "xyz")))
        assert isinstance(hit, Known)
        assert why


@pytest.mark.parametrize("dialect", binder().dialects, ids=lambda d: d.name)
def test_names_of_one_rank_that_give_one_column_are_summed(dialect):
    seen = {}
    for row in dialect.rows:
        # Statistics of one interface are those of one driver, which the note names.
        driver = row.note.split(":")[0] if row.native.startswith("node_ethtool_") else ""
        seen.setdefault((row.signal.full_name, row.part, row.rank, driver), []).append(row)
    for rows in seen.values():
        assert len(rows) == 1 or all(r.adds for r in rows), [r.native for r in rows]
        assert not all(r.adds for r in rows) or len(rows) > 1


@pytest.mark.parametrize("dialect", binder().dialects, ids=lambda d: d.name)
def test_states_are_numbers_that_a_state_can_have(dialect):
    for row in dialect.rows:
        if row.signal.kind == "state":
            assert {v for v in row.states.values() if not math.isnan(v)} <= {0.0, 1.0}
        assert row.signal.is_counter or not row.saturates


def test_names_of_the_ethtool_collector_follow_those_of_the_drivers():
    """Whatever node_exporter calls a driver's statistic means what the driver's own name means."""
    ours = {r.native: r for r in binder().dialect("node_exporter").rows if r.native.startswith("node_ethtool_")}
    followed = {}
    for name in ("mlx5.ethtool", "bnxt.ethtool", "ionic.ethtool"):
        for row in binder().dialect(name).rows:
            exported = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_{}]", "_", row.native)).lower().strip("_")
            exported = re.sub(r"(^|_)rx(_|$)", r"\1received\2", exported)
            followed[f"node_ethtool_{re.sub(r'(^|_)tx(_|$)', chr(92) + '1transmitted' + chr(92) + '2', exported)}"] = (
                row
            )

    assert len(ours) > 80
    for native, row in ours.items():
        assert (row.signal, row.scale) == (followed[native].signal, followed[native].scale)


# ---- files of a site ------------------------------------------------------------------------------------------------
HEAD = '[dialect]\nname = "acme.mrc"\nabout = "A maker\'s transport counters"\nlabels = ["host", "device"]\n'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[dialect", "x.toml"),
        ("[bind]\n", "x.toml: .dialect"),
        (HEAD + '[bind]\na = "port.nothing"', "x.toml: bind.a"),
        (HEAD + '[bind]\na = { signal = "port.rx_bytes", scale = 0 }', "x.toml: .bind.a"),
        (HEAD + '[bind]\na = "port.pfc_rx_frames"', "x.toml: bind.a"),
        (HEAD + '[bind]\n"a{p}" = "port.rx_bytes"', "x.toml: bind.a{p}"),
        (HEAD + '[bind]\na = { signal = "port.pfc_rx_frames", part = "three" }', "x.toml: bind.a"),
        (HEAD + '[bind]\na = "port.rx_bytes"\n[known]\na = "no"', "x.toml: known.a"),
        (HEAD.replace("acme.mrc", "Acme MRC"), "x.toml: .dialect.name"),
    ],
)
def test_errors_of_a_file_name_the_key(text, where):
    with pytest.raises(InputError) as error:
        read_dialect(text, where="x.toml")
    assert error.value.where.startswith(where)


def test_a_maker_adds_a_dialect_of_its_own():
    mine = read_dialect(HEAD + '[bind]\nevSwaps = "port.ev_swaps"\n"nack{p}" = "port.lane_errors"', where="x")
    both = Binder([mine])

    assert both.bind("acme.mrc", "evSwaps").signal is catalogue().get("port.ev_swaps")
    assert both.bind("mlx5.hw", "out_of_sequence") is not None
    with pytest.raises(InputError, match="twice"):
        Binder([mine, mine])


@given(st.text(max_size=200))
def test_any_name_is_answered(name):
    for dialect in ("mlx5.ethtool", "sonic.port", "node_exporter", "dcgm", "openconfig"):
        assert isinstance(binder().look(dialect, name), Bound | Known | None)
