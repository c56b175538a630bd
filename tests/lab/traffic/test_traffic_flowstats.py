"""Flow reports: there and back, and nothing else passes."""

import contextlib
from dataclasses import fields

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.base.errors import InputError
from railkeeper.fabric.paths import make_paths
from railkeeper.lab.traffic.flowstats import COLUMNS, FlowReport, FlowStats, decode_flows, encode_flows


def report(n: int = 4) -> FlowReport:
    columns = {c: np.arange(n) * (i + 1) for i, c in enumerate(COLUMNS)}
    stats = FlowStats(paths=make_paths([3] * n, 0, np.arange(n), dst=5, t1=1), **columns)
    return FlowReport(3, 99, 0.5, stats, steps=7, busbw_bps=1.5, unanswered=2, deny_version=-1)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_there_and_back(n):
    a, b = report(n), decode_flows(encode_flows(report(n)))
    for f in fields(FlowReport):
        if f.name != "stats":
            assert getattr(a, f.name) == getattr(b, f.name)
    assert all((getattr(a.stats, c) == getattr(b.stats, c)).all() for c in COLUMNS)
    assert (a.stats.paths.key() == b.stats.paths.key()).all()


def _damaged(at: int, flip: int) -> bytes:
    data = bytearray(encode_flows(report()))
    data[at % len(data)] ^= flip
    return bytes(data)


@given(st.binary(max_size=200) | st.builds(_damaged, st.integers(0, 5000), st.integers(1, 255)))
def test_anything_else_is_an_input_error_or_a_report(data):
    with contextlib.suppress(InputError):
        assert isinstance(decode_flows(data), FlowReport)


def test_another_schema_is_named():
    with pytest.raises(InputError, match="schema 1"):
        decode_flows(msgpack.packb({"schema": 2}))
