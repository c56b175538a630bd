"""Faults that let everything pass, but late or slowly: delay by least delays, slowness by packet trains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.strict import Culprit, explain_strict
from railkeeper.health.track import DELAY, HARD, LOSS, SLOW, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.state import LocatorState

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]
    Groups = npt.NDArray[np.int8]

ONEWAY_GROUPS = 3  # row groups from here on are one-way
DELAY_TICKS = 2  # ticks over which a least delay is taken
SPREADS = 8.0  # a delay must stand out of its peers by so many of their spreads
TIMES, TIMES_HOST = 2, 3  # ticks in a row before it is told
GOOD_TICKS = 4
TIE_TICKS = 4
SLOW_WINDOWS = (2, 3, 4, 6, 8, 12, 16)
LEAST_TRAINS, LEAST_TRAINS_SHORT = 4, 6
SLOW_NATS = 14.0
SLOW_TICKS = 4  # ticks over which an open fault is looked at
CHANCE_SLOW = 0.02  # share of trains on healthy paths that a busy host slows anyway, at least
NEAR_NOMINAL, OF_PEERS = 1.3, 0.5  # slow too: hardly above nominal, while peers are twice as fast
WAIT_FOR_TRAINS = 5


# -- delay -------------------------------------------------------------------------------------------
def judge_delay(s: LocatorState) -> None:
    """Open, follow and clear faults that add delay."""
    excess, limit = excess_ms(s)
    known = np.isfinite(excess)
    for f in s.live(SLOW):
        known[s.rows_of(f.part, f.direction)] = False
    late = known & (excess > limit)
    for f in s.live(DELAY):
        _follow_delay(s, f, excess, known, late)
    if not late.any():
        return
    held = frozenset(s.index[f.part] for f in s.live(DELAY) if f.part in s.index)
    for c in explain_strict(s.table, late.astype(float), known & ~late, 2.0, held):
        _tell_delay(s, c, excess, late)


def excess_ms(s: LocatorState) -> tuple[Floats, Floats]:
    """Return (rows,) least delay above that of like paths, and the limit above which it stands out.

    Both are inf where nothing can be said.
    """
    least = s.delays.last(DELAY_TICKS).min(axis=0).astype(np.float64)
    excess, limit = np.full(len(least), np.inf), np.full(len(least), np.inf)
    oneway = s.rows.group >= ONEWAY_GROUPS
    _above_peers(
        s, least, excess, limit, np.unique(s.rows.group[~oneway] if not s.config.common_clock else s.rows.group)
    )
    if not s.config.common_clock and oneway.any():
        least[oneway] -= _clock_offsets(s, least, excess, limit)[oneway]
        _above_peers(s, least, excess, limit, np.unique(s.rows.group[oneway]))
    return excess, limit


def _above_peers(s: LocatorState, least: Floats, excess: Floats, limit: Floats, groups: Groups) -> None:
    """Fill in the rows of some groups: paths of one form should take the same time."""
    for g in groups:
        at = np.flatnonzero((s.rows.group == g) & np.isfinite(least))
        if len(at) < 4:
            continue
        low, base = np.quantile(least[at], [0.05, 0.25])  # several faults at once may delay more than half of the rows
        excess[at] = least[at] - base
        limit[at] = max(s.config.delay_floor_ms, SPREADS * (base - low))


def _clock_offsets(s: LocatorState, least: Floats, excess: Floats, limit: Floats) -> Floats:
    """Return (rows,) what the clocks of each one-way row's ends differ by, and the delay that all such rows have.

    It is the least over all paths between the two NICs. That of a NIC late in all of its planes would vanish in it, so
    without a plane that is well at both ends the offset is inf: nothing is known.
    """
    p = s.rows.paths
    assert p is not None
    well = np.zeros(s.fabric.n_nics, dtype=bool)
    well[p.src[(s.rows.group == PathKind.T0_BOUNCE) & (excess <= limit) & np.isfinite(excess)]] = True
    _, pair = np.unique(p.src.astype(np.int64) * s.fabric.n_nics + p.dst, return_inverse=True)
    offset = np.full(int(pair.max()) + 1, np.inf)
    np.minimum.at(offset, pair, np.where(s.rows.group >= ONEWAY_GROUPS, least, np.inf))
    known = well[p.src] & well[p.dst] & np.isfinite(offset[pair])
    return np.where(known, offset[pair], -np.inf)


def mostly_late(s: LocatorState, hyp: int) -> bool:
    """Whether what crosses a hypothesis is late now: loss with a standing queue is a lack of speed."""
    excess, limit = excess_ms(s)
    row = s.table.rows_of(hyp)[0]
    known = row[np.isfinite(excess[row])]
    return len(known) >= 2 and float((excess[known] > limit[known]).mean()) > 0.7


def _tell_delay(s: LocatorState, c: Culprit, excess: Floats, late: Bools) -> None:
    if any(c.part.link_set <= f.part.link_set for f in s.live(SLOW, HARD)) or any(
        f.part is c.part for f in s.live(DELAY)
    ):
        return
    w = s.suspect(DELAY, c.part.component)
    if w.times < (TIMES_HOST if c.part.of_one_host else TIMES):
        return
    if any(len(p.links) > len(c.part.links) for p in c.ties) and w.times < TIE_TICKS:
        return
    if _trains_hint_slow(s, c.hyp) and w.times < WAIT_FOR_TRAINS:
        return
    lossy = [f for f in s.live(LOSS) if f.part.meets(c.part)]
    added = _added_ms(s, c.hyp, excess, late)
    if lossy:
        _become_slow(s, lossy[0], c, math.nan)
        return
    f = Tracked(
        DELAY, "delay", c.part, s.tick - DELAY_TICKS, s.tick, direction=c.direction, directions=c.directions,
        ties=c.ties, delay_ms=added,
    )  # fmt: skip
    f.evidence = (f"least delay {added:.2f} ms a crossing above like paths on {int(c.weight)} paths",)
    s.open(f)


def _added_ms(s: LocatorState, hyp: int, excess: Floats, late: Bools) -> float:
    row, times = s.table.rows_of(hyp)
    pick = late[row]
    return float(np.median(excess[row][pick] / times[pick])) if pick.any() else math.nan


def _follow_delay(s: LocatorState, f: Tracked, excess: Floats, known: Bools, late: Bools) -> None:
    if f.part not in s.index:
        return
    hyp = 3 * s.index[f.part] + f.direction
    row = s.table.rows_of(hyp)[0]
    row = row[known[row]]
    if len(row) < 2:
        return
    share = float(late[row].mean())
    if share > 0.6:
        f.delay_ms = _added_ms(s, hyp, excess, late)
        f.good, f.status, f.seen = 0, OPEN, s.tick
    elif share < 0.3:
        _one_good_tick(f)


def _one_good_tick(f: Tracked) -> None:
    f.good += 1
    f.status = CLEARED if f.good >= GOOD_TICKS else CLEARING


# -- slow --------------------------------------------------------------------------------------------
def judge_slow(s: LocatorState) -> None:
    """Open, follow and clear faults that take a link's speed."""
    slow, fast = _slow_and_fast(s)
    for f in s.live(SLOW):
        _follow_slow(s, f, slow, fast)
    if not slow[: SLOW_WINDOWS[-1]].any():
        return
    for c in _slow_culprits(s, slow, fast):
        _tell_slow(s, c)


