"""What is believed while inference goes on, and how rates are fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer import mean_kernels, score_kernels, tail
from railkeeper.health.infer.ledger import Ledger, ledger
from railkeeper.health.infer.problem import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Floats, Problem

SHAPES = np.array([0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 8.0])
_USUAL, _WIDTH = 2.0, 0.8
"""Before any evidence: good rates spread like a gamma of shape 2, give or take a factor of exp(0.8)."""

_MEANS = np.geomspace(1e-7, 1e-2, 41)


@dataclass
class Belief:
    """Rates of all parts, which are at fault, how good parts' rates are distributed.

    `rate` (parts,): the fitted rate of those at fault, the mean elsewhere. `shapes` (SHAPES,): how likely each shape of
    the distribution of good rates is. `exposed` (parts,): packets of rows that were not chosen for their loss.
    `odds` (parts,): what else speaks for a part being at fault, as the logarithm of odds.
    """

    problem: Problem
    book: Ledger
    exposed: Floats
    rate: Floats
    bad: npt.NDArray[np.bool_]
    mean: float
    shapes: Floats
    known_rate: Floats
    known_good: npt.NDArray[np.int64]
    path_rate: Floats
    seen: npt.NDArray[np.int64]
    odds: Floats
    mark: int = 0
    faults: list[int] = field(default_factory=list)

    @property
    def spread(self) -> float:
        """Variance of good parts' rates."""
        return float(self.mean**2 * (self.shapes / SHAPES).sum())

    def refresh(self) -> None:
        """Bring the rates of rows and paths up to date with those of parts."""
        score_kernels.refresh(
            self.book.known, self.book.mixed, self.rate, self.bad, self.known_rate, self.known_good, self.path_rate
        )

    def curve(self, part: int, grid: Floats = tail.GRID) -> Floats:
        """Return the log-likelihood of a part's rate over a grid of rates, everything else as believed."""
        book = self.book
        out: Floats = score_kernels.curve(
            part, grid, book.plain, book.known, book.mixed, self.rate, self.spread,
            self.known_rate, self.known_good, self.path_rate, not self.bad[part],
        )  # fmt: skip
        return out

    def screen(self, more: Floats) -> Floats:
        """Return (parts, more) roughly how the log-likelihood changes if a part's rate rises by as much."""
        book = self.book
        out: Floats = score_kernels.screen(
            more, book.plain, book.known, book.mixed, self.rate, self.mean, self.spread,
            self.known_rate, self.known_good, self.path_rate,
        )  # fmt: skip
        return out

    def weights(self) -> Floats:
        """Return how the rates of good parts are distributed over `tail.GRID`."""
        each = [tail.good_weights(tail.GRID, self.mean, shape) for shape in SHAPES]
        return np.asarray(self.shapes @ np.array(each))

    def put(self, part: int, rate: float) -> None:
        """Believe that a part is at fault with a rate."""
        if not self.bad[part]:
            self.faults.append(part)
        self._change(part, rate, bad=True)

    def clear(self, part: int) -> None:
        """Believe that a part is good."""
        self.faults.remove(part)
        self._change(part, self.mean, bad=False)

    def _change(self, part: int, rate: float, *, bad: bool) -> None:
        self.mark += 1
        score_kernels.shift(
            part, rate - self.rate[part], int(self.bad[part]) - int(bad), self.book.known, self.book.mixed,
            self.known_rate, self.known_good, self.path_rate, self.seen, self.mark,
        )  # fmt: skip
        self.bad[part], self.rate[part] = bad, rate


def begin(problem: Problem) -> Belief:
    """Return the belief that nothing is wrong."""
    book = ledger(problem)
    n = problem.n_parts
    exposed = book.packets.copy()
    if (book.mixed.kind == Kind.LOSSY_ONLY).any():  # what was reported for its loss says nothing of how much was sent
        exposed[:] = book.plain + np.bincount(book.known.part, np.repeat(book.known.n, np.diff(book.known.start)), n)
    rows, paths = len(book.known.n), len(problem.paths) if len(book.mixed.n) else 0
    out = Belief(
        problem, book, exposed, np.zeros(n), np.zeros(n, dtype=np.bool_), 1e-5, _prior(),
        np.zeros(rows), np.zeros(rows, dtype=np.int64), np.zeros(paths), np.zeros(paths, dtype=np.int64),
        np.zeros(n) if problem.log_odds is None else problem.log_odds.copy(),
    )  # fmt: skip
    set_mean(out)
    return out


def _prior() -> Floats:
    weight = np.exp(-0.5 * (np.log(SHAPES / _USUAL) / _WIDTH) ** 2)
    return np.asarray(weight / weight.sum())


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


_NEAR = np.exp(np.linspace(-0.4, 0.4, 9))
_SPAN = np.geomspace(0.04, 40.0, 20)


def set_shape(belief: Belief) -> None:
    """Weigh the shapes of the distribution of good rates by the losses of all good parts."""
    grid = belief.mean * _SPAN
    use = (belief.book.packets > 0) & ~belief.bad
    gain = belief.screen(grid - belief.mean)[use]
    top = gain.max(axis=1, keepdims=True)
    lift = np.exp(gain - top)
    score = np.array([np.log(lift @ tail.good_weights(grid, belief.mean, shape)).sum() for shape in SHAPES])
    weight = _prior() * np.exp(score - score.max())
    belief.shapes = weight / weight.sum()


def refit(belief: Belief, sweeps: int = 1) -> None:
    """Fit the rates of all faults together, one after the other."""
    for _ in range(sweeps if len(belief.faults) > 1 else 1):
        for part in belief.faults:
            belief.put(part, _fitted(belief, part))


def _fitted(belief: Belief, part: int) -> float:
    """Return the part's best rate: looked for near the present one, and everywhere if it is not there."""
    grid = np.clip(belief.rate[part] * _NEAR, tail.GRID[0], tail.GRID[-1])
    curve = belief.curve(part, grid)
    if 0 < curve.argmax() < len(grid) - 1:
        return tail.peak(curve, grid)
    return tail.peak(belief.curve(part))
