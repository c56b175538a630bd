"""Loss and damage by likelihood: the smallest set of parts, and rates, that explain counts over a window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.likelihood import Fit, Scorer, fit, with_interval
from railkeeper.health.parts import BOTH, Part

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.rows import Table

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

MOST_PARTS = 5  # faults that one explanation may add at once
ODDS_OF_ANOTHER = 10.0  # nats that a further part must earn before a set with it is preferred
SAME_DIRECTION = 3.0  # nats within which two directions of a part fit equally


@dataclass(frozen=True)
class Suspect:
    """A part that explains losses: with the other suspects in place, `fit` is its own share.

    `margin` is how far (nats) any other part stays behind in its place; `rivals` are those within `CLOSE`.
    """

    part: Part
    hyp: int
    direction: int
    directions: tuple[int, ...]
    fit: Fit
    margin: float
    rivals: tuple[Part, ...]


CLOSE = 6.0


@dataclass(frozen=True)
class Window:
    """Counts (rows,) and each row's chance to survive what is already believed, beyond the background."""

    table: Table
    n: Longs
    x: Longs
    survive: Floats
    background: float

    def base(self) -> Floats:
        return self.survive * (1 - self.background)

    def fit(self, hyp: int, base: Floats) -> Fit:
        """Fit one hypothesis over `base`."""
        row, times = self.table.rows_of(hyp)
        return fit(self.n[row].astype(float), self.x[row].astype(float), base[row], times)

    def with_interval(self, fitted: Fit, hyp: int, base: Floats) -> Fit:
        """Add the interval of a fit's rate."""
        row, times = self.table.rows_of(hyp)
        return with_interval(fitted, self.n[row].astype(float), self.x[row].astype(float), base[row], times)

    def score(self, base: Floats) -> Floats:
        """Score all hypotheses over `base`."""
        return self.scorer.score(base)

    @cached_property
    def scorer(self) -> Scorer:
        return Scorer(self.table, self.n, self.x)

    def through(self, base: Floats, hyp: int, rate: float) -> Floats:
        """Return `base` with a hypothesis added."""
        row, times = self.table.rows_of(hyp)
        out = base.copy()
        out[row] *= (1 - rate) ** times
        return out


