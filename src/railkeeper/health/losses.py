"""Faults that lose or damage a share of packets: found by likelihood over growing windows, followed as rates change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.evidence import KEPT, Counts
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.gradual import mostly_late
from railkeeper.health.likelihood import fit, log_ratio
from railkeeper.health.series import SPELLS, STEADY, shape
from railkeeper.health.soft import CLOSE, SAME_DIRECTION, Suspect, Window, explain, pick_direction, suspects
from railkeeper.health.track import CORRUPT, HARD, LOSS, SLOW, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.state import LocatorState

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

WINDOWS = (2, 4, 8, 16, 32, 64, 128)
LEAST_LOSSES = 3
BAD_TICKS, BAD_TICKS_HOST = 3, 4  # distinct ticks with losses before they are more than one burst
DEAD_RATE = 0.97  # above this the rules for dead parts decide
CLEAR_NATS = 7.0  # the old rate would have shown itself with odds of e**7
CHANGE_NATS = 8.0
CLEAR_TICKS = 4


def judge_losses(s: LocatorState, family: str, counts: Counts) -> None:
    """Follow the open faults of a family (loss or corrupt), then look for new ones."""
    for f in s.live(family):
        _follow(s, f, counts)
    if counts.x.data.any():
        _find(s, family, counts)


# -- new faults --------------------------------------------------------------------------------------
def _find(s: LocatorState, family: str, counts: Counts) -> None:
    n, x, done = np.zeros(len(s.rows), dtype=np.int64), np.zeros(len(s.rows), dtype=np.int64), 0
    for ticks in WINDOWS:
        more_n, more_x = counts.sums(done, ticks)
        n, x, done = n + more_n, x + more_x, ticks
        if x.sum() < LEAST_LOSSES:
            continue
        found = _explain_window(s, family, n, x)
        told = [_tell(s, family, counts, suspect, ticks) for suspect in found]
        if any(told):
            return


def _explain_window(s: LocatorState, family: str, n: Longs, x: Longs) -> list[Suspect]:
    barred = frozenset(s.index[f.part] for f in s.live(family) if f.part in s.index)
    window = Window(s.table, n, x, _survive_open(s, family, n, x), s.config.background_loss)
    chosen = explain(window, s.threshold, barred)
    if not chosen:
        return []
    elsewhere = _background(s, family, window, list(chosen))
    if elsewhere > 3 * window.background:
        window = Window(s.table, n, x, window.survive, elsewhere)
        chosen = explain(window, s.threshold, barred)
    return suspects(window, chosen)


def _survive_open(s: LocatorState, family: str, n: Longs, x: Longs) -> Floats:
    """Each row's chance to survive the open faults, with rates as they were in this very window."""
    out = np.ones(len(s.rows))
    open_faults = [f for f in s.live(family) if f.part in s.index]
    rates = [f.rate for f in open_faults]
    for _ in range(2 if len(open_faults) > 1 else 1):
        for i, f in enumerate(open_faults):
            row, times = _rows(s, f)
            base = _others(s, open_faults, rates, i)[row] * (1 - s.config.background_loss)
            rates[i] = fit(n[row].astype(float), x[row].astype(float), base, times).rate
    for f, rate in zip(open_faults, rates, strict=True):
        row, times = _rows(s, f)
        out[row] *= (1 - rate) ** times
    return out


def _others(s: LocatorState, faults: list[Tracked], rates: list[float], but: int) -> Floats:
    out = np.ones(len(s.rows))
    for i, f in enumerate(faults):
        if i != but:
            row, times = _rows(s, f)
            out[row] *= (1 - rates[i]) ** times
    return out


def _rows(s: LocatorState, f: Tracked) -> tuple[Longs, Floats]:
    return s.table.rows_of(3 * s.index[f.part] + f.direction)


