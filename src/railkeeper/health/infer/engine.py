"""Who is to blame: faults found by likelihood, put together to switches, with what could stand in their place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer import tail
from railkeeper.health.infer.belief import Belief, begin
from railkeeper.health.infer.problem import Blame, Config, check
from railkeeper.health.infer.search import Choice, rivals, settle

if TYPE_CHECKING:
    from railkeeper.health.infer.composites import Whole
    from railkeeper.health.infer.problem import Floats, Problem

_TIE = 1e-3


def infer(problem: Problem, config: Config | None = None) -> tuple[Blame, ...]:
    """Return the parts and composites at fault, those with the most lost packets first.

    Raises InputError if the problem does not fit together.
    """
    config = config or Config()
    belief = begin(check(problem))
    found = settle(belief, levels(problem, belief.book.packets > 0, config), config.max_faults)
    inside = {part for whole in found for part in whole.parts}
    blames = [_composite(belief, whole) for whole in found]
    blames += [_part(belief, part) for part in list(belief.faults) if part not in inside]
    return tuple(blames)


def levels(problem: Problem, used: np.ndarray[tuple[int], np.dtype[np.bool_]], config: Config) -> Floats:
    """Return (parts,) the natural logarithm of the tail from which on a part is at fault.

    The false alarms allowed are shared evenly by the groups of parts, and within a group by its parts that are used.
    """
    groups = np.zeros(problem.n_parts, dtype=np.int64) if problem.groups is None else problem.groups
    size = np.bincount(groups[used], minlength=int(groups.max(initial=0)) + 1)
    each = config.false_alarms_per_window / np.maximum(size, 1) / max(int((size > 0).sum()), 1)
    return np.asarray(np.log(each)[groups])


def _part(belief: Belief, part: int) -> Blame:
    choices = rivals(belief, part)
    own = next(c for c in choices if c.part == part)
    same = [c.part for c in choices if c.part != part and abs(c.gain - own.gain) < _TIE]
    belief.put(part, own.rate)
    rate, low, high = _rate(belief, part)
    return Blame(part, rate, low, high, _sureness(choices, own), tuple(sorted(same)))


def _rate(belief: Belief, part: int) -> tuple[float, float, float]:
    """Return the share of packets that a part at fault loses, with its 95% interval."""
    grid = tail.near(belief.curve(part))
    curve = belief.curve(part, grid)
    low, high = tail.interval(curve, grid)
    return tail.share(tail.peak(curve, grid)), tail.share(low), tail.share(high)


def _sureness(choices: list[Choice], own: Choice) -> float:
    return 1.0 / sum(math.exp(min(c.gain - own.gain, 700.0)) for c in choices)


def _composite(belief: Belief, whole: Whole) -> Blame:
    packets = belief.book.packets[list(whole.parts)]
    rate, low, high = np.average([_rate(belief, part) for part in whole.parts], axis=0, weights=packets).tolist()
    sure = 1.0 / (1.0 + math.exp(-min(whole.log_odds, 700.0)))
    return Blame(belief.problem.n_parts + whole.composite, rate, low, high, sure)
