"""One tick of what the traffic saw, per path, and its wire form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.fabric.paths import Paths, join_paths

if TYPE_CHECKING:
    import numpy.typing as npt

SCHEMA = 1


@dataclass(frozen=True)
class FlowStats:
    """Columns over (flow, EV) rows, each (n,) int64; `paths` are ONEWAY rows.

    - sent: transmissions, `retransmitted` of them of data that was sent before
    - lost: transmissions given up as lost in this tick; spurious: of those given up earlier, came after all
    - delivered_bytes: payload acknowledged for the first time
    - state: of the EV, see evstate.State; active: 1 while it carries data
    """

    paths: Paths
    sent: npt.NDArray[np.int64]
    retransmitted: npt.NDArray[np.int64]
    lost: npt.NDArray[np.int64]
    spurious: npt.NDArray[np.int64]
    delivered_bytes: npt.NDArray[np.int64]
    state: npt.NDArray[np.int64]
    active: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.paths)


COLUMNS = tuple(f.name for f in fields(FlowStats) if f.name != "paths")


def join_flows(parts: list[FlowStats]) -> FlowStats:
    """Put rows of several tables one behind the other."""
    columns = {c: np.concatenate([getattr(p, c) for p in parts]) for c in COLUMNS}
    return FlowStats(paths=join_paths([p.paths for p in parts]), **columns)


@dataclass(frozen=True)
class FlowReport:
    """What one node's sender says of one tick.

    `steps`: steps of the ring complete at this node (least of its NICs); `busbw_bps`: payload bits a second that came
    in order, mean of its NICs (a ring's bus bandwidth). Not the paths' losses: `unanswered` transmissions to a peer
    that has fallen silent, `refused` by a local port that is down, `unsent` and `socket_dropped` for want of room in
    this host. `duplicate`, `corrupt`, `stray`: arrivals. `floor_holds`: marks and denials that the floor has refused
    since the sender began. `silent_peers`: flows of this node whose peer is not heard. `deny_version`: the newest
    denied set that is in force, -1 before the first. `ticks_dropped`: whole ticks
    that could not be kept for the keeper since the last report.
    """

    node: int
    tick: int
    tick_s: float
    stats: FlowStats
    steps: int = 0
    busbw_bps: float = 0.0
    unanswered: int = 0
    refused: int = 0
    unsent: int = 0
    socket_dropped: int = 0
    duplicate: int = 0
    corrupt: int = 0
    stray: int = 0
    floor_holds: int = 0
    silent_peers: int = 0
    deny_version: int = -1
    ticks_dropped: int = 0


_HEAD = tuple(f.name for f in fields(FlowReport) if f.name not in {"stats", "tick_s", "busbw_bps"})


def encode_flows(report: FlowReport) -> bytes:
    """Return the wire form: MessagePack, columns as little-endian bytes."""
    s = report.stats
    columns = {c: _pack(getattr(s, c), "<i8") for c in COLUMNS}
    columns |= {f"path_{f.name}": _pack(getattr(s.paths, f.name), "<i4") for f in fields(Paths)}
    head = {name: int(getattr(report, name)) for name in _HEAD}
    floats = {"tick_s": float(report.tick_s), "busbw_bps": float(report.busbw_bps)}
    return bytes(msgpack.packb({"schema": SCHEMA, **head, **floats, "rows": len(s), "columns": columns}))


def decode_flows(data: bytes, *, where: str = "flow report") -> FlowReport:
    """Read the wire form; raises InputError on anything that is not one."""
    try:
        return _decode(msgpack.unpackb(data, strict_map_key=True), where)
    except InputError:
        raise
    except Exception as e:  # whatever a stranger's bytes can raise, the answer is the same
        raise InputError(
            where, f"is not a flow report ({type(e).__name__}: {e})", "see docs/reference/formats.md"
        ) from e


def _decode(d: dict[str, Any], where: str) -> FlowReport:
    if d.get("schema") != SCHEMA:
        raise InputError(f"{where}: schema", f"is {d.get('schema')!r}", f"this release reads schema {SCHEMA}")
    n, columns = int(d["rows"]), d["columns"]
    paths = Paths(*(_column(columns[f"path_{f.name}"], "<i4", n).astype(np.int32) for f in fields(Paths)))
    stats = FlowStats(paths=paths, **{c: _column(columns[c], "<i8", n).astype(np.int64) for c in COLUMNS})
    head = {name: int(d[name]) for name in _HEAD}
    return FlowReport(stats=stats, tick_s=float(d["tick_s"]), busbw_bps=float(d["busbw_bps"]), **head)


def _pack(a: npt.NDArray[Any], dtype: str) -> bytes:
    return np.ascontiguousarray(a, dtype=dtype).tobytes()


def _column(data: bytes, dtype: str, n: int) -> npt.NDArray[Any]:
    column = np.frombuffer(data, dtype=dtype)
    if column.size != n:
        raise ValueError(f"a column has {column.size} values for {n} rows")
    return column
