"""PathStats: one tick of path evidence from one reporter, and its wire form.

A tick is numbered floor(unix time / tick_s). A probe carries the tick in which it was sent, and is counted under that
number wherever it arrives, so that a sender's and a receiver's halves join exactly, without a guess about packets in
flight. A number that the reporter can't know is -1 (counts) or NO_TIME (times) or NaN (rates), never 0.
"""

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
UNKNOWN = -1
NO_TIME = int(np.iinfo(np.int64).max)

# 32 delay bins: bin 0 holds all below 10 us, bin i holds [EDGES[i-1], EDGES[i]), the last all from 10 s up.
N_BINS = 32
HIST_EDGES_NS = np.round(10_000 * 10 ** (np.arange(N_BINS - 1) / 5)).astype(np.int64)


@dataclass(frozen=True)
class PathStats:
    """Columns over path rows, each (n,) unless said otherwise.

    - sent, received: probes of this tick; the half that the reporter can't see is -1
    - corrupt: arrived, path known, content damaged; these do not count as received
    - reordered, duplicate: arrivals, out of the received
    - delay_min_ns: least round trip (bounces) or one-way delay (ONEWAY, sender's clock against receiver's)
    - delay_hist: (n, 32) arrivals by delay, see HIST_EDGES_NS
    - train_bps: best rate at which a back-to-back train of probes arrived; NaN where none did
    """

    paths: Paths
    sent: npt.NDArray[np.int64]
    received: npt.NDArray[np.int64]
    corrupt: npt.NDArray[np.int64]
    reordered: npt.NDArray[np.int64]
    duplicate: npt.NDArray[np.int64]
    delay_min_ns: npt.NDArray[np.int64]
    delay_hist: npt.NDArray[np.uint32]
    train_bps: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> PathStats:
        """Return the chosen rows."""
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "paths"}
        return PathStats(paths=self.paths.take(rows), **columns)


def empty_stats(paths: Paths) -> PathStats:
    """Return rows in which nothing is known yet."""
    n = len(paths)
    unknown = np.full(n, UNKNOWN, dtype=np.int64)
    zero = np.zeros(n, dtype=np.int64)
    return PathStats(
        paths=paths, sent=unknown, received=unknown.copy(), corrupt=zero, reordered=zero.copy(), duplicate=zero.copy(),
        delay_min_ns=np.full(n, NO_TIME, dtype=np.int64), delay_hist=np.zeros((n, N_BINS), dtype=np.uint32),
        train_bps=np.full(n, np.nan),
    )  # fmt: skip


def join_stats(parts: list[PathStats]) -> PathStats:
    """Put rows of several tables one behind the other."""
    columns = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(PathStats) if f.name != "paths"
    }
    return PathStats(paths=join_paths([p.paths for p in parts]), **columns)


@dataclass(frozen=True)
class TickReport:
    """What one agent says of one tick.

    The losses that are the agent's own: `unsent` probes that it could not send, `socket_dropped` arrivals that its
    socket had no room for, `host_dropped` packets that its host's receive queues dropped (any of these above 0 makes
    the tick's loss evidence from this reporter unusable), `ticks_dropped` whole ticks it had to forget since the last
    report, `stray` arrivals whose path could not be told, `late` arrivals whose tick was closed already (they count in
    no `received`, but their delays are in this tick's `delay_min_ns` and `delay_hist`). `port_state` is (ports of the
    node,) 1 up, 0 down, -1 unread, in the order of port ids; `port_downs` the number of times that each port has lost
    its carrier, -1 unread.
    """

    node: int
    tick: int
    tick_s: float
    stats: PathStats
    unsent: int = 0
    socket_dropped: int = 0
    host_dropped: int = 0
    ticks_dropped: int = 0
    stray: int = 0
    late: int = 0
    port_state: tuple[int, ...] = ()
    port_downs: tuple[int, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether losses in this tick can't be the agent's own."""
        return not (self.unsent or self.socket_dropped or self.host_dropped)


def encode_report(report: TickReport) -> bytes:
    """Return the wire form: MessagePack, columns as little-endian bytes."""
    s = report.stats
    head = {f.name: getattr(report, f.name) for f in fields(report) if f.name != "stats"}
    columns = {f.name: _pack(getattr(s, f.name)) for f in fields(s) if f.name != "paths"}
    columns |= {f"path_{f.name}": _pack(getattr(s.paths, f.name)) for f in fields(s.paths)}
    return bytes(msgpack.packb({"schema": SCHEMA, **head, "rows": len(s), "columns": columns}))


def decode_report(data: bytes, *, where: str = "report") -> TickReport:
    """Read the wire form; raises InputError on anything that is not one."""
    try:
        d = msgpack.unpackb(data, strict_map_key=True)
        return _decode(d, where)
    except InputError:
        raise
    except Exception as e:  # whatever a stranger's bytes can raise, the answer is the same
        raise InputError(
            where, f"is not a tick report ({type(e).__name__}: {e})", "see docs/reference/formats.md"
        ) from e


def _pack(a: npt.NDArray[Any]) -> bytes:
    return np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")).tobytes()


_DTYPES: dict[str, npt.DTypeLike] = {"delay_hist": np.uint32, "train_bps": np.float64}


def _decode(d: dict[str, Any], where: str) -> TickReport:
    if d.get("schema") != SCHEMA:
        raise InputError(f"{where}: schema", f"is {d.get('schema')!r}", f"this release reads schema {SCHEMA}")
    n, columns = int(d["rows"]), d["columns"]
    paths = Paths(*(_column(columns[f"path_{f.name}"], np.int32, n) for f in fields(Paths)))
    values = {
        f.name: _column(columns[f.name], _DTYPES.get(f.name, np.int64), n)
        for f in fields(PathStats)
        if f.name != "paths"
    }
    values["delay_hist"] = values["delay_hist"].reshape(n, N_BINS)
    counts = ("unsent", "socket_dropped", "host_dropped", "ticks_dropped", "stray", "late")
    return TickReport(
        node=int(d["node"]),
        tick=int(d["tick"]),
        tick_s=float(d["tick_s"]),
        stats=PathStats(paths=paths, **values),
        port_state=tuple(map(int, d["port_state"])),
        port_downs=tuple(map(int, d["port_downs"])),
        **{key: int(d[key]) for key in counts},
    )


def _column(data: bytes, dtype: npt.DTypeLike, n: int) -> npt.NDArray[Any]:
    column = np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder("<"))
    if n < 0 or column.size not in {n, n * N_BINS}:
        raise ValueError(f"a column has {column.size} values for {n} rows")
    return column
