"""The tables of the history: which columns they have, and how messages become rows.

A number that nobody knew is null, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from railkeeper.app.ticklog import LogRecord
from railkeeper.base.errors import InputError
from railkeeper.probe.pathstats import N_BINS, NO_TIME, UNKNOWN, TickReport, decode_report, join_stats
from railkeeper.telemetry.frame import ABSENT

Decoder = Callable[[Sequence[LogRecord]], dict[str, pa.Table]]

PATH_COLUMNS = ("kind", "src", "dst", "plane", "t1", "far", "back")
COUNTS = ("sent", "received", "corrupt", "reordered", "duplicate")
OWN = ("unsent", "socket_dropped", "host_dropped", "ticks_dropped", "stray", "late")

_SLIS = pa.schema(
    [("t", pa.float64()), ("sli", pa.string()), ("scope", pa.string()), ("good", pa.float64()), ("total", pa.float64())]
)

SCHEMAS: dict[str, pa.Schema] = {
    "paths": pa.schema(
        [("t", pa.float64()), ("tick", pa.int64()), ("reporter", pa.int32())]
        + [(name, pa.int32()) for name in PATH_COLUMNS]
        + [(name, pa.int64()) for name in COUNTS]
        + [("delay_min_ns", pa.int64()), ("delay_hist", pa.list_(pa.uint32(), N_BINS)), ("train_bps", pa.float64())]
    ),
    "reports": pa.schema(
        [("t", pa.float64()), ("tick", pa.int64()), ("reporter", pa.int32()), ("tick_s", pa.float64())]
        + [(name, pa.int64()) for name in OWN]
        + [("port_state", pa.list_(pa.int8())), ("port_downs", pa.list_(pa.int64()))]
    ),
    "events": pa.schema(
        [("t", pa.float64()), *((name, pa.string()) for name in ("type", "entity", "what", "verdict", "body", "run"))]
    ),
    "slis": _SLIS,
    "sli_hours": _SLIS,
    "messages": pa.schema(
        [("t", pa.float64()), ("kind", pa.string()), ("name", pa.string()), ("seq", pa.int64()), ("body", pa.binary())]
    ),
}


def decode_records(records: Sequence[LogRecord], decoders: Mapping[str, Decoder]) -> dict[str, pa.Table]:
    """Return the tables of a run of records; kinds without a decoder become rows of `messages`."""
    kinds: dict[str, list[LogRecord]] = {}
    for record in records:
        kinds.setdefault(record.kind, []).append(record)
    known: Mapping[str, Decoder] = {**DECODERS, **decoders}
    parts: dict[str, list[pa.Table]] = {}
    for kind, rows in kinds.items():
        for name, table in known.get(kind, message_tables)(rows).items():
            parts.setdefault(name, []).append(table)
    return {name: pa.concat_tables(tables, promote_options="default") for name, tables in parts.items()}


def message_tables(records: Sequence[LogRecord]) -> dict[str, pa.Table]:
    """Keep messages as the bytes they are."""
    columns = zip(*records, strict=True) if records else ([], [], [], [], [])
    return {
        "messages": pa.table(dict(zip(SCHEMAS["messages"].names, map(list, columns), strict=True)), SCHEMAS["messages"])
    }


def event_tables(records: Sequence[LogRecord]) -> dict[str, pa.Table]:
    """Return `events`: a row a line of the keeper; `body` is the line as it was told, in JSON."""
    told = [(record, json.loads(line)) for record in records for line in record.body.splitlines()]
    lines = [(record.t, line) for record, line in told]
    columns: dict[str, list[Any]] = {
        "t": [t for t, _ in lines],
        "type": [e["type"] for _, e in lines],
        "entity": [_first(e, ("entity", "target", "name")) for _, e in lines],
        "what": [_first(e, ("what", "kind", "intent", "detector")) for _, e in lines],
        "verdict": [_first(e, ("verdict", "status", "severity")) for _, e in lines],
        "body": [json.dumps(e, sort_keys=True, separators=(",", ":")) for _, e in lines],
        "run": [record.name.partition("/")[2] for record, _ in told],
    }
    return {"events": pa.table(columns, SCHEMAS["events"])}


def _first(event: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((str(event[name]) for name in names if event.get(name) is not None), None)


def tick_tables(records: Sequence[LogRecord]) -> dict[str, pa.Table]:
    """Return `paths` and `reports` of tick reports, and what can't be read as `messages`.

    A report that is there twice (sent again because its acknowledgement was lost) counts once.
    """
    reports: dict[tuple[int, int], TickReport] = {}
    unread: list[LogRecord] = []
    for record in records:
        try:
            report = decode_report(record.body, where=f"tick of {record.name}")
        except InputError:
            unread.append(record)
            continue
        # The first one counts, here as in the keeper.
        reports.setdefault((report.node, report.tick), report)
    tables = {"paths": _paths(list(reports.values())), "reports": _reports(list(reports.values()))} if reports else {}
    return tables | (message_tables(unread) if unread else {})


def _paths(reports: Sequence[TickReport]) -> pa.Table:
    s = join_stats([r.stats for r in reports])
    rows = [len(r.stats) for r in reports]
    ticks = np.repeat(np.array([r.tick for r in reports], dtype=np.int64), rows)
    starts = np.repeat(np.array([r.tick * r.tick_s for r in reports]), rows)
    columns: list[Any] = [starts, ticks, np.repeat(np.array([r.node for r in reports], dtype=np.int32), rows)]
    columns += [getattr(s.paths, name) for name in PATH_COLUMNS]
    columns += [_known(getattr(s, name), UNKNOWN) for name in COUNTS]
    hist = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(s.delay_hist).reshape(-1)), N_BINS)
    rate = pa.array(s.train_bps, mask=np.isnan(s.train_bps))
    return pa.table([*columns, _known(s.delay_min_ns, NO_TIME), hist, rate], schema=SCHEMAS["paths"])


def _known(values: np.ndarray[Any, np.dtype[np.int64]], unknown: int) -> pa.Array:
    return pa.array(values, mask=values == unknown)


def _reports(reports: Sequence[TickReport]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "t": [r.tick * r.tick_s for r in reports],
        "tick": [r.tick for r in reports],
        "reporter": [r.node for r in reports],
        "tick_s": [r.tick_s for r in reports],
        **{name: [getattr(r, name) for r in reports] for name in OWN},
        "port_state": [_nullable(r.port_state) for r in reports],
        "port_downs": [_nullable(r.port_downs) for r in reports],
    }
    return pa.table(columns, schema=SCHEMAS["reports"])


def _nullable(values: Sequence[int]) -> list[int | None]:
    return [None if v == UNKNOWN else v for v in values]


def sli_tables(records: Sequence[LogRecord]) -> dict[str, pa.Table]:
    """Return `slis`, a row an indicator, scope and minute, or `sli_hours`: the table has the name of the records."""
    rows = [row for record in records for row in msgpack.unpackb(record.body)]
    columns = zip(*rows, strict=True) if rows else ([], [], [], [], [])
    return {records[0].kind: pa.table(list(map(list, columns)), schema=_SLIS)} if records else {}


def frame_tables(records: Sequence[LogRecord]) -> dict[str, pa.Table]:
    """Return `port_signals`, `nic_signals`, …: a row an entity and frame, a column a signal; and the raw pieces.

    `id` is the entity's number in its kind.
    """
    tables: dict[str, list[pa.Table]] = {}
    for record in records:
        kind, columns = signal_columns(record.body)
        tables.setdefault(f"{kind}_signals", []).append(pa.table(columns))
    made = {name: pa.concat_tables(parts, promote_options="default") for name, parts in tables.items()}
    return made | message_tables(records)


def signal_columns(piece: bytes) -> tuple[str, dict[str, Any]]:
    """Return the kind of entity of a piece of a frame, and its columns: what was not read is null."""
    d = msgpack.unpackb(piece)
    ids = np.frombuffer(d["ids"], dtype="<i4")
    columns: dict[str, Any] = {
        "t": np.full(len(ids), float(d["t_s"])),
        "id": ids,
        "t_ns": np.frombuffer(d["t_ns"], dtype="<i8"),
    }
    if "names" in d:
        columns["name"] = pa.array(map(str, d["names"]), pa.string())
    counters = np.frombuffer(d["counters"], dtype="<u8").reshape(len(d["counter_names"]), len(ids))
    columns |= {n: pa.array(v, mask=v == ABSENT) for n, v in zip(d["counter_names"], counters, strict=True)}
    gauges = np.frombuffer(d["gauges"], dtype="<f4").reshape(len(d["gauge_names"]), len(ids))
    columns |= {n: pa.array(v, mask=np.isnan(v)) for n, v in zip(d["gauge_names"], gauges, strict=True)}
    return str(d["kind"]), columns


# kind of record -> what makes tables of it
DECODERS: dict[str, Decoder] = {
    "tick": tick_tables,
    "events": event_tables,
    "slis": sli_tables,
    "sli_hours": sli_tables,
    "frame": frame_tables,
}
