"""Who is to blame: parts are added one at a time while what they explain is too rare for good parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer import mean_kernels, score_kernels, tail
from railkeeper.health.infer.ledger import Ledger, ledger
from railkeeper.health.infer.problem import Blame, Config, Kind, check

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Floats, Problem

SHAPE = 3.0
_FEW = 10
_WORTH = 4.0
_SWEEPS = 3


@dataclass
class Belief:
    """What is believed while inference goes on: rates of all parts, which are at fault, the mean of good ones."""

    problem: Problem
    book: Ledger
    exposed: Floats
    rate: Floats
    bad: npt.NDArray[np.bool_]
    mean: float
    known_rate: Floats
    known_good: npt.NDArray[np.int64]
    path_rate: Floats
    faults: list[int] = field(default_factory=list)

    def refresh(self) -> None:
        """Bring the rates of rows and paths up to date with those of parts."""
        score_kernels.refresh(
            self.book.known, self.book.mixed, self.rate, self.bad, self.known_rate, self.known_good, self.path_rate
        )

    def curve(self, part: int) -> Floats:
        """Return the log-likelihood of a part's rate over `tail.GRID`, everything else as believed."""
        book, spread = self.book, self.mean**2 / SHAPE
        out: Floats = score_kernels.curve(
            part, tail.GRID, book.plain, book.known, book.mixed, self.rate, spread,
            self.known_rate, self.known_good, self.path_rate, not self.bad[part],
        )  # fmt: skip
        return out

    def weights(self) -> Floats:
        """Return how the rates of good parts are distributed over `tail.GRID`."""
        return tail.good_weights(self.mean, SHAPE)

    def put(self, part: int, rate: float) -> None:
        """Believe that a part is at fault with a rate."""
        if part not in self.faults:
            self.faults.append(part)
        self.bad[part], self.rate[part] = True, rate
        self.refresh()

    def clear(self, part: int) -> None:
        """Believe that a part is good."""
        self.faults.remove(part)
        self.bad[part], self.rate[part] = False, self.mean
        self.refresh()


def begin(problem: Problem) -> Belief:
    """Return the belief that nothing is wrong."""
    book = ledger(problem)
    n = problem.n_parts
    exposed = book.packets.copy()
    chosen = book.mixed.kind == Kind.LOSSY_ONLY
    if chosen.any():  # what was reported for its loss says nothing of how much was sent
        exposed[:] = 0.0
    rows, paths = len(book.known.n), len(problem.paths) if len(book.mixed.n) else 0
    out = Belief(
        problem, book, exposed, np.zeros(n), np.zeros(n, dtype=np.bool_), 1e-5,
        np.zeros(rows), np.zeros(rows, dtype=np.int64), np.zeros(paths),
    )  # fmt: skip
    set_mean(out)
    return out


_MEANS = np.geomspace(1e-7, 1e-2, 41)


def set_mean(belief: Belief) -> None:
    """Fit the mean rate of good parts, twice: over a wide range, then closely."""
    span = _MEANS
    for _ in range(2):
        belief.rate[~belief.bad] = belief.mean
        belief.refresh()
        score = mean_kernels.lossy_rows(
            span, belief.mean, belief.book.known, belief.book.mixed, belief.rate, belief.bad,
            belief.known_rate, belief.known_good, belief.path_rate,
        ) - span * belief.exposed[~belief.bad].sum()  # fmt: skip
        belief.mean = float(span[score.argmax()])
        span = belief.mean * np.geomspace(0.75, 1 / 0.75, 17)
    belief.rate[~belief.bad] = belief.mean
    belief.refresh()


def find(belief: Belief, level: float, most: int) -> None:
    """Add parts while the best of them is more surprising than `level` (a natural logarithm) allows."""
    while len(belief.faults) < most:
        found = best_part(belief, level)
        if found is None:
            return
        belief.put(*found)
        refit(belief)
        set_mean(belief)
        refit(belief)


def best_part(belief: Belief, level: float) -> tuple[int, float] | None:
    """Return the part that explains most, with its rate, if good parts show as much too rarely."""
    weight = belief.weights()
    best, found = -math.inf, None
    for part in candidates(belief):
        curve = belief.curve(part)
        gain = tail.log_ratio(curve, weight)
        if gain > best and tail.log_tail(curve, weight) < level:
            best, found = gain, (part, tail.peak(curve))
    return found


def candidates(belief: Belief) -> list[int]:
    """Return the good parts whose losses stand out most by a rough measure, at most `_FEW`."""
    book = belief.book
    gains = score_kernels.screen(
        tail.COARSE, book.plain, book.known, book.mixed, belief.rate, belief.mean, belief.known_rate, belief.path_rate
    ).max(axis=1)
    gains[belief.bad] = 0.0
    top = np.argsort(-gains, kind="stable")[:_FEW]
    return [int(part) for part in top if gains[part] > _WORTH]


def refit(belief: Belief) -> None:
    """Fit the rates of all faults together, one after the other."""
    for _ in range(_SWEEPS if len(belief.faults) > 1 else 1):
        for part in belief.faults:
            belief.rate[part] = tail.peak(belief.curve(part))
            belief.refresh()


def prune(belief: Belief, level: float) -> None:
    """Drop faults that the others explain, the weakest first."""
    while belief.faults:
        weight = belief.weights()
        tails = [tail.log_tail(belief.curve(part), weight) for part in belief.faults]
        weakest = int(np.argmax(tails))
        if tails[weakest] < level:
            return
        belief.clear(belief.faults[weakest])
        refit(belief)
        set_mean(belief)


def infer(problem: Problem, config: Config | None = None) -> tuple[Blame, ...]:
    """Return the parts and composites at fault, those that explain most first.

    Raises InputError if the problem does not fit together.
    """
    config = config or Config()
    belief = begin(check(problem))
    tried = int((belief.book.packets > 0).sum()) + len(problem.composites)
    level = math.log(config.false_alarms_per_window / max(tried, 1))
    find(belief, level, config.max_faults)
    prune(belief, level)
    out = []
    for part in belief.faults:
        curve = belief.curve(part)
        low, high = tail.interval(curve)
        out.append(Blame(part, tail.share(belief.rate[part]), tail.share(low), tail.share(high), 1.0))
    return tuple(out)