def _slow_and_fast(s: LocatorState) -> tuple[Bools, Bools]:
    """Return (ticks, rows), newest first: trains that were slow, and trains that were not."""
    trains = s.trains.last(SLOW_WINDOWS[-1]).astype(np.float64)
    known = np.isfinite(trains)
    if not known.any():
        return known, known
    nominal, peers = s.config.nominal_bps, float(np.median(trains[known]))
    with np.errstate(invalid="ignore"):
        slow = trains < s.config.slow_fraction * nominal
        slow |= (trains < NEAR_NOMINAL * nominal) & (trains < OF_PEERS * peers)
    return known & slow, known & ~slow


def _slow_culprits(s: LocatorState, slow: Bools, fast: Bools) -> list[Culprit]:
    held = frozenset(s.index[f.part] for f in s.live(SLOW) if f.part in s.index)
    told = np.zeros(len(s.rows), dtype=bool)
    for f in s.live(SLOW):
        told[s.rows_of(f.part)] = True
    for ticks in SLOW_WINDOWS:
        n_slow, n_fast = slow[:ticks].sum(axis=0), fast[:ticks].sum(axis=0)
        bad = np.where(n_fast == 0, n_slow, 0).astype(float)
        least = float(LEAST_TRAINS_SHORT if ticks < 3 else LEAST_TRAINS)
        least = max(least, SLOW_NATS / -math.log(_chance_slow(n_slow[~told], n_fast[~told])))
        culprits = explain_strict(s.table, bad, n_fast > 0, least, held)
        new = [c for c in culprits if s.index[c.part] not in held]
        if new:
            return new
    return []


