"""What of a stranger's words may be used: reports are checked against fabric and tick length before they are judged.

A peer of another fabric, release or tick length, or one that is broken, must neither stop the keeper nor speak for
another node. Whatever does not fit is an InputError that says why.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.fabric.paths import PathKind, Paths
from railkeeper.probe.pathstats import N_BINS, NO_TIME, UNKNOWN, PathStats
from railkeeper.probe.wire import fits

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.app.inputs import TickInput
    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.traffic.flowstats import FlowReport
    from railkeeper.probe.pathstats import TickReport
    from railkeeper.telemetry.ports import PortStates

# More than any path or sender can carry in a tick, and far from where sums of it could overflow.
MAX_PROBES, MAX_COUNT = 10**7, 10**12
# Clocks of agents differ by much less than an hour, or their ticks would not meet.
MAX_DELAY_NS = 3600 * 10**9
MAX_TICK = 2**53
_COUNTS = ("sent", "received", "corrupt", "reordered", "duplicate")
_FLOW_COUNTS = ("sent", "retransmitted", "lost", "spurious", "delivered_bytes")
_OWN = ("unsent", "socket_dropped", "host_dropped", "ticks_dropped", "stray", "late")


def check_report(fabric: Fabric, tick_s: float, report: TickReport, where: str) -> None:
    """Raise InputError unless an agent's report can be one of this fabric."""
    _check_head(fabric, tick_s, report, where)
    s = report.stats
    _check_shapes(s, where)
    for name in _COUNTS:
        _check_range(getattr(s, name), UNKNOWN, MAX_PROBES, f"{where}: {name}")
    known = s.delay_min_ns[s.delay_min_ns != NO_TIME]
    _check_range(known, -MAX_DELAY_NS, MAX_DELAY_NS, f"{where}: delay_min_ns")
    if (s.train_bps < 0).any() or np.isinf(s.train_bps).any():
        raise InputError(f"{where}: train_bps", "is below 0 or infinite", "a rate, or NaN where none was measured")
    _check_range(np.array([getattr(report, k) for k in _OWN], dtype=object), 0, MAX_COUNT, f"{where}: own losses")
    _check_ports(fabric, report, where)


def possible_rows(stats: PathStats) -> PathStats:
    """Return the joined rows that can be true: no more arrived than was sent.

    Two halves of a row come from two reporters, each of which may look sound alone.
    """
    counts = (stats.sent >= 0) & (stats.received >= 0) & (stats.corrupt >= 0)
    good = counts & (stats.received + stats.corrupt <= stats.sent)
    return stats if good.all() else stats.take(good)


def check_flows(fabric: Fabric, tick_s: float, report: FlowReport, where: str) -> None:
    """Raise InputError unless a sender's report can be one of this fabric."""
    _check_head(fabric, tick_s, report, where)
    paths = report.stats.paths
    if not (fits(fabric, paths) & (paths.kind == PathKind.ONEWAY)).all():
        raise InputError(f"{where}: paths", "are not of this fabric", "give the sender the keeper's fabric spec")
    for name in _FLOW_COUNTS:
        _check_range(getattr(report.stats, name), 0, MAX_COUNT, f"{where}: {name}")


def check_states(fabric: Fabric, ports: PortStates, where: str) -> None:
    """Raise InputError unless port states are of this fabric."""
    sizes = {f.name: fabric.n_links for f in fields(ports)} | {"switch_answers": fabric.n_t0 + fabric.n_t1}
    for name, size in sizes.items():
        if getattr(ports, name).shape != (size,):
            raise InputError(f"{where}: {name}", f"has {getattr(ports, name).size} values", f"{size}")


def check_input(fabric: Fabric, tick_s: float, given: TickInput, where: str) -> None:
    """Raise InputError unless all of a tick's input is of this fabric."""
    if not 0 <= given.tick <= MAX_TICK:
        raise InputError(f"{where}: tick", f"is {given.tick}", f"0 to {MAX_TICK}")
    for report in (*given.reports, *given.late):
        check_report(fabric, tick_s, report, where)
    if any(r.tick != given.tick for r in given.reports):
        raise InputError(f"{where}: reports", f"are not all of tick {given.tick}", "record it again")
    for flows in given.flows:
        check_flows(fabric, tick_s, flows, where)
    if given.ports is not None:
        check_states(fabric, given.ports, where)


def _check_head(fabric: Fabric, tick_s: float, report: TickReport | FlowReport, where: str) -> None:
    if not 0 <= report.node < fabric.n_nodes:
        raise InputError(f"{where}: node", f"is {report.node}", f"0 to {fabric.n_nodes - 1}")
    if not 0 <= report.tick <= MAX_TICK:
        raise InputError(f"{where}: tick", f"is {report.tick}", f"0 to {MAX_TICK}")
    if report.tick_s != tick_s:
        raise InputError(f"{where}: tick_s", f"is {report.tick_s:g}", f"{tick_s:g}, as the keeper's")


def _check_shapes(s: PathStats, where: str) -> None:
    n = len(s)
    columns = {f.name: getattr(s, f.name) for f in fields(PathStats) if f.name != "paths"}
    columns |= {f"path_{f.name}": getattr(s.paths, f.name) for f in fields(Paths)}
    for name, column in columns.items():
        want = (n, N_BINS) if name == "delay_hist" else (n,)
        if column.shape != want:
            raise InputError(f"{where}: {name}", f"has the shape {column.shape}", f"{want}")


def _check_ports(fabric: Fabric, report: TickReport, where: str) -> None:
    width = fabric.nics_per_node * fabric.planes
    for name, values, high in (("port_state", report.port_state, 1), ("port_downs", report.port_downs, MAX_COUNT)):
        if len(values) not in {0, width}:
            raise InputError(f"{where}: {name}", f"has {len(values)} values", f"{width}, one for each port of the node")
        _check_range(np.array(values, dtype=object), UNKNOWN, high, f"{where}: {name}")


def _check_range(values: npt.NDArray[np.int64] | npt.NDArray[np.object_], low: int, high: int, where: str) -> None:
    if len(values) and not (low <= values.min() and values.max() <= high):
        raise InputError(where, f"has values from {values.min()} to {values.max()}", f"{low} to {high}")
