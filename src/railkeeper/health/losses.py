"""Faults that lose or damage a share of packets, found by likelihood over growing windows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind
from railkeeper.health.evidence import KEPT, Counts
from railkeeper.health.follow import BAD_TICKS, WINDOWS, follow, retarget, rows_of, series_of, through_others
from railkeeper.health.gradual import mostly_late
from railkeeper.health.likelihood import fit, log_ratio
from railkeeper.health.series import SPELLS, STEADY, SWINGS, deep_spells, shape, swings
from railkeeper.health.soft import CLOSE, Suspect, Window, explain, suspects
from railkeeper.health.track import CORRUPT, HARD, LOSS, SLOW, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.evidence import TickRows
    from railkeeper.health.rows import Table
    from railkeeper.health.state import LocatorState

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

EVERY_TICK = 8  # windows up to here are looked at in each tick, twice as long ones half as often, and so on
LEAST_LOSSES = 3
BAD_TICKS_HOST = 4  # more than of other parts, and more nats: a host's own trouble looks the same
HOST_CAUTION = 3.0
SURELY_DEAD = 0.995
LONG_SUSPECTED = 3  # ticks
DEAD_RATE = 0.97  # above this the rules for dead parts decide


def judge_losses(s: LocatorState, family: str, counts: Counts) -> None:
    """Follow the open faults of a family (loss or corrupt), then look for new ones."""
    s.background[family] = _usual_loss(s, counts)
    for f in s.live(family):
        follow(s, f, counts)
    if counts.x.data.any():
        _find(s, family, counts)


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
    return shape(*series_of(s, counts, suspect.hyp, ticks))


def _onset(s: LocatorState, counts: Counts, found: list[Suspect], ticks: int) -> int:
    """Return how many ticks ago the suspects first lost something: clean ticks before it only blur their rates."""
    row = np.concatenate([s.table.rows_of(f.hyp)[0] for f in found])
    return int(np.flatnonzero(counts.x.last(ticks)[:, row].any(axis=1))[-1]) + 1


def _usual_loss(s: LocatorState, counts: Counts) -> float:
    """Return what healthy paths lose: the lower quartile over nodes of what their shortest paths lost in a minute."""
    near = np.flatnonzero(s.rows.group == PathKind.T0_BOUNCE)
    node = s.rows.src_node[near]
    n = np.bincount(node, weights=counts.n.data[:, near].sum(axis=0))
    x = np.bincount(node, weights=counts.x.data[:, near].sum(axis=0))
    usual = float(np.quantile(x[n > 0] / n[n > 0], 0.25)) if (n > 0).any() else 0.0
    return max(usual, s.config.background_loss)


def _older_losses(s: LocatorState, counts: Counts, found: list[Suspect], ticks: int) -> bool:
    """Whether a suspect lost as much before this window too: only then a longer one can say more."""
    return any(_lost_before(s, counts, f, ticks) for f in found)


def _lost_before(s: LocatorState, counts: Counts, suspect: Suspect, ticks: int) -> bool:
    row, times = s.table.rows_of(suspect.hyp)
    n, x = (a[row].astype(np.float64) for a in counts.sums(ticks, 2 * ticks))
    when = np.flatnonzero(counts.x.last(2 * ticks)[ticks:, row].any(axis=1))
    if x.sum() > 1 and len(when) == 1 and when[0] > 0:
        return False  # one burst some time ago, and nothing since
    base = np.full(len(row), 1 - s.background[LOSS])
    return bool(x.any()) and float(log_ratio(n, x, base, times, np.array([suspect.fit.rate]))[0]) > 0


def _explain_window(s: LocatorState, family: str, n: Longs, x: Longs, table: Table | None = None) -> list[Suspect]:
    table = table or s.table
    barred = frozenset(s.index[f.part] for f in s.live(family) if f.part in s.index)
    window = Window(table, n, x, _survive_open(s, family, n, x), s.background[family])
    chosen = explain(window, s.threshold, barred)
    if not chosen:
        return []
    elsewhere = _background(s, family, window, list(chosen))
    if elsewhere > 1.1 * window.background:
        window = Window(table, n, x, window.survive, elsewhere)
        chosen = explain(window, s.threshold, barred)
    return suspects(window, chosen)


def survive_losses(s: LocatorState, t: TickRows) -> Floats:
    """Return (rows,) the chance to come through parts that lose much, but not all: open faults, and by this tick."""
    n, x = t.sent.copy(), t.sent - t.received - t.corrupt
    for f in s.live(HARD):
        n[s.rows_of(f.part)] = 0
    out = np.ones(len(n))
    for f in s.live(LOSS):
        if f.part in s.index:
            row, times = rows_of(s, f)
            out[row] *= (1 - f.rate) ** times
    window = Window(s.table, n, np.minimum(x, n), out, s.background[LOSS])
    for hyp, fitted in explain(window, s.threshold).items():
        if fitted.rate < SURELY_DEAD:
            row, times = s.table.rows_of(hyp)
            out[row] *= (1 - fitted.rate) ** times
    return out


def _survive_open(s: LocatorState, family: str, n: Longs, x: Longs) -> Floats:
    """Each row's chance to survive the open faults, with rates as they were in this very window."""
    out = np.ones(len(s.rows))
    open_faults = [f for f in s.live(family) if f.part in s.index]
    rates = [f.rate for f in open_faults]
    for _ in range(2 if len(open_faults) > 1 else 1):
        for i, f in enumerate(open_faults):
            row, times = rows_of(s, f)
            base = through_others(s, open_faults, rates, i)[row] * (1 - s.background[family])
            rates[i] = fit(n[row].astype(float), x[row].astype(float), base, times).rate
    for f, rate in zip(open_faults, rates, strict=True):
        row, times = rows_of(s, f)
        out[row] *= (1 - rate) ** times
    return out


