"""The search for faults: added while what they explain is too rare for good parts, dropped when others explain it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer import tail
from railkeeper.health.infer.belief import Belief, refit, set_mean, set_shape
from railkeeper.health.infer.composites import Whole, wholes

if TYPE_CHECKING:
    from railkeeper.health.infer.problem import Floats

RARER_BESIDE = 10.0
"""Beside faults that were found, another must be so many times rarer than the first."""

_FEW, _SOME, _MANY = 10, 40, 128
_WORTH = 4.0
_LIKE = 0.8  # a part that keeps so much of its gain after others were added would have been next anyway
_SAME = 1e-2
_STRONG = 0.25
_ROUNDS = 4
_LARGE, _TRIES = 25.0, 64


@dataclass(frozen=True)
class Choice:
    """A part that may be at fault: how far its best rate lifts the log-likelihood, and how rare that is if good."""

    part: int
    gain: float
    log_tail: float
    rate: float


def weigh(belief: Belief, part: int, weight: Floats) -> Choice:
    """Return what speaks for a part being at fault."""
    curve = belief.curve(part)
    odds = float(belief.odds[part])
    gain, rarity = tail.log_ratio(curve, belief.mean) + odds, tail.log_tail(curve, weight) - odds
    return Choice(part, gain, rarity, tail.peak(curve))


def find(belief: Belief, level: Floats, most: int, *, eager: bool = False) -> None:
    """Add parts while the best of them is rarer than its `level` (parts,), a natural logarithm, allows.

    Eager: or explains a lot. Where a fault takes most of the traffic, the background can't be seen before it is added,
    and nothing is rare beside such a background; whoever is eager has to prune.
    """
    while len(belief.faults) < most:
        before = len(belief.faults)
        weight = belief.weights()
        enough = _LARGE if eager and before < _TRIES else math.inf
        for choice in suspects(belief, level, weight, enough):
            now = choice if len(belief.faults) == before else weigh(belief, choice.part, weight)
            rare = now.log_tail < level[choice.part] - _beside(len(belief.faults))
            if now.gain >= _LIKE * choice.gain and (rare or now.gain > enough):
                belief.put(now.part, now.rate)
        if len(belief.faults) == before:
            return
        refit(belief)
        set_mean(belief)
        refit(belief)


def _beside(others: int) -> float:
    """Return by how much rarer a fault must be, as a logarithm, beside others: they are not fitted to perfection."""
    return math.log(RARER_BESIDE) if others else 0.0


def suspects(belief: Belief, level: Floats, weight: Floats, enough: float) -> list[Choice]:
    """Return the good parts that are rarer than allowed or gain enough, those that explain most first."""
    choices = [weigh(belief, part, weight) for part in outstanding(belief)]
    return sorted(
        (c for c in choices if c.log_tail < level[c.part] or c.gain > enough), key=lambda c: (-round(c.gain, 6), c.part)
    )


def outstanding(belief: Belief) -> list[int]:
    """Return the good parts whose losses stand out most by a rough measure; all of those that tie with the first."""
    gains = belief.screen(tail.COARSE).max(axis=1)
    gains += belief.odds
    gains[belief.bad] = -math.inf
    top = np.argsort(-gains, kind="stable")[:_MANY]
    alike = gains[top] > gains[top[0]] - _SAME
    alike[:_FEW] = True
    alike[:_SOME] |= gains[top[:_SOME]] > _STRONG * gains[top[0]]
    return [int(part) for part in top[alike] if gains[part] > _WORTH]


def prune(belief: Belief, level: Floats) -> None:
    """Drop faults that are not rare beside the others, the least rare first."""
    while belief.faults:
        weight = belief.weights()
        beside = _beside(len(belief.faults) - 1)
        excess = [weigh(belief, part, weight).log_tail - level[part] + beside for part in belief.faults]
        worst = int(np.argmax(excess))
        if excess[worst] < 0:
            return
        belief.clear(belief.faults[worst])
        refit(belief)
        set_mean(belief)


def settle(belief: Belief, level: Floats, most: int) -> list[Whole]:
    """Search, learn from good parts how uneven they are, and judge again; returns the composites at fault."""
    find(belief, level, most, eager=True)
    for _ in range(_ROUNDS):
        before = sorted(belief.faults)
        if not before and not outstanding(belief):
            return []
        set_shape(belief)
        prune(belief, level)
        find(belief, level, most)
        if sorted(belief.faults) == before:
            break
    if not belief.faults:
        return []
    found = wholes(belief.problem.composites, belief.book.packets > 0, belief.faults)
    if found:
        widen(belief, found)
        find(belief, level, most)
    exchange(belief, {part for whole in found for part in whole.parts})
    refit(belief, sweeps=2)
    prune(belief, level)
    return wholes(belief.problem.composites, belief.book.packets > 0, belief.faults)


def widen(belief: Belief, found: list[Whole]) -> None:
    """Begin again with the composites' faults alone, and with all of their parts far more likely to be at fault.

    What a weak part of a composite loses must not be laid on a part elsewhere.
    """
    inside = {part for whole in found for part in whole.parts}
    for part in set(belief.faults) - inside:
        belief.clear(part)
    for whole in found:
        belief.odds[belief.problem.composites.row(whole.composite)] += math.log(max(belief.problem.n_parts, 1))
    refit(belief)


def exchange(belief: Belief, settled: set[int]) -> None:
    """Put each fault that is not settled where it explains most, all others as they are."""
    for part in sorted(set(belief.faults) - settled, key=lambda p: belief.rate[p]):
        best = rivals(belief, part)[0]
        if best.part != part:
            belief.put(best.part, best.rate)
            refit(belief)
        else:
            belief.put(part, best.rate)


def rivals(belief: Belief, part: int) -> list[Choice]:
    """Take a fault out; return it and the parts that could take its place, those that explain most first."""
    belief.clear(part)
    weight = belief.weights()
    parts = dict.fromkeys([part, *outstanding(belief)])
    return sorted((weigh(belief, p, weight) for p in parts), key=lambda c: (-round(c.gain, 4), c.part))
