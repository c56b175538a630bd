"""Open faults of loss or damage: the rate and direction of each, whether it is another part's after all, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.evidence import KEPT, Counts
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.likelihood import Fit, fit, log_ratio
from railkeeper.health.series import UNEVEN_SIGMA, unevenness
from railkeeper.health.soft import CLOSE, SAME_DIRECTION, Window, explain, pick_direction, suspects

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.parts import Part
    from railkeeper.health.state import LocatorState
    from railkeeper.health.track import Tracked

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

WINDOWS = (2, 4, 8, 16, 32, 64, 128)
BAD_TICKS = 3  # distinct ticks with losses before they are more than one burst
CLEAR_NATS = 7.0  # the old rate would have shown itself with odds of e**7
CHANGE_NATS = 8.0
DOUBT_NATS = 2.0
CLEAR_TICKS = 4
RETARGET_EVERY = 4  # ticks


def follow(s: LocatorState, f: Tracked, counts: Counts) -> None:
    """Refit an open fault; notice a change of its rate, and its end."""
    if f.part not in s.index:
        return
    well = _well_ticks(s, f, counts)
    f.status = CLEARING if well else OPEN
    if well >= CLEAR_TICKS:
        _clear(s, f, counts, well)
    elif not well:
        _notice_change(s, f, counts)
        if s.ticks_seen % RETARGET_EVERY == 0:
            retarget(s, f, counts)
        _refit(s, f, counts)


def _well_ticks(s: LocatorState, f: Tracked, counts: Counts) -> int:
    """Return over how many ticks the fault has not shown: 0 where it has, 1 where it is too early to say."""
    row, times = rows_of(s, f)
    base, age = base_without(s, f)[row], min(s.ticks_seen - f.rate_since + 1, KEPT)
    rate, doubt = np.array([min(max(f.rate, 1e-6), 0.999)]), 0
    for ticks in (*(w for w in WINDOWS if w < age), age):
        n, x = (a[row].astype(float) for a in counts.sums(0, ticks))
        absent = -float(log_ratio(n, x, base, times, rate)[0])
        shown = fit(n, x, base, times).llr
        if ticks == KEPT and shown < DOUBT_NATS and n.any():
            return ticks  # nothing of it in the longest window: a rate too low to be seen is no fault
        if absent < DOUBT_NATS or shown >= DOUBT_NATS:
            continue
        doubt = 1
        if absent >= CLEAR_NATS and ticks >= CLEAR_TICKS:
            return ticks
    return doubt


def _notice_change(s: LocatorState, f: Tracked, counts: Counts) -> None:
    """Start the rate anew where the newest ticks agree on another one."""
    row, times = rows_of(s, f)
    base, age = base_without(s, f)[row], min(s.ticks_seen - f.rate_since + 1, KEPT)
    rate = np.array([min(max(f.rate, 1e-6), 0.999)])
    for ticks in (w for w in WINDOWS if 4 <= w < age):
        n, x = (a[row].astype(float) for a in counts.sums(0, ticks))
        here = fit(n, x, base, times)
        if here.llr - float(log_ratio(n, x, base, times, rate)[0]) > CHANGE_NATS:
            per_tick = series_of(s, counts, 3 * s.index[f.part] + f.direction, ticks)
            if (per_tick[1] > 0).sum() >= BAD_TICKS and unevenness(*per_tick) < UNEVEN_SIGMA:
                f.rate_since = s.ticks_seen - ticks + 1
                return


def base_without(s: LocatorState, f: Tracked) -> Floats:
    """Return (rows,) the chance to come through everything else that is believed."""
    faults = [g for g in s.live(f.family) if g.part in s.index]
    rates = [g.rate for g in faults]
    return through_others(s, faults, rates, faults.index(f)) * (1 - s.background[f.family])


def _refit(s: LocatorState, f: Tracked, counts: Counts) -> None:
    """Fit the rate anew; look again which directions the losses have."""
    n, x = counts.sums(0, min(s.ticks_seen - f.rate_since + 1, KEPT))
    window = Window(s.table, n, x, base_without(s, f), 0.0)
    base, first = window.base(), 3 * s.index[f.part]
    fits = [window.fit(first + d, base) for d in range(3)]
    scores = np.array([g.llr for g in fits])
    best, directions = pick_direction(scores)
    if scores[best] > scores[f.direction] + SAME_DIRECTION:
        f.direction = best
    f.directions = tuple(sorted({*directions, f.direction}))
    if fits[f.direction].llr > DOUBT_NATS:
        _take_rate(f, window.with_interval(fits[f.direction], first + f.direction, base))
        f.seen = s.tick


def _clear(s: LocatorState, f: Tracked, counts: Counts, well_ticks: int) -> None:
    f.status = CLEARED
    counts.forget(s.rows_of(f.part), newest=well_ticks)


def retarget(s: LocatorState, f: Tracked, counts: Counts, wanted: frozenset[Part] | None = None) -> bool:
    """Explain anew what an open fault explains; where another single part does it better, the fault is that part's."""
    n, x = counts.sums(0, min(s.ticks_seen - f.rate_since + 1, KEPT))
    window = Window(s.table, n, x, base_without(s, f), 0.0)
    barred = frozenset(s.index[g.part] for g in s.live(f.family) if g is not f and g.part in s.index)
    chosen = explain(window, s.threshold, barred)
    if any(h // 3 == s.index[f.part] for h in chosen):
        return False
    for suspect in suspects(window, chosen):
        if suspect.part.meets(f.part) and (wanted is None or suspect.part in wanted):
            if suspect.margin < CLOSE and wanted is None:
                return False
            f.part, f.direction, f.directions = suspect.part, suspect.direction, suspect.directions
            f.ties = suspect.rivals
            _take_rate(f, suspect.fit)
            return True
    return False


def _take_rate(f: Tracked, fitted: Fit) -> None:
    f.rate, f.rate_low, f.rate_high = fitted.rate, fitted.low, fitted.high


def through_others(s: LocatorState, faults: list[Tracked], rates: list[float], but: int) -> Floats:
    """Return (rows,) the chance to come through all faults but one, at given rates."""
    out = np.ones(len(s.rows))
    for i, f in enumerate(faults):
        if i != but:
            row, times = rows_of(s, f)
            out[row] *= (1 - rates[i]) ** times
    return out


def rows_of(s: LocatorState, f: Tracked) -> tuple[Longs, Floats]:
    """Return the rows that a fault touches, and how often each crosses it."""
    return s.table.rows_of(3 * s.index[f.part] + f.direction)


def series_of(s: LocatorState, counts: Counts, hyp: int, ticks: int) -> tuple[Floats, Floats]:
    """Return probes that crossed a hypothesis and losses of them (ticks,), oldest first."""
    row = s.table.rows_of(hyp)[0]
    n, x = (ring.last(ticks)[::-1][:, row].sum(axis=1).astype(np.float64) for ring in (counts.n, counts.x))
    return n, x
