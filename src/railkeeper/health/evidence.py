"""The last minute of path evidence, by row and tick: losses, damage, least delays, train speeds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.probe.pathstats import NO_TIME

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fault import Observation
    from railkeeper.health.rows import Rows

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

KEPT = 128  # ticks of counts; 64 s at half a second
RECENT = 16  # ticks of delays and trains


@dataclass
class Ring:
    """Values of the last ticks, (kept, rows); index 0 of `last` is the newest tick."""

    kept: int
    empty: float
    dtype: npt.DTypeLike
    data: npt.NDArray[np.generic] = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        self.data = np.empty((self.kept, 0), dtype=self.dtype)

    def push(self, n_rows: int, row: Longs, value: npt.NDArray[np.generic]) -> None:
        """Begin a tick and put down what is known of it."""
        missing = n_rows - self.data.shape[1]
        if missing > 0:
            new = np.full((self.kept, missing), self.empty, dtype=self.dtype)
            self.data = np.concatenate([self.data, new], axis=1)
        self.at = (self.at + 1) % self.kept
        self.data[self.at] = self.empty
        self.data[self.at, row] = value

    def last(self, ticks: int) -> npt.NDArray[np.generic]:
        """Return the newest `ticks`, newest first, as (ticks, rows)."""
        return self.data[(self.at - np.arange(min(ticks, self.kept))) % self.kept]

    def forget(self, row: Longs, *, newest: int = 0, oldest: int | None = None) -> None:
        """Empty rows in the ticks of age `newest` to `oldest` (to the end, if not given)."""
        ages = np.arange(newest, self.kept if oldest is None else min(oldest + 1, self.kept))
        row = row[row < self.data.shape[1]]  # rows that are new in this tick have no past
        self.data[np.ix_((self.at - ages) % self.kept, row)] = self.empty


@dataclass
class Counts:
    """Probes and how many of them went wrong in one way."""

    n: Ring = field(default_factory=lambda: Ring(KEPT, 0, np.int32))
    x: Ring = field(default_factory=lambda: Ring(KEPT, 0, np.int32))

    def sums(self, newest: int, oldest: int) -> tuple[Longs, Longs]:
        """Return sums (rows,) over the ticks of age newest <= age < oldest."""
        ages = (self.n.at - np.arange(newest, min(oldest, KEPT))) % KEPT
        return self.n.data[ages].sum(axis=0, dtype=np.int64), self.x.data[ages].sum(axis=0, dtype=np.int64)

    def forget(self, row: Longs, *, newest: int = 0, oldest: int | None = None) -> None:
        """Empty rows in the ticks of age `newest` to `oldest`."""
        self.n.forget(row, newest=newest, oldest=oldest)
        self.x.forget(row, newest=newest, oldest=oldest)


@dataclass(frozen=True)
class TickRows:
    """One tick by row number; rows that say nothing have sent 0, delay inf and train NaN."""

    sent: Longs
    received: Longs
    corrupt: Longs
    delay_ms: Floats
    train_bps: Floats


def tick_rows(rows: Rows, obs: Observation, untrusted: set[int]) -> TickRows:
    """Spread an observation over the registry; loss evidence of untrusted nodes is left out."""
    s = obs.stats
    at = rows.number(s.paths)
    n = len(rows)
    known = (s.sent > 0) & (s.received >= 0)
    if untrusted:
        bad = np.fromiter(untrusted, dtype=np.int64)
        known &= ~(np.isin(rows.src_node[at], bad) | np.isin(rows.dst_node[at], bad))
    out = TickRows(
        sent=np.zeros(n, dtype=np.int64), received=np.zeros(n, dtype=np.int64), corrupt=np.zeros(n, dtype=np.int64),
        delay_ms=np.full(n, np.inf), train_bps=np.full(n, np.nan),
    )  # fmt: skip
    k = at[known]
    out.sent[k] = s.sent[known]
    out.corrupt[k] = np.minimum(s.corrupt[known], s.sent[known])
    out.received[k] = np.minimum(s.received[known], out.sent[k] - out.corrupt[k])
    timed = s.delay_min_ns != NO_TIME
    out.delay_ms[at[timed]] = s.delay_min_ns[timed] / 1e6
    out.train_bps[at] = s.train_bps
    return out
