"""Faults that lose or damage a share of packets: found by likelihood over growing windows, followed as rates change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.evidence import KEPT, Counts
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.gradual import mostly_late
from railkeeper.health.likelihood import fit, log_ratio
from railkeeper.health.series import SPELLS, STEADY, UNEVEN_SIGMA, shape, unevenness
from railkeeper.health.soft import CLOSE, SAME_DIRECTION, Suspect, Window, explain, pick_direction, suspects
from railkeeper.health.track import CORRUPT, HARD, LOSS, SLOW, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.evidence import TickRows
    from railkeeper.health.parts import Part
    from railkeeper.health.rows import Table
    from railkeeper.health.state import LocatorState

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

WINDOWS = (2, 4, 8, 16, 32, 64, 128)
EVERY_TICK = 8  # windows up to here are looked at in each tick, twice as long ones half as often, and so on
LEAST_LOSSES = 3
BAD_TICKS, BAD_TICKS_HOST = 3, 4  # distinct ticks with losses before they are more than one burst
DEAD_RATE = 0.97  # above this the rules for dead parts decide
CLEAR_NATS = 7.0  # the old rate would have shown itself with odds of e**7
CHANGE_NATS = 8.0
DOUBT_NATS = 2.0
CLEAR_TICKS = 4
HOST_CAUTION = 3.0  # nats more for parts of one host: its own trouble looks the same
RETARGET_EVERY = 4  # ticks


def judge_losses(s: LocatorState, family: str, counts: Counts) -> None:
    """Follow the open faults of a family (loss or corrupt), then look for new ones."""
    for f in s.live(family):
        _follow(s, f, counts)
    if counts.x.data.any():
        _find(s, family, counts)


# -- new faults --------------------------------------------------------------------------------------
def _find(s: LocatorState, family: str, counts: Counts) -> None:
    found: list[Suspect] = []
    window = 0
    for ticks in WINDOWS:
        if not found and s.ticks_seen % max(ticks // EVERY_TICK, 1):
            continue
        n, x = counts.sums(0, ticks)
        here = _explain_window(s, family, n, x) if x.sum() >= LEAST_LOSSES else []
        if found and not here:
            break
        found, window = here, ticks
        if found and not _older_losses(s, counts, found, ticks):
            break
    if not found:
        return
    exact = _onset(s, counts, found, window)
    n, x = counts.sums(0, exact)
    if exact < window:
        found = _explain_window(s, family, n, x)
    if any(_form(s, counts, f, exact) == SPELLS for f in found):
        found = _explain_window(s, family, n, x, s.table_at_once)
    for suspect in found:
        _tell(s, family, counts, suspect, exact)


def _form(s: LocatorState, counts: Counts, suspect: Suspect, ticks: int) -> str:
    return shape(*_series(s, counts, suspect.hyp, ticks))


def _onset(s: LocatorState, counts: Counts, found: list[Suspect], ticks: int) -> int:
    """Return how many ticks ago the suspects first lost something: clean ticks before it only blur their rates."""
    row = np.concatenate([s.table.rows_of(f.hyp)[0] for f in found])
    return int(np.flatnonzero(counts.x.last(ticks)[:, row].any(axis=1))[-1]) + 1


def _older_losses(s: LocatorState, counts: Counts, found: list[Suspect], ticks: int) -> bool:
    """Whether the suspects lost anything before this window: only then a longer one can say more."""
    row = np.concatenate([s.table.rows_of(f.hyp)[0] for f in found])
    return bool(counts.sums(ticks, 2 * ticks)[1][row].any())


def _explain_window(s: LocatorState, family: str, n: Longs, x: Longs, table: Table | None = None) -> list[Suspect]:
    table = table or s.table
    barred = frozenset(s.index[f.part] for f in s.live(family) if f.part in s.index)
    window = Window(table, n, x, _survive_open(s, family, n, x), s.config.background_loss)
    chosen = explain(window, s.threshold, barred)
    if not chosen:
        return []
    elsewhere = _background(s, family, window, list(chosen))
    if elsewhere > 3 * window.background:
        window = Window(table, n, x, window.survive, elsewhere)
        chosen = explain(window, s.threshold, barred)
    return suspects(window, chosen)


def survive_losses(s: LocatorState, t: TickRows) -> Floats:
    """Return (rows,) the chance to come through what this tick alone shows of parts that lose much, but not all."""
    n, x = t.sent, t.sent - t.received - t.corrupt
    for f in s.live(HARD):
        n = n.copy()
        n[s.rows_of(f.part)] = 0
    x = np.minimum(x, n)
    window = Window(s.table, n, x, np.ones(len(n)), s.config.background_loss)
    out = np.ones(len(n))
    for hyp, f in explain(window, s.threshold).items():
        if f.rate < DEAD_RATE:
            row, times = s.table.rows_of(hyp)
            out[row] *= (1 - f.rate) ** times
    return out


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
    w = s.suspect(family, suspect.part.component, within=KEPT // EVERY_TICK)
    patient = (s.tick - w.first) * s.config.tick_s >= s.config.patience_s
    needed = BAD_TICKS_HOST if suspect.part.of_one_host else BAD_TICKS
    if w.times < 2 or (suspect.margin < CLOSE and not patient) or int((x > 0).sum()) < needed:
        return False
    if suspect.fit.rate > DEAD_RATE and not patient:
        return False
    if suspect.part.of_one_host and suspect.fit.llr < s.threshold + HOST_CAUTION:
        return False
    form = shape(n, x)
    if form not in {STEADY, SPELLS} or (form == SPELLS and family == CORRUPT):
        return False
    if _belongs_to_open(s, family, counts, suspect):
        return False
    counts.forget(s.rows_of(suspect.part), newest=ticks - int(np.flatnonzero(x > 0)[0]))
    _open(s, family, suspect, form, (n, x))
    return True


def _belongs_to_open(s: LocatorState, family: str, counts: Counts, suspect: Suspect) -> bool:
    """Whether a wider part explains an open fault and the suspect together: then the open one was told too narrowly."""
    for f in s.live(family):
        wider = [p for p in s.table.parts if _holds(p, f.part) and _holds(p, suspect.part)]
        if wider and _retarget(s, f, counts, frozenset(wider)):
            return True
    return False


def _holds(part: Part, other: Part) -> bool:
    return bool(np.isin(other.links, part.links).all())


def _retarget(s: LocatorState, f: Tracked, counts: Counts, wanted: frozenset[Part] | None = None) -> bool:
    """Explain anew what an open fault explains; where another single part does it better, the fault is that part's."""
    n, x = counts.sums(0, min(s.ticks_seen - f.rate_since + 1, KEPT))
    window = Window(s.table, n, x, _base_without(s, f), s.config.background_loss)
    barred = frozenset(s.index[g.part] for g in s.live(f.family) if g is not f and g.part in s.index)
    chosen = explain(window, s.threshold, barred)
    if any(h // 3 == s.index[f.part] for h in chosen):
        return False
    for suspect in suspects(window, chosen):
        if np.isin(suspect.part.links, f.part.links).any() and (wanted is None or suspect.part in wanted):
            if suspect.margin < CLOSE and wanted is None:
                return False
            f.part, f.direction, f.directions = suspect.part, suspect.direction, suspect.directions
            f.ties, f.rate, f.rate_low, f.rate_high = (
                suspect.rivals,
                suspect.fit.rate,
                suspect.fit.low,
                suspect.fit.high,
            )
            return True
    return False


def _series(s: LocatorState, counts: Counts, hyp: int, ticks: int) -> tuple[Floats, Floats]:
    """Return crossings and losses (ticks,), oldest first."""
    row, times = s.table.rows_of(hyp)
    n = counts.n.last(ticks)[::-1][:, row] @ times
    return np.asarray(n, dtype=float), np.asarray(counts.x.last(ticks)[::-1][:, row].sum(axis=1), dtype=float)


def _open(s: LocatorState, family: str, suspect: Suspect, form: str, counted: tuple[Floats, Floats]) -> None:
    n, x = counted
    age = int(np.flatnonzero(x > 0)[0]) - len(x) + 1
    kind, tracked_as = (family, family) if form == STEADY else ("flap", HARD)
    if family == LOSS and form == STEADY and mostly_late(s, suspect.hyp):
        kind = tracked_as = SLOW
    f = s.open(
        Tracked(
            tracked_as, kind, suspect.part, s.tick + age, s.tick, direction=suspect.direction,
            directions=suspect.directions, ties=suspect.rivals,
            confidence=1 / (1 + math.exp(-min(suspect.margin, 30.0))), rate=suspect.fit.rate,
            rate_low=suspect.fit.low, rate_high=suspect.fit.high, rate_since=s.ticks_seen + age,
            evidence=(f"{int(x.sum())} of {int(n.sum())} crossings {_WORD[family]}",),
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
    well = _well_ticks(s, f, counts)
    f.status = CLEARING if well else OPEN
    if well >= CLEAR_TICKS:
        _clear(s, f, counts, well)
    elif not well:
        _notice_change(s, f, counts)
        if s.ticks_seen % RETARGET_EVERY == 0:
            _retarget(s, f, counts)
        _refit(s, f, counts)


def _well_ticks(s: LocatorState, f: Tracked, counts: Counts) -> int:
    """Return over how many ticks the fault has not shown: 0 where it has, 1 where it is too early to say."""
    row, times = _rows(s, f)
    base, age = _base_without(s, f)[row], min(s.ticks_seen - f.rate_since + 1, KEPT)
    rate, doubt = np.array([min(max(f.rate, 1e-6), 0.999)]), 0
    for ticks in (*(w for w in WINDOWS if w < age), age):
        n, x = (a[row].astype(float) for a in counts.sums(0, ticks))
        absent = -float(log_ratio(n, x, base, times, rate)[0])
        if absent < DOUBT_NATS or fit(n, x, base, times).llr >= DOUBT_NATS:
            continue
        doubt = 1
        if (absent >= CLEAR_NATS and ticks >= CLEAR_TICKS) or ticks == KEPT:
            return ticks
    return doubt


def _notice_change(s: LocatorState, f: Tracked, counts: Counts) -> None:
    """Start the rate anew where the newest ticks agree on another one."""
    row, times = _rows(s, f)
    base, age = _base_without(s, f)[row], min(s.ticks_seen - f.rate_since + 1, KEPT)
    rate = np.array([min(max(f.rate, 1e-6), 0.999)])
    for ticks in (w for w in WINDOWS if 4 <= w < age):
        n, x = (a[row].astype(float) for a in counts.sums(0, ticks))
        here = fit(n, x, base, times)
        if here.llr - float(log_ratio(n, x, base, times, rate)[0]) > CHANGE_NATS:
            per_tick = _series(s, counts, 3 * s.index[f.part] + f.direction, ticks)
            if (per_tick[1] > 0).sum() >= BAD_TICKS and unevenness(*per_tick) < UNEVEN_SIGMA:
                f.rate_since = s.ticks_seen - ticks + 1
                return


def _base_without(s: LocatorState, f: Tracked) -> Floats:
    faults = [g for g in s.live(f.family) if g.part in s.index]
    rates = [g.rate for g in faults]
    return _others(s, faults, rates, faults.index(f)) * (1 - s.config.background_loss)


def _refit(s: LocatorState, f: Tracked, counts: Counts) -> None:
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
