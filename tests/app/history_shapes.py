"""Reports and records for the tests of the history."""

from __future__ import annotations

import numpy as np

from railkeeper.app.ticklog import LogRecord
from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.probe.pathstats import TickReport, empty_stats, encode_report

TICK_S = 0.5
# A full hour, so that tests can cross it.
T0 = 1_700_000_000 // 3600 * 3600 + 3600


def report(node: int, tick: int, *, rows: int = 3) -> TickReport:
    paths = make_paths([PathKind.T1_BOUNCE] * rows, node, 0, t1=np.arange(rows))
    stats = empty_stats(paths)
    stats.sent[:] = 20
    stats.received[:] = 20 - np.arange(rows)
    stats.delay_min_ns[0] = 12_345
    stats.delay_hist[:, 4] = 20
    return TickReport(node, tick, TICK_S, stats, stray=2, port_state=(1, -1), port_downs=(0, -1))


def tick_record(node: int, tick: int, *, seq: int = 0, t: float | None = None, rows: int = 3) -> LogRecord:
    when = tick * TICK_S + 0.7 if t is None else t
    return LogRecord(when, "tick", f"agent/n{node}", seq, encode_report(report(node, tick, rows=rows)))


def other_record(t: float, seq: int, body: bytes = b"x") -> LogRecord:
    return LogRecord(t, "denied", "sender/n0", seq, body)
