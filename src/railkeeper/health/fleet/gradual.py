"""Faults that let everything pass, but late or slowly: delay by least delays, slowness by packet trains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.fleet.follow import believe_again, mostly_late, take_rows
from railkeeper.health.fleet.scan_kernels import FAST, LATE, NO_TRAIN, PROMPT
from railkeeper.health.fleet.scan_kernels import SLOW as SLOW_BIT
from railkeeper.health.fleet.state import Columns, FleetLocator, Followed, Memory, Waiting
from railkeeper.health.fleet.strict import Culprit, Strict
from railkeeper.health.track import DELAY, HARD, LOSS, SLOW, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float64]

DELAY_TICKS = 2
TIMES, TIMES_HOST = 2, 3  # ticks in a row before it is told
LEAST_LATE = 2.0  # rows
TIE_TICKS = 4
HINT_TICKS, WAIT_FOR_TRAINS = 2, 5  # a late part over which a train was slow just now may be told as slow
GOOD_TICKS = 4
CHANCE_SLOW = 0.02  # share of trains on healthy paths that a busy host slows anyway, at least
LEAST_TRAINS = 4.0
SLOW_WINDOWS = (2, 4, 8, 16)  # ticks; a wide part shows itself in a short one, before narrow ones could be told
ANY_AGE = 256
MOST_ROWS = 100_000
BAD_SHARE, GOOD_SHARE = 0.6, 0.3  # of a delayed part's rows that are late
SLOW_SHARE, FAST_SHARE = 0.8, 0.2


def judge_slow(s: FleetLocator, m: Memory, columns: Columns, slow: Ints) -> None:
    """Open, follow and clear faults that take a link's speed; `slow` are the rows whose last trains were slow."""
    for f in s.followed_of(SLOW):
        _follow_slow(s, m, f, columns)
    rows = _outside(s, slow, HARD, SLOW)
    least = max(LEAST_TRAINS, s.threshold / -math.log(_chance_slow(m, len(rows))))
    for ticks in SLOW_WINDOWS:
        young = rows[m.train_age[rows] < ticks]
        if not len(young):
            continue
        trains = np.minimum(m.slow_run[young], ticks).astype(np.float64)
        found = _strict(s, m).explain(young, trains, (FAST, ticks), least, _held(s, SLOW))
        for c in found:
            if _again(s, SLOW, c):
                _tell_slow(s, m, columns, c)
        if found:
            return


def _chance_slow(m: Memory, slow: int) -> float:
    """Return how often trains are slow anyway, over all rows."""
    sample = m.verdict[:: (len(m.verdict) >> 16) | 1]
    fast = float(np.count_nonzero(sample & FAST)) / max(len(sample), 1) * len(m.verdict)
    return min(max(CHANCE_SLOW, (slow + 1) / (slow + fast + 2)), 0.95)


def judge_delay(s: FleetLocator, m: Memory, late: Ints) -> None:
    """Open, follow and clear faults that add delay; `late` are the rows that were late for two ticks."""
    for f in s.followed_of(DELAY):
        _follow(s, m, f, bad=LATE, good=PROMPT, shares=(BAD_SHARE, GOOD_SHARE))
    rows = _outside(s, late, HARD, SLOW, DELAY)
    if not len(rows):
        return
    for c in _strict(s, m).explain(rows, np.ones(len(rows)), (PROMPT, ANY_AGE), LEAST_LATE, _held(s, DELAY)):
        if _again(s, DELAY, c):
            _tell_delay(s, m, c)


def _strict(s: FleetLocator, m: Memory) -> Strict:
    return Strict(m.index, s.space, m.verdict, m.train_age, m.part_scratch, m.link_scratch)


def _held(s: FleetLocator, family: str) -> frozenset[int]:
    return frozenset(f.part for f in s.followed_of(family))


