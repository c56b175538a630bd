"""Native values to numbers: exact, and never 0 for what is not one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.telemetry.bind import binder
from railkeeper.telemetry.frame import ABSENT
from railkeeper.telemetry.values import by_lane, column_of

NAN = math.nan


def row(dialect: str, native: str):
    return binder().look(dialect, native).row


OCTETS = row("sonic.port", "SAI_PORT_STAT_IF_IN_OCTETS")
WORDS = row("mlx5.port", "port_xmit_data")
SYMBOLS = row("mlx5.port", "symbol_error")
RETRIES = row("mlx5.hw", "out_of_sequence")
STATE = row("rdma.port", "state")
RATE = row("rdma.port", "rate")
POWER = row("sonic.transceiver_dom_sensor", "rx1power")
OPER = row("sonic.appl_port", "oper_status")
HOST_READY = row("sonic.state_port", "host_tx_ready")


@pytest.mark.parametrize(
    ("binding", "raw", "wanted"),
    [
        (OCTETS, 7, 7),
        (OCTETS, "7", 7),
        (OCTETS, 7.0, 7),
        (OCTETS, " 7 ", 7),
        (OCTETS, "0x10", 16),
        (OCTETS, 2**63 + 1, 2**63 + 1),
        (OCTETS, str(2**64 - 2), 2**64 - 2),
        (OCTETS, 0, 0),
        (OCTETS, 2**64 - 1, ABSENT),  # all ones: the firmware could not read it
        (OCTETS, 1.8446744073709552e19, ABSENT),  # the same through Prometheus
        (OCTETS, -1, ABSENT),
        (OCTETS, 2**64, ABSENT),
        (OCTETS, NAN, ABSENT),
        (OCTETS, math.inf, ABSENT),
        (OCTETS, None, ABSENT),
        (OCTETS, "", ABSENT),
        (OCTETS, "N/A", ABSENT),
        (OCTETS, "N/A (no PMA)", ABSENT),
        (WORDS, 230_442_669_431_839, 921_770_677_727_356),
        (WORDS, "230442669431839", 921_770_677_727_356),
        (SYMBOLS, 65_534, 65_534),
        (SYMBOLS, 65_535, ABSENT),  # stands at its largest value
        (SYMBOLS, 65_535.0, ABSENT),
        (RETRIES, 2**32 - 1, 2**32 - 1),  # wraps instead
    ],
)
def test_counters(binding, raw, wanted):
    for others in ([], [5], ["5"], [5.0], [None]):
        assert int(column_of(binding, [raw, *others]).values[0]) == wanted


@pytest.mark.parametrize(
    ("binding", "raw", "wanted"),
    [
        (STATE, "4: ACTIVE", 1),
        (STATE, "1: DOWN", 0),
        (STATE, "ACTIVE", 1),
        (RATE, "400 Gb/sec (4X NDR)", 400),
        (RATE, "2.5 Gb/sec (1X SDR)", 2.5),
        (RATE, "N/A", NAN),
        (POWER, "0.3802", 0.3802),
        (POWER, "-inf", -40),
        (POWER, "N/A", NAN),
        (POWER, None, NAN),
        (OPER, "up", 1),
        (OPER, "down", 0),
        (OPER, "N/A", NAN),
        (HOST_READY, "true", 1),
        (row("netdev", "carrier"), 1, 1),
        (row("netdev", "carrier"), "0", 0),
        (row("netdev", "speed"), 400_000, 400),
        (row("pcie", "current_link_speed"), "32.0 GT/s PCIe", 32),
        (row("dcgm.field", "150"), 47, 47),
        (row("dcgm.field", "150"), 140737488355328.0, NAN),  # DCGM's blank
        (row("dcgm", "DCGM_FI_DEV_GPU_UTIL"), 50, 0.5),
    ],
)
def test_gauges_and_states(binding, raw, wanted):
    for others in ([], [5], ["down"], [None]):
        found = column_of(binding, [raw, *others])
        assert found.values[0] == pytest.approx(wanted, nan_ok=True)
        assert 0 not in found.strange


def test_blank_counters_of_dcgm_are_absent():
    assert column_of(row("dcgm.field", "202"), [9223372036854775794, 3]).values.tolist() == [ABSENT, 3]


@pytest.mark.parametrize(
    ("binding", "raw"),
    [
        (OCTETS, "many"),
        (OCTETS, "1_000"),
        (OCTETS, "12 packets"),
        (OCTETS, "9" * 5000),
        (STATE, "9: WEIRD"),
        (OPER, "flapping"),
        (OPER, 7),
        (POWER, "strong"),
        (OCTETS, b"7"),
        (OCTETS, [7]),
    ],
)
def test_text_that_is_neither_number_nor_state_is_strange_and_never_zero(binding, raw):
    found = column_of(binding, [raw])

    assert found.strange == (0,)
    assert found.values[0] == ABSENT if binding.signal.is_counter else math.isnan(found.values[0])


@given(st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=40), st.none(), st.booleans()), min_size=1))
def test_any_values_give_a_column(values):
    for binding in (OCTETS, WORDS, SYMBOLS, STATE, RATE, POWER, OPER):
        found = column_of(binding, values)
        assert len(found.values) == len(values)
        assert found.values.dtype == (np.uint64 if binding.signal.is_counter else np.float32)
        assert not np.isinf(found.values[~np.isnan(found.values)]).any() if found.values.dtype == np.float32 else True


@given(st.lists(st.integers(0, 2**64 - 2), min_size=1))
def test_integers_are_exact_in_whatever_form_they_come(values):
    for form in (int, str, lambda v: f" {v} "):
        assert column_of(OCTETS, [form(v) for v in values]).values.tolist() == values


def test_lanes():
    lock = row("sonic.port_phy_attr", "pcs_fec_lane_alignment_lock")

    assert by_lane(lock, '{"0": ["T*", 1678886400000, 10], "1": ["F", 0, 0]}') == [("0", "T*"), ("1", "F")]
    assert by_lane(lock, '{"0": 3}') == [("0", 3)]
    assert by_lane(row("mlxlink", "Bias Current [mA]"), "8.2, 8.1,0") == [("0", "8.2"), ("1", "8.1"), ("2", "0")]
    for broken in ("", "{", "[1]", "{}", "T", None, 3, "[" * 100_000):
        assert by_lane(lock, broken) is None
