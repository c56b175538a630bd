"""From single probes to one tick's PathStats: arithmetic on arrays, no clock, no socket.

A probe counts under the tick in which it was sent. One that comes after its tick was closed is late: it counts in no
`received`, but its delay is evidence and goes to the tick that is closed next (a path that delays by seconds shows
loss and, a little later, the delay that explains it).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths, join_paths
from railkeeper.probe.pathstats import HIST_EDGES_NS, N_BINS, NO_TIME, UNKNOWN, PathStats
from railkeeper.probe.wire import FRAME_OVERHEAD_BYTES, fits, paths_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.probe.wire import Probes, Words

    Counts = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

# A train's first probe may pass a shaper on its burst allowance: the rate is taken from the second on, over at least
# two gaps.
MIN_TRAIN = 4


@dataclass(frozen=True)
class Table:
    """Paths (n,) with their `keys` (see wire), and which of them end `here`, at this agent."""

    paths: Paths
    keys: Words
    here: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def _sorted(self) -> tuple[Rows, Words]:
        order = np.argsort(self.keys)
        return order, self.keys[order]

    def find(self, keys: Words) -> Rows:
        """Return (m,) the rows that have these keys, -1 where none has."""
        order, known = self._sorted
        if not len(known):
            return np.full(len(keys), -1, dtype=np.intp)
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[place] == keys, order[place], -1)


def belongs(fabric: Fabric, node: int, own: Table, probes: Probes) -> npt.NDArray[np.bool_]:
    """Return (n,) which probes are this agent's business: of a path of its own, or one way to one of its NICs."""
    ours = own.find(probes.key) >= 0
    rest = np.flatnonzero(~ours)
    if len(rest):
        paths = paths_of(probes.words[rest])
        ours[rest] = (paths.kind == PathKind.ONEWAY) & fits(fabric, paths) & (fabric.node_of(paths.dst) == node)
    return ours


def tick_stats(own: Table, sent: Counts, probes: Probes, late: Probes) -> PathStats:
    """Return the evidence of one tick: a row for each path of `own`, then one for each other path of the probes.

    `sent` (n,) counts the probes of this tick that left; `probes` are those of this tick that came in time, in order
    of arrival; `late` those of any tick that did not.
    """
    table, rows, late_rows = _with_strangers(own, probes, late)
    n, ok = len(table), probes.intact
    good, good_rows = probes.take(ok), rows[ok]
    twice, behind = _repeats(good_rows, good.seq)
    received = np.bincount(good_rows[~twice], minlength=n)
    timed = np.concatenate([good_rows, late_rows[late.intact]])
    delay = np.concatenate([good.received_ns - good.sent_ns, _delays(late)])
    delay_min, hist = _delay_columns(table, timed, delay)
    return PathStats(
        paths=table.paths,
        sent=np.concatenate([sent, np.full(n - len(own), UNKNOWN)]).astype(np.int64),
        received=np.where(table.here, received, UNKNOWN).astype(np.int64),
        corrupt=np.bincount(rows[~ok], minlength=n).astype(np.int64),
        reordered=np.bincount(good_rows[behind & ~twice], minlength=n).astype(np.int64),
        duplicate=np.bincount(good_rows[twice], minlength=n).astype(np.int64),
        delay_min_ns=delay_min,
        delay_hist=hist,
        train_bps=_train_bps(n, good_rows, good),
    )


def _with_strangers(own: Table, probes: Probes, late: Probes) -> tuple[Table, Rows, Rows]:
    """Return the table with rows for all paths seen, and the row of each probe."""
    keys = np.concatenate([probes.key, late.key])
    rows = own.find(keys)
    new = np.flatnonzero(rows < 0)
    if not len(new):
        return own, rows[: len(probes)], rows[len(probes) :]
    new_keys, first, place = np.unique(keys[new], return_index=True, return_inverse=True)
    rows[new] = len(own) + place
    words = np.concatenate([probes.words, late.words])[new[first]]
    table = Table(
        paths=join_paths([own.paths, paths_of(words)]),
        keys=np.concatenate([own.keys, new_keys]),
        here=np.concatenate([own.here, np.ones(len(new_keys), dtype=np.bool_)]),
    )
    return table, rows[: len(probes)], rows[len(probes) :]


def _repeats(rows: Rows, seq: Counts) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return, for probes in order of arrival, which came a second time and which after a later one."""
    twice, behind = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    place = (rows.astype(np.int64) << 32) | seq
    by_path = np.argsort(rows, kind="stable")
    grouped = place[by_path]
    # Grouped places rise from path to path, so one running maximum over all never reaches into the next path.
    behind[by_path[1:]] = grouped[1:] < np.maximum.accumulate(grouped)[:-1]
    by_place = np.argsort(place, kind="stable")
    twice[by_place[1:]] = place[by_place][1:] == place[by_place][:-1]
    return twice, behind


def _delays(p: Probes) -> Counts:
    return np.asarray((p.received_ns - p.sent_ns)[p.intact])


def _delay_columns(table: Table, rows: Rows, delay_ns: Counts) -> tuple[Counts, npt.NDArray[np.uint32]]:
    """Least delay and histogram per row; a round trip below 0 is a clock that was set, and no delay."""
    n = len(table)
    real = (delay_ns >= 0) | (table.paths.kind[rows] == PathKind.ONEWAY)
    rows, delay_ns = rows[real], delay_ns[real]
    least = np.full(n, NO_TIME, dtype=np.int64)
    np.minimum.at(least, rows, delay_ns)
    bins = np.searchsorted(HIST_EDGES_NS, delay_ns, side="right")
    hist = np.bincount(rows * N_BINS + bins, minlength=n * N_BINS)
    return least, hist.astype(np.uint32).reshape(n, N_BINS)


def _train_bps(n: int, rows: Rows, p: Probes) -> npt.NDArray[np.float64]:
    """Return (n,) the best rate at which a train of each row came in, frames on the wire; NaN where none did.

    Only trains without a hole from their first to their last arrival: across a hole the rate is anyone's guess.
    """
    best = np.full(n, np.nan)
    part = np.flatnonzero(p.train_len >= MIN_TRAIN)
    if not len(part):
        return best
    part = part[np.lexsort((p.position[part], p.train[part], rows[part]))]
    row, train, position, time = rows[part], p.train[part], p.position[part], p.received_ns[part]
    starts = np.flatnonzero(np.r_[True, (np.diff(row) != 0) | (np.diff(train) != 0)])
    count = np.diff(np.r_[starts, len(part)])
    ends = starts + count - 1
    whole = (count >= MIN_TRAIN) & (position[ends] - position[starts] == count - 1)
    starts, ends, count = starts[whole], ends[whole], count[whole]
    elapsed_s = (time[ends] - time[starts + 1]) / 1e9
    bits = (count - 2) * (p.size[part][starts] + FRAME_OVERHEAD_BYTES) * 8
    forward = elapsed_s > 0
    np.fmax.at(best, row[starts[forward]], bits[forward] / elapsed_s[forward])
    return best
