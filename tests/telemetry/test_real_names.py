"""Names as real machines say them: reduced here, and whole where the files are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from assembling import assembler, frame_at, reading, switch, value
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.telemetry.bind import binder
from railkeeper.telemetry.native_names import names_in

FILES = Path(os.environ.get("RAILKEEPER_CASES", Path(__file__).parents[3] / "shared" / "cases" / "files"))
SONIC = FILES / "sonic-net__sonic-utilities" / "tests" / "mock_tables"
SYSFS = FILES / "leptonai__gpud/components/accelerator/nvidia/infiniband/class/testdata/sys-class-infiniband-h100.0"
needs_files = pytest.mark.skipif(not FILES.exists(), reason="the folder of real files is not here")

# An H100 node's mlx5_0, as its sysfs says: one counter stands at the end of its 4 bits.
H100 = {
    "mlx5.port": {
        "port_xmit_data": 230442669431839, "port_rcv_data": 230539874932483, "port_xmit_wait": 2489603687,
        "excessive_buffer_overrun_errors": 15, "port_rcv_errors": 14, "symbol_error": 0, "link_downed": 0,
    },
    "mlx5.hw": {"out_of_sequence": 0, "roce_adp_retrans": 3, "rx_write_requests": 3809045607, "lifespan": 12},
    "rdma.port": {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"},
}  # fmt: skip


def test_an_h100_node():
    a = assembler()
    labels = {"host": "h1", "device": "mlx5_0", "port": "1"}
    a.add(reading(dialect, labels, values) for dialect, values in H100.items())
    block = frame_at(a, 1).blocks["port"]

    assert value(block, "h1/mlx5_0/1", "tx_bytes") == 4 * 230442669431839
    assert value(block, "h1/mlx5_0/1", "buffer_overruns") is None  # 15 of 4 bits: it can count no further
    assert value(block, "h1/mlx5_0/1", "rx_errors") == 14
    assert value(block, "h1/mlx5_0/1", "oper_up") == 1
    assert value(block, "h1/mlx5_0/1", "speed_gbps") == 400
    assert (a.counts.unbound, a.counts.unreadable, a.counts.known) == (0, 1, 2)


@needs_files
def test_every_file_of_that_node_is_understood():
    for device in SYSFS.iterdir():
        port = device / "ports" / "1"
        for file in [*port.glob("*counters/*"), *(p for p in port.iterdir() if p.is_file())]:
            dialect = {"counters": "mlx5.port", "hw_counters": "mlx5.hw"}.get(file.parent.name, "rdma.port")
            assert binder().look(dialect, file.name) is not None, file


def hashes(name: str, table: str) -> dict[str, dict[str, str]]:
    data = json.loads((SONIC / name).read_text(encoding="utf-8"))
    return {key: row for key, row in data.items() if key.startswith(table)}


@needs_files
@pytest.mark.parametrize(
    ("file", "table", "dialect"),
    [
        ("state_db.json", "PORT_TABLE|", "sonic.state_port"),
        ("state_db.json", "PORT_OPERR_TABLE|", "sonic.port_operr"),
        ("state_db.json", "TRANSCEIVER_DOM_SENSOR|", "sonic.transceiver_dom_sensor"),
        ("state_db.json", "TRANSCEIVER_DOM_THRESHOLD|", "sonic.transceiver_dom_threshold"),
        ("state_db.json", "TRANSCEIVER_DOM_FLAG|", "sonic.transceiver_dom_flag"),
        ("state_db.json", "TRANSCEIVER_VDM_HALARM_FLAG|", "sonic.transceiver_vdm_halarm_flag"),
        ("state_db.json", "TRANSCEIVER_STATUS|", "sonic.transceiver_status"),
        ("state_db.json", "TRANSCEIVER_STATUS_FLAG|", "sonic.transceiver_status_flag"),
        ("state_db.json", "TRANSCEIVER_PM|", "sonic.transceiver_pm"),
        ("state_db.json", "FAN_INFO|", "sonic.fan"),
        ("state_db.json", "PSU_INFO|", "sonic.psu"),
        ("appl_db.json", "PORT_TABLE:", "sonic.appl_port"),
        ("counters_db.json", "RATES:", "sonic.rates"),
        ("counters_db.json", "PORT_PHY_ATTR:", "sonic.port_phy_attr"),
    ],
)
def test_every_field_of_sonic_is_understood(file, table, dialect):
    rows = hashes(file, table)
    a = assembler()
    for key, row in rows.items():
        port = key[len(table) :]
        a.add(
            [
                switch(
                    dialect, {n: None if v == "N/A" else v for n, v in row.items()}, port=port, labels={"sensor": port}
                )
            ]
        )
    frame_at(a, 1)

    assert rows
    assert not a.unbound.report()
    assert a.counts.read == a.counts.accounted() > 0


@needs_files
def test_every_counter_of_sonic_is_understood():
    data = json.loads((SONIC / "counters_db.json").read_text(encoding="utf-8"))
    kinds = {"COUNTERS_PORT_NAME_MAP": "port", "COUNTERS_QUEUE_NAME_MAP": "queue", "COUNTERS_PG_NAME_MAP": "pg"}
    asked = 0
    for name_map, kind in kinds.items():
        for oid in data[name_map].values():
            for native in data.get(f"COUNTERS:{oid}", {}):
                assert binder().look(f"sonic.{kind}", native) is not None, native
                asked += 1

    assert asked > 500


@needs_files
def test_a_node_exporter():
    text = (FILES / "prometheus__node_exporter/collector/fixtures/e2e-output.txt").read_text(encoding="utf-8")
    names = [n for n in names_in(text).names if n.startswith("node_")]

    assert len(names) > 500
    assert all(binder().look("node_exporter", n) is not None for n in names)
    assert binder().bind("node_exporter", "node_infiniband_port_transmit_wait_total").row.saturates


@given(st.text(max_size=400))
def test_any_text_gives_names(text):
    found = names_in(text)

    assert all(isinstance(name, str) and name for name in found.names) or found.form == "json"


@pytest.mark.parametrize("text", ["{" * 5000, "[" * 5000, '{"a": ' * 50 + "1" + "}" * 50, "\x00\n:\n: 1", "[1, 2]"])
def test_broken_texts(text):
    assert isinstance(names_in(text).names, dict)
