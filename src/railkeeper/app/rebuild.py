"""Ticks put together again from the history, exactly as the keeper judged them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.app.closed import FRAME, ClosedTick, decode_closed
from railkeeper.app.closed import KIND as CLOSED
from railkeeper.app.history_tables import COUNTS, OWN, PATH_COLUMNS
from railkeeper.app.inputs import TickInput
from railkeeper.base.errors import InputError
from railkeeper.fabric.paths import Paths
from railkeeper.lab.traffic.flowstats import FlowReport, decode_flows
from railkeeper.probe.pathstats import N_BINS, NO_TIME, UNKNOWN, PathStats, TickReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from railkeeper.telemetry.ports import PortStates

# So many ticks are put together at a time: bounds the memory.
BATCH_TICKS = 600
# A tick's late reports and flows are of ticks that the agents kept for it: at most so old.
OLDEST_TICKS = 300
# A sender's messages carry no tick outside their bytes; they came at most so long before their tick was closed.
FLOWS_WAIT_S = 60.0

Key = tuple[int, int]


@dataclass
class _Batch:
    reports: dict[Key, TickReport]
    flows: dict[Key, FlowReport]
    frames: dict[int, tuple[bytes, ...]]


def rebuild_ticks(db: Any, first_tick: int, last_tick: int, *, since_t: float, where: str) -> Iterator[TickInput]:
    """Yield the ticks from `first_tick` to `last_tick` that were closed at or after `since_t` (unix s), in order.

    `db` is a connection made by `history.connect`. Raises InputError where part of a tick is missing: it would be
    judged otherwise than it was.
    """
    ports: PortStates | None = _ports_before(db, first_tick, since_t, where)
    for start in range(first_tick, last_tick + 1, BATCH_TICKS):
        closed = _closed(db, start, min(start + BATCH_TICKS - 1, last_tick), since_t, where)
        if not closed:
            continue
        batch = _gather(db, closed, where)
        for _, c in closed:
            ports = ports if c.same_ports else c.ports
            yield _tick(c, batch, ports, where)


def _closed(db: Any, first: int, last: int, since_t: float, where: str) -> list[tuple[float, ClosedTick]]:
    """Return the ticks with the times at which they were closed."""
    sql = "SELECT t, body FROM messages WHERE kind = ? AND t >= ? AND seq BETWEEN ? AND ? ORDER BY t, seq"
    found = db.execute(sql, [CLOSED, since_t, first, last]).fetchall()
    return [(t, decode_closed(body, where=where)) for t, body in found]


def _ports_before(db: Any, tick: int, since_t: float, where: str) -> PortStates | None:
    sql = "SELECT body FROM messages WHERE kind = ? AND t >= ? AND seq < ? ORDER BY seq DESC LIMIT 200"
    for row in db.execute(sql, [CLOSED, since_t, tick]).fetchall():
        c = decode_closed(row[0], where=where)
        if not c.same_ports:
            return c.ports
    return None


def _tick(c: ClosedTick, batch: _Batch, ports: PortStates | None, where: str) -> TickInput:
    try:
        return TickInput(
            tick=c.tick,
            reports=tuple(batch.reports[key] for key in c.reports),
            late=tuple(batch.reports[key] for key in c.late),
            ports=ports,
            flows=tuple(batch.flows[key] for key in c.flows),
            confirmations=c.confirmations,
            frame=batch.frames.get(c.tick, ()),
            jobs=c.jobs,
        )
    except KeyError as e:
        node, tick = e.args[0]
        raise InputError(f"{where}: tick {c.tick}", f"lacks what n{node} said of tick {tick}", "begin later") from e


def _gather(db: Any, closed: list[tuple[float, ClosedTick]], where: str) -> _Batch:
    ticks = [tick for _, c in closed for _, tick in (*c.reports, *c.late)]
    reports = _reports(db, min(ticks), max(ticks)) if ticks else {}
    keys = {k for _, c in closed for k in c.flows}
    times = [t for t, _ in closed]
    flows = _flows(db, keys, min(times) - FLOWS_WAIT_S, max(times), where) if keys else {}
    return _Batch(reports, flows, _frames(db, [(t, c) for t, c in closed if c.pieces], where))


def _frames(db: Any, closed: list[tuple[float, ClosedTick]], where: str) -> dict[int, tuple[bytes, ...]]:
    """Return the pieces of the frames by tick: they were written with their tick, at the same time."""
    found = {}
    for t, c in closed:
        sql = "SELECT body FROM messages WHERE kind = ? AND seq = ? AND t = ?"
        pieces = tuple(bytes(row[0]) for row in db.execute(sql, [FRAME, c.tick, t]).fetchall())
        if len(pieces) != c.pieces:
            raise InputError(
                f"{where}: tick {c.tick}", f"has {len(pieces)} of {c.pieces} pieces of its frame", "begin later"
            )
        found[c.tick] = pieces
    return found


def _flows(db: Any, keys: set[Key], from_t: float, to_t: float, where: str) -> dict[Key, FlowReport]:
    found: dict[Key, FlowReport] = {}
    sql = "SELECT body FROM messages WHERE kind = 'flows' AND t BETWEEN ? AND ?"
    for (body,) in db.execute(sql, [from_t, to_t]).fetchall():
        report = decode_flows(body, where=where)
        if (report.node, report.tick) in keys:
            found.setdefault((report.node, report.tick), report)
    return found


def _reports(db: Any, first: int, last: int) -> dict[Key, TickReport]:
    asked = [first - OLDEST_TICKS, last]
    heads = db.sql("SELECT * FROM reports WHERE tick BETWEEN ? AND ?", params=asked).to_arrow_table()
    paths = db.sql("SELECT * FROM paths WHERE tick BETWEEN ? AND ?", params=asked).to_arrow_table()
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