def _background(s: LocatorState, family: str, window: Window, hyps: list[int]) -> float:
    """Share lost on rows that no fault touches: what these lose, healthy rows lose."""
    clean = np.ones(len(s.rows), dtype=bool)
    for h in hyps:
        clean[window.table.rows_of(3 * (h // 3) + 2)[0]] = False
    for f in s.live(family):
        clean[s.rows_of(f.part)] = False
    sent = float(window.n[clean].sum())
    return float(window.x[clean].sum()) / sent if sent else 0.0


def _tell(s: LocatorState, family: str, counts: Counts, suspect: Suspect, ticks: int) -> bool:
    """Open a fault if its evidence is enough, steady and fits no other part; else keep it waiting."""
    n, x = _series(s, counts, suspect.hyp, ticks)
    w = s.suspect(family, suspect.part.component)
    patient = (s.tick - w.first) * s.config.tick_s >= s.config.patience_s
    needed = BAD_TICKS_HOST if suspect.part.of_one_host else BAD_TICKS
    if w.times < 2 or (suspect.margin < CLOSE and not patient) or int((x > 0).sum()) < needed:
        return False
    if suspect.fit.rate > DEAD_RATE and not patient:
        return False
    form = shape(n, x)
    if form not in {STEADY, SPELLS} or (form == SPELLS and family == CORRUPT):
        return False
    _open(s, family, suspect, form, int(np.flatnonzero(x > 0)[0]) - ticks + 1, int(x.sum()), int(n.sum()))
    return True


def _series(s: LocatorState, counts: Counts, hyp: int, ticks: int) -> tuple[Floats, Floats]:
    """Return crossings and losses (ticks,), oldest first."""
    row, times = s.table.rows_of(hyp)
    n = counts.n.last(ticks)[::-1][:, row] @ times
    return np.asarray(n, dtype=float), np.asarray(counts.x.last(ticks)[::-1][:, row].sum(axis=1), dtype=float)


def _open(s: LocatorState, family: str, suspect: Suspect, form: str, age: int, x: int, n: int) -> None:
    kind, tracked_as = (family, family) if form == STEADY else ("flap", HARD)
    if family == LOSS and form == STEADY and mostly_late(s, suspect.hyp):
        kind = tracked_as = SLOW
    best = suspect.margin
    f = s.open(
        Tracked(
            tracked_as, kind, suspect.part, s.tick + age, s.tick, direction=suspect.direction,
            directions=suspect.directions, ties=suspect.rivals, confidence=1 / (1 + np.exp(-min(best, 30.0))),
            rate=suspect.fit.rate, rate_low=suspect.fit.low, rate_high=suspect.fit.high,
            rate_since=s.ticks_seen + age, evidence=(f"{x} of {n} crossings {_WORD[family]}",),
        )
    )  # fmt: skip
    if tracked_as != family:
        f.spells = [f.since, s.tick] if kind == "flap" else []
        row = s.rows_of(f.part)
        s.loss.forget(row)
        s.corrupt.forget(row)


_WORD = {LOSS: "lost", CORRUPT: "damaged"}


# -- open faults -------------------------------------------------------------------------------------
def _follow(s: LocatorState, f: Tracked, counts: Counts) -> None:
    """Refit an open fault; notice a change of its rate, and its end."""
    if f.part not in s.index:
        return
    row, times = _rows(s, f)
    base = _base_without(s, f)[row]
    age = min(s.ticks_seen - f.rate_since + 1, KEPT)
    f.status = OPEN
    for ticks in (*(w for w in WINDOWS if w < age), age):
        n, x = (a[row].astype(float) for a in counts.sums(0, ticks))
        here = fit(n, x, base, times)
        at_rate = float(log_ratio(n, x, base, times, np.array([min(max(f.rate, 1e-6), 0.999)]))[0])
        if here.llr < 2.0 and -at_rate >= 2.0:
            f.status = CLEARING
            if -at_rate >= CLEAR_NATS and ticks >= CLEAR_TICKS:
                _clear(s, f, counts, ticks)
                return
        elif here.llr - at_rate > CHANGE_NATS and here.llr > CHANGE_NATS:
            f.rate_since = s.ticks_seen - ticks + 1
            break
    _refit(s, f, counts, base)


def _base_without(s: LocatorState, f: Tracked) -> Floats:
    faults = [g for g in s.live(f.family) if g.part in s.index]
    rates = [g.rate for g in faults]
    return _others(s, faults, rates, faults.index(f)) * (1 - s.config.background_loss)


def _refit(s: LocatorState, f: Tracked, counts: Counts, base: Floats) -> None:
    n, x = counts.sums(0, min(s.ticks_seen - f.rate_since + 1, KEPT))
    row, times = _rows(s, f)
    here = fit(n[row].astype(float), x[row].astype(float), _base_without(s, f)[row], times)
    if here.llr > 2.0:
        f.rate, f.rate_low, f.rate_high = here.rate, here.low, here.high
        f.seen = s.tick
    if f.status == OPEN:
        _redirect(s, f, Window(s.table, n, x, _base_without(s, f), 0.0))


def _redirect(s: LocatorState, f: Tracked, window: Window) -> None:
    """Look again which directions the losses have."""
    first = 3 * s.index[f.part]
    fits = [window.fit(first + d, window.base()) for d in range(3)]
    scores = np.array([g.llr for g in fits])
    best, directions = pick_direction(scores)
    if scores[best] > scores[f.direction] + SAME_DIRECTION:
        f.direction = best
        f.rate, f.rate_low, f.rate_high = fits[best].rate, fits[best].low, fits[best].high
    f.directions = tuple(sorted({*directions, f.direction}))


def _clear(s: LocatorState, f: Tracked, counts: Counts, well_ticks: int) -> None:
    f.status = CLEARED
    counts.forget(s.rows_of(f.part), newest=well_ticks)