def explain(window: Window, least: float, barred: frozenset[int] = frozenset()) -> dict[int, Fit]:
    """Return hypotheses and fits: add the best part while it earns `least`, refit all, then try to do without one.

    `barred` are numbers of parts that may not be used.
    """
    chosen = _grow(window, {}, least, barred)
    for hyp in [h for h in chosen if len(window.table.parts[h // 3].links) > 1]:
        if hyp in chosen:
            chosen = _better_without(window, chosen, hyp, least, barred)
    return _merged(window, chosen, barred) if len(chosen) > 1 else chosen


def _merged(window: Window, chosen: dict[int, Fit], barred: frozenset[int]) -> dict[int, Fit]:
    """Try one wide part in place of two or more that it holds."""
    parts = window.table.parts
    for wide in range(len(parts)):
        held = [h for h in chosen if parts[h // 3].within(parts[wide])]
        if len(held) < 2 or wide in barred:
            continue
        rest = [h for h in chosen if h not in held and h // 3 != wide]
        scores = window.score(_with_all(window, {h: chosen[h] for h in rest}))[3 * wide : 3 * wide + 3]
        other = _refit(window, {h: chosen[h] for h in rest}, 3 * wide + int(scores.argmax()))
        if _worth(window, other) > _worth(window, chosen):
            return other
    return chosen


def _grow(window: Window, chosen: dict[int, Fit], least: float, barred: frozenset[int]) -> dict[int, Fit]:
    while len(chosen) < MOST_PARTS:
        scores = window.score(_with_all(window, chosen))
        for part in barred | {h // 3 for h in chosen}:
            scores[3 * part : 3 * part + 3] = 0.0
        if not len(scores) or scores.max() < least:
            break
        chosen = _turned(window, _refit(window, chosen, _pick(window.table, scores)))
    return chosen


def _turned(window: Window, chosen: dict[int, Fit]) -> dict[int, Fit]:
    """Let each part take the direction that suits it best now that the others are there."""
    for hyp in list(chosen) if len(chosen) > 1 else []:
        base, first = _with_all(window, chosen, but=hyp), hyp - hyp % 3
        scores = [window.fit(first + d, base).llr for d in range(3)]
        best = first + int(np.argmax(scores))
        if scores[best - first] > scores[hyp - first] + ODDS_OF_ANOTHER:
            chosen = _refit(window, {h: f for h, f in chosen.items() if h != hyp}, best)
    return chosen


def _pick(table: Table, scores: Floats) -> int:
    """Return the best hypothesis; of equal ones the smallest part."""
    ties = np.flatnonzero(scores >= scores.max() - 1e-6)
    return int(min(ties, key=lambda h: (len(table.parts[h // 3].links), -(h % 3))))


def _with_all(window: Window, chosen: dict[int, Fit], but: int = -1) -> Floats:
    base = window.base()
    for hyp, f in chosen.items():
        if hyp != but:
            base = window.through(base, hyp, f.rate)
    return base


def _refit(window: Window, known: dict[int, Fit], new: int | None = None, gone: int | None = None) -> dict[int, Fit]:
    """Return fits with a hypothesis added or gone; only what shares rows with it is fitted again."""
    fits = dict(known)
    changed = new if gone is None else gone
    touched = np.zeros(len(window.n), dtype=bool)
    if changed is not None:
        touched[window.table.rows_of(changed)[0]] = True
    again = [h for h in known if touched[window.table.rows_of(h)[0]].any()]
    if new is not None:
        fits[new] = Fit(0.0, 0.0, 0.0, 0.0)
        again.insert(0, new)
    for _ in range(3 if len(again) > 1 else 1):
        for h in again:
            fits[h] = window.fit(h, _with_all(window, fits, but=h))
    return fits


def _better_without(
    window: Window, chosen: dict[int, Fit], hyp: int, least: float, barred: frozenset[int]
) -> dict[int, Fit]:
    """Try smaller parts in place of a large one."""
    rest = _refit(window, {h: f for h, f in chosen.items() if h != hyp}, gone=hyp)
    other = _grow(window, rest, ODDS_OF_ANOTHER, barred | {hyp // 3})
    if any(f.llr < least for h, f in other.items() if h not in chosen):
        return chosen
    return other if _worth(window, other) > _worth(window, chosen) else chosen


def _worth(window: Window, chosen: dict[int, Fit]) -> float:
    total, base = 0.0, window.base()
    for hyp, f in chosen.items():
        row, times = window.table.rows_of(hyp)
        total += _llr_at(window, row, times, base, f.rate)
        base = window.through(base, hyp, f.rate)
    return total - ODDS_OF_ANOTHER * len(chosen)


def _llr_at(window: Window, row: Longs, times: Floats, base: Floats, rate: float) -> float:
    n, x = window.n[row], window.x[row]
    before, after = base[row], base[row] * (1 - rate) ** times
    lost = x * (np.log1p(-np.minimum(after, 1 - 1e-12)) - np.log1p(-np.minimum(before, 1 - 1e-12)))
    return float(lost.sum() + ((n - x) * times).sum() * np.log1p(-min(rate, 1 - 1e-9)))


def suspects(window: Window, chosen: dict[int, Fit]) -> list[Suspect]:
    """Weigh each chosen part against others in its place, and its directions against each other."""
    return [_weigh(window, chosen, hyp) for hyp in chosen]


def _weigh(window: Window, chosen: dict[int, Fit], hyp: int) -> Suspect:
    base = _with_all(window, chosen, but=hyp)
    scores = window.score(base)
    part = hyp // 3
    fits = [window.fit(3 * part + d, base) for d in range(3)]
    own = np.array([f.llr for f in fits])
    scores[3 * part : 3 * part + 3] = -np.inf
    for other in chosen:
        if other != hyp:
            scores[3 * (other // 3) : 3 * (other // 3) + 3] = -np.inf
    top = float(own.max())
    direction, directions = pick_direction(own)
    near = np.unique(np.flatnonzero(scores > top - CLOSE) // 3)
    return Suspect(
        part=window.table.parts[part], hyp=3 * part + direction, direction=direction, directions=directions,
        fit=window.with_interval(fits[direction], 3 * part + direction, base),
        margin=top - max(float(scores.max()), 0.0),
        rivals=tuple(window.table.parts[p] for p in near),
    )  # fmt: skip


def pick_direction(scores: Floats) -> tuple[int, tuple[int, ...]]:
    """Return the best of (up, down, both) scores and all that fit about as well; both where nothing tells."""
    top = scores.max()
    fits = tuple(int(d) for d in np.flatnonzero(scores > top - SAME_DIRECTION))
    return (BOTH if scores[BOTH] > top - 0.2 else int(scores.argmax())), fits