def _outside(s: FleetLocator, rows: Ints, *families: str) -> Ints:
    """Return the rows that no open fault of some families is on; of very many an even share, which is enough."""
    told = s.followed_of(*families)
    if not told or not len(rows):
        return rows[:: -(-len(rows) // MOST_ROWS) or 1]
    taken = np.unique(np.concatenate([f.rows for f in told]))
    rows = rows[~np.isin(rows, taken)]
    return rows[:: -(-len(rows) // MOST_ROWS) or 1]


def _again(s: FleetLocator, family: str, c: Culprit) -> bool:
    """Whether a culprit was seen in enough ticks in a row to be told."""
    w = s.waiting.get((family, c.part))
    if w is None or w.last < s.tick - 1:
        w = s.waiting[family, c.part] = Waiting(s.tick, s.tick, 0)
    elif w.last < s.tick:
        w.times, w.last = w.times + 1, s.tick
    part = s.parts.of(s.space.component(c.part))
    wider = (s.space.size(np.array(c.ties, dtype=np.int64)) > len(part.links)).any() if c.ties else False
    return w.times >= (TIE_TICKS if wider else TIMES_HOST if part.of_one_host else TIMES)


def _tell_slow(s: FleetLocator, m: Memory, columns: Columns, c: Culprit) -> None:
    f = _followed(s, m, SLOW, c)
    if any(f.tracked.part.link_set <= o.tracked.part.link_set for o in s.followed_of(SLOW)):
        return
    f.tracked.gbps = _gbps(s, columns.train_bps[f.rows])
    f.tracked.evidence = (f"{int(c.weight)} trains slow, none fast",)
    same = [o for o in s.followed_of(LOSS, DELAY) if o.tracked.part.meets(f.tracked.part)]
    _take_over(s, f, same)
    take_rows(s, m, f)


def _take_over(s: FleetLocator, f: Followed, same: list[Followed]) -> None:
    """Take over the first of some faults: loss or delay that turns out to be a lack of speed keeps its key."""
    if not same:
        return
    f.tracked.key, f.tracked.since = same[0].tracked.key, same[0].tracked.since
    s.followed = [o for o in s.followed if o is not same[0]]
    for other in same[1:]:
        other.tracked.status = CLEARED


def _gbps(s: FleetLocator, trains: Floats) -> float:
    """Return what slow trains say of a link's speed."""
    trains = trains[trains < s.config.slow_fraction * s.config.nominal_bps]
    return float(trains.max()) / s.config.nominal_bps * s.fabric.link_gbps if len(trains) else math.nan


def _tell_delay(s: FleetLocator, m: Memory, c: Culprit) -> None:
    f = _followed(s, m, DELAY, c)
    inside = [o for o in s.followed_of(SLOW, DELAY) if f.tracked.part.link_set <= o.tracked.part.link_set]
    young = (m.train_age[f.rows] < HINT_TICKS) & (m.slow_run[f.rows] > 0) & (m.slow_run[f.rows] != NO_TRAIN)
    if inside or (young.any() and s.waiting[DELAY, c.part].times < WAIT_FOR_TRAINS):
        return
    lossy = [o for o in s.followed_of(LOSS) if o.tracked.part.meets(f.tracked.part)]
    if lossy:  # late and lossy: a lack of speed
        f.tracked.family = f.tracked.kind = SLOW
        _take_over(s, f, lossy)
    f.tracked.delay_ms = _added_ms(m, f.rows, f.times)
    f.tracked.evidence = (
        f"least delay {f.tracked.delay_ms:.2f} ms a crossing above like paths on {int(c.weight)} paths",
    )
    take_rows(s, m, f)


def _added_ms(m: Memory, rows: npt.NDArray[np.int64], times: Floats) -> float:
    base = np.array([_usual_ms(m, g) for g in range(len(m.sample))])
    added = (m.delay_before[rows] - base[m.index.group[rows]]) / times
    added = added[np.isfinite(added)]
    return float(np.median(added)) if len(added) else math.nan


def _usual_ms(m: Memory, group: int) -> float:
    known = m.delay_before[m.sample[group]]
    known = known[np.isfinite(known)]
    return float(np.quantile(known, 0.25)) if len(known) else math.nan


def _followed(s: FleetLocator, m: Memory, family: str, c: Culprit) -> Followed:
    part = s.parts.of(s.space.component(c.part))
    ties = tuple(s.parts.of(s.space.component(p)) for p in c.ties)
    t = Tracked(
        family, family, part, s.waiting[family, c.part].first - DELAY_TICKS + 1, s.tick, direction=c.direction,
        directions=c.directions, ties=ties,
    )  # fmt: skip
    rows = m.index.rows_over(part.directed(c.direction))
    times = np.isin(m.index.crossed[rows], part.directed(c.direction)).sum(axis=1).astype(np.float64)
    none = np.zeros(len(rows))
    return Followed(t, c.part, rows, times, none, none, 0.0)


def _follow_slow(s: FleetLocator, m: Memory, f: Followed, columns: Columns) -> None:
    gbps = _gbps(s, columns.train_bps[f.rows])
    f.tracked.gbps = f.tracked.gbps if math.isnan(gbps) else gbps
    young = f.rows[m.train_age[f.rows] < SLOW_WINDOWS[-1]]
    if np.count_nonzero(m.verdict[young] & (SLOW_BIT | FAST)) >= LEAST_LATE:
        _follow(s, m, f, bad=SLOW_BIT, good=FAST, shares=(SLOW_SHARE, FAST_SHARE))
    elif mostly_late(m, f.rows):
        f.tracked.good, f.tracked.status, f.tracked.seen = 0, OPEN, s.tick


def _follow(s: FleetLocator, m: Memory, f: Followed, *, bad: int, good: int, shares: tuple[float, float]) -> None:
    """Move an open fault on by one tick, by the share of its rows that are bad."""
    n_bad = int(np.count_nonzero(m.verdict[f.rows] & bad))
    n_good = int(np.count_nonzero(m.verdict[f.rows] & good))
    if n_bad + n_good < LEAST_LATE:
        return
    t, share = f.tracked, n_bad / (n_bad + n_good)
    if share > shares[0]:
        t.good, t.status, t.seen = 0, OPEN, s.tick
        if t.family == DELAY:
            t.delay_ms = _added_ms(m, f.rows, f.times)
    elif share < shares[1]:
        t.good += 1
        t.status = CLEARED if t.good >= GOOD_TICKS else CLEARING
    if not f.live:
        believe_again(s, m)