def _chance_slow(n_slow: npt.NDArray[np.integer], n_fast: npt.NDArray[np.integer]) -> float:
    """Return how often trains are slow anyway, seen over all paths that no open fault touches."""
    slow, total = float(n_slow.sum()), float((n_slow + n_fast).sum())
    return min(max(CHANCE_SLOW, (slow + 1) / (total + 2)), 0.95)


def _tell_slow(s: LocatorState, c: Culprit) -> None:
    if any(f.part is c.part or c.part.link_set <= f.part.link_set for f in s.live(SLOW)):
        return
    if any(f.part.meets(c.part) for f in s.live(HARD)):
        return
    w = s.suspect(SLOW, c.part.component)
    if w.times < TIMES or (any(len(p.links) > len(c.part.links) for p in c.ties) and w.times < TIE_TICKS):
        return
    trains = s.trains.last(SLOW_WINDOWS[0]).astype(np.float64)[:, s.table.rows_of(c.hyp)[0]]
    best = float(np.nanmax(trains)) if np.isfinite(trains).any() else math.nan
    gbps = best / s.config.nominal_bps * s.fabric.link_gbps
    same = [f for f in s.live(LOSS, DELAY) if f.part.meets(c.part)]
    if same:
        _become_slow(s, same[0], c, gbps)
        for other in same[1:]:
            other.status = CLEARED
        return
    f = Tracked(SLOW, "slow", c.part, s.tick - 2, s.tick, direction=c.direction, directions=c.directions, ties=c.ties)
    f.gbps = gbps
    f.evidence = (f"best train {best / 1e6:.1f} Mbit/s over {int(c.weight)} trains",)
    s.open(f)
    _disown(s, f)


def _trains_hint_slow(s: LocatorState, hyp: int) -> bool:
    slow, fast = _slow_and_fast(s)
    row = s.table.rows_of(hyp)[0]
    return bool(slow[:2, row].any() and not fast[:2, row].any())


def _become_slow(s: LocatorState, f: Tracked, c: Culprit, gbps: float) -> None:
    """Loss or delay that turns out to be a lack of speed: the same fault, better named."""
    f.family, f.kind, f.part, f.target = SLOW, "slow", c.part, None
    f.direction, f.directions, f.gbps, f.good = c.direction, c.directions, gbps, 0
    f.ties = c.ties
    _disown(s, f)


def _disown(s: LocatorState, f: Tracked) -> None:
    """Losses on a slow part are its queue's: take them from the other evidence."""
    row = s.rows_of(f.part)
    s.loss.forget(row)


def _follow_slow(s: LocatorState, f: Tracked, slow: Bools, fast: Bools) -> None:
    if f.part not in s.index:
        return
    hyp = 3 * s.index[f.part] + f.direction
    row = s.table.rows_of(hyp)[0]
    n_slow, n_fast = slow[:SLOW_TICKS].sum(axis=0), fast[:SLOW_TICKS].sum(axis=0)
    still, others = _share_slow(n_slow[row], n_fast[row]), _share_slow(n_slow, n_fast)
    if still > 0.8 and others < 0.6:
        trains = s.trains.last(SLOW_TICKS).astype(np.float64)[:, row]
        # A fast train among them is a sign that the part is healing, and no word on how slow it was.
        trains = trains[trains < s.config.slow_fraction * s.config.nominal_bps]
        if len(trains):
            f.gbps = float(trains.max()) / s.config.nominal_bps * s.fabric.link_gbps
        f.good, f.status, f.seen = 0, OPEN, s.tick
    elif still < max(0.2, 2 * others) and fast[0, row].any():
        _one_good_tick(f)
    elif math.isnan(still) and mostly_late(s, hyp):
        f.good, f.status, f.seen = 0, OPEN, s.tick


def _share_slow(n_slow: npt.NDArray[np.integer], n_fast: npt.NDArray[np.integer]) -> float:
    """Return the share of rows with trains of which none was fast; NaN without trains."""
    known = (n_slow + n_fast) > 0
    return float((n_fast[known] == 0).mean()) if known.any() else math.nan
