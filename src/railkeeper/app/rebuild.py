"""Ticks put together again from the history, exactly as the keeper judged them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from railkeeper.app.closed import CLOSED, FRAME, WHOLE_PORTS_TICKS, ClosedTick, decode_closed
from railkeeper.app.history_tables import COUNTS, OWN, PATH_COLUMNS
from railkeeper.app.inputs import TickInput
from railkeeper.base.errors import InputError
from railkeeper.fabric.paths import Paths
from railkeeper.lab.traffic.flowstats import FlowReport, decode_flows
from railkeeper.probe.pathstats import N_BINS, NO_TIME, UNKNOWN, PathStats, TickReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from railkeeper.fabric.model import Fabric
    from railkeeper.telemetry.ports import PortStates

# So many reports are put together at a time: bounds the memory, whatever the size of the fabric.
BATCH_REPORTS, BATCH_TICKS = 20_000, 600
# A sender's messages carry no tick outside their bytes. They came at most so long before their tick ended, or, to a
# keeper that was held up, after it.
FLOWS_WAIT_S, HELD_UP_TICKS = 60.0, 300

Key = tuple[int, int]


class Run(NamedTuple):
    """A run of a keeper in a history: its name there, and what there is of its ticks.

    - db: a connection made by `history.connect`; where: for errors
    """

    db: Any
    name: str
    fabric: Fabric
    tick_s: float
    where: str


@dataclass
class _Batch:
    reports: dict[Key, TickReport]
    flows: dict[Key, FlowReport]
    frames: dict[int, list[bytes]]


def rebuild_ticks(run: Run, first: int, last: int) -> Iterator[TickInput]:
    """Yield the ticks of a run from number `first` to `last` (0 is the run's first), in the order of their closing.

    Late reports, which are not judged, are left out. Raises InputError where a tick or a part of one is missing: it
    would be judged otherwise than it was.
    """
    ports: PortStates | None = _ports_before(run, first)
    at_once = max(1, min(BATCH_TICKS, BATCH_REPORTS // run.fabric.n_nodes))
    for start in range(first, last + 1, at_once):
        end = min(start + at_once - 1, last)
        closed = _closed(run, start, end)
        batch = _gather(run, closed)
        for number, c in closed.items():
            ports = ports if c.same_ports else c.ports
            yield _tick(c, batch, number, ports, run.where)


def _closed(run: Run, first: int, last: int) -> dict[int, ClosedTick]:
    """Return the ticks by number."""
    sql = "SELECT seq, body FROM messages WHERE kind = ? AND name = ? AND seq BETWEEN ? AND ? ORDER BY seq"
    found = run.db.execute(sql, [CLOSED, run.name, first, last]).fetchall()
    closed = {number: decode_closed(body, where=run.where) for number, body in found}
    if len(closed) != last - first + 1:
        missing = next(k for k in range(first, last + 1) if k not in closed)
        after = f" after tick {closed[missing - 1].tick}" if missing - 1 in closed else ""
        raise InputError(run.where, f"lacks {last - first + 1 - len(closed)} ticks{after}", "begin later")
    return closed


def _ports_before(run: Run, number: int) -> PortStates | None:
    sql = "SELECT body FROM messages WHERE kind = ? AND name = ? AND seq BETWEEN ? AND ? ORDER BY seq DESC"
    oldest = number - WHOLE_PORTS_TICKS - 1
    for row in run.db.execute(sql, [CLOSED, run.name, oldest, number - 1]).fetchall():
        c = decode_closed(row[0], where=run.where)
        if not c.same_ports:
            return c.ports
    return None


def _tick(c: ClosedTick, batch: _Batch, number: int, ports: PortStates | None, where: str) -> TickInput:
    try:
        frame = batch.frames.get(number, [])
        if len(frame) != c.pieces:
            raise InputError(
                f"{where}: tick {c.tick}", f"has {len(frame)} of {c.pieces} pieces of its frame", "begin later"
            )
        return TickInput(
            tick=c.tick,
            reports=tuple(batch.reports[key] for key in c.reports),
            ports=ports,
            flows=tuple(batch.flows[key] for key in c.flows),
            confirmations=c.confirmations,
            frame=tuple(frame),
            jobs=c.jobs,
        )
    except KeyError as e:
        node, tick = e.args[0]
        raise InputError(f"{where}: tick {c.tick}", f"lacks what n{node} said of tick {tick}", "begin later") from e


def _gather(run: Run, closed: dict[int, ClosedTick]) -> _Batch:
    ticks = [tick for c in closed.values() for _, tick in c.reports]
    reports = _reports(run.db, min(ticks), max(ticks)) if ticks else {}
    keys = {k for c in closed.values() for k in c.flows}
    ends = [(c.tick + 1) * run.tick_s for c in closed.values()]
    flows = _flows(run, keys, min(ends), max(ends)) if keys else {}
    numbers = [number for number, c in closed.items() if c.pieces]
    return _Batch(reports, flows, _frames(run, numbers[0], numbers[-1]) if numbers else {})


def _frames(run: Run, first: int, last: int) -> dict[int, list[bytes]]:
    """Return the pieces of frames by the number of their tick, in the order in which they were written."""
    found: dict[int, list[bytes]] = {}
    sql = "SELECT seq, body FROM messages WHERE kind = ? AND name = ? AND seq BETWEEN ? AND ?"
    for number, body in run.db.execute(sql, [FRAME, run.name, first, last]).fetchall():
        found.setdefault(number, []).append(bytes(body))
    return found


def _flows(run: Run, keys: set[Key], first_end: float, last_end: float) -> dict[Key, FlowReport]:
    found: dict[Key, FlowReport] = {}
    sql = "SELECT body FROM messages WHERE kind = 'flows' AND t BETWEEN ? AND ? ORDER BY t"
    span = [first_end - FLOWS_WAIT_S - 2 * run.tick_s, last_end + HELD_UP_TICKS * run.tick_s]
    for (body,) in run.db.execute(sql, span).fetchall():
        report = decode_flows(body, where=run.where)
        if (report.node, report.tick) in keys:
            found.setdefault((report.node, report.tick), report)
    return found


def _reports(db: Any, first: int, last: int) -> dict[Key, TickReport]:
    heads = db.sql("SELECT * FROM reports WHERE tick BETWEEN ? AND ?", params=[first, last]).to_arrow_table()
    paths = db.sql("SELECT * FROM paths WHERE tick BETWEEN ? AND ?", params=[first, last]).to_arrow_table()
    rows = _rows_by_key(paths)
    stats = _stats(paths)
    empty = np.empty(0, dtype=np.int64)
    made = {}
    for head in heads.to_pylist():
        key = (head["reporter"], head["tick"])
        made[key] = TickReport(
            node=key[0], tick=key[1], tick_s=head["tick_s"], stats=stats.take(rows.get(key, empty)),
            port_state=_plain(head["port_state"]), port_downs=_plain(head["port_downs"]),
            **{name: head[name] for name in OWN},
        )  # fmt: skip
    return made


def _plain(values: list[int | None] | None) -> tuple[int, ...]:
    return tuple(UNKNOWN if v is None else v for v in values or ())


def _rows_by_key(paths: pa.Table) -> dict[Key, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return which rows belong to which report, each in the order in which they were reported."""
    if not paths.num_rows:
        return {}
    node, tick = paths["reporter"].to_numpy().astype(np.int64), paths["tick"].to_numpy()
    order = np.lexsort((node, tick))
    change = (np.diff(node[order]) != 0) | (np.diff(tick[order]) != 0)
    parts = np.split(order, np.flatnonzero(change) + 1)
    return {(int(node[p[0]]), int(tick[p[0]])): p for p in parts}


def _stats(table: pa.Table) -> PathStats:
    def known(name: str, missing: float, dtype: type) -> Any:
        return table[name].fill_null(missing).to_numpy().astype(dtype)

    hist = table["delay_hist"].combine_chunks().flatten().to_numpy().astype(np.uint32).reshape(-1, N_BINS)
    return PathStats(
        paths=Paths(*(table[name].to_numpy().astype(np.int32) for name in PATH_COLUMNS)),
        **{name: known(name, UNKNOWN, np.int64) for name in COUNTS},
        delay_min_ns=known("delay_min_ns", NO_TIME, np.int64),
        delay_hist=hist,
        train_bps=known("train_bps", np.nan, np.float64),
    )