def _background(s: LocatorState, family: str, window: Window, hyps: list[int]) -> float:
    """Share lost on rows that no fault touches: what these lose, healthy rows lose."""
    clean = np.ones(len(s.rows), dtype=bool)
    for h in hyps:
        clean[window.table.rows_of(3 * (h // 3) + 2)[0]] = False
    for f in s.live(family):
        clean[s.rows_of(f.part)] = False
    sent = float(window.n[clean].sum())
    return float(window.x[clean].sum()) / sent if sent else 0.0


def _tell(s: LocatorState, family: str, counts: Counts, suspect: Suspect, ticks: int) -> None:
    """Open a fault if its evidence is enough, steady and fits no other part; else keep it waiting."""
    n, x = series_of(s, counts, suspect.hyp, ticks)
    if not _enough(s, family, suspect, x):
        return
    form = shape(n, x)
    if form == STEADY or (form == SPELLS and family == LOSS and _no_hiccup(suspect, n, x)):
        if _belongs_to_open(s, family, counts, suspect) or _luck_of_a_moment(s, family, counts, suspect):
            return
        counts.forget(s.rows_of(suspect.part), newest=ticks - int(np.flatnonzero(x > 0)[0]))
        _open(s, family, suspect, form, (n, x))


def _enough(s: LocatorState, family: str, suspect: Suspect, lost: Floats) -> bool:
    w = s.suspect(family, suspect.part.component, within=KEPT // EVERY_TICK)
    patient = (s.tick - w.first) * s.config.tick_s >= s.config.patience_s
    host = suspect.part.of_one_host
    return (
        w.times >= 2
        and (patient or (suspect.margin >= CLOSE and suspect.fit.rate <= DEAD_RATE))
        and int((lost > 0).sum()) >= (BAD_TICKS_HOST if host else BAD_TICKS)
        and suspect.fit.llr >= s.threshold + (HOST_CAUTION if host else 0.0)
    )


def _no_hiccup(suspect: Suspect, n: Floats, x: Floats) -> bool:
    """Whether spells can't be moments in which one host's agent was held up."""
    return not suspect.part.of_one_host or deep_spells(n, x) >= 2 or swings(n, x) >= SWINGS


def _luck_of_a_moment(s: LocatorState, family: str, counts: Counts, suspect: Suspect) -> bool:
    """Whether a part nearby has been suspected for longer, and explains all that time without this one."""
    mine = s.waiting[family, suspect.part.component]
    for (other_family, component), w in s.waiting.items():
        part = s.parts.of(component)
        if other_family != family or w.times < LONG_SUSPECTED or w.first >= mine.first or part is suspect.part:
            continue
        if part.meets(suspect.part) and w.last >= s.tick - KEPT // EVERY_TICK:
            n, x = counts.sums(0, min(s.tick - w.first + KEPT // EVERY_TICK, KEPT))
            return all(f.part is not suspect.part for f in _explain_window(s, family, n, x))
    return False


def _belongs_to_open(s: LocatorState, family: str, counts: Counts, suspect: Suspect) -> bool:
    """Whether a wider part explains an open fault and the suspect together: then the open one was told too narrowly."""
    for f in s.live(family):
        wider = [p for p in s.table.parts if f.part.within(p) and suspect.part.within(p)]
        if wider and retarget(s, f, counts, frozenset(wider)):
            return True
    return False


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
            confidence=1 / (1 + math.exp(-max(-30.0, min(suspect.margin, 30.0)))), rate=suspect.fit.rate,
            rate_low=suspect.fit.low, rate_high=suspect.fit.high, rate_since=s.ticks_seen + age + 1,
            evidence=(f"{int(x.sum())} of {int(n.sum())} probes {_WORD[family]}",),
        )
    )  # fmt: skip
    if tracked_as != family:
        f.spells = [f.since, s.tick] if kind == "flap" else []
        row = s.rows_of(f.part)
        s.loss.forget(row)
        s.corrupt.forget(row)


_WORD = {LOSS: "lost", CORRUPT: "damaged"}
