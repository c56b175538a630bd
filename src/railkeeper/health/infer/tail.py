"""How surprising a part's losses are if it is good: tails over the distribution of good rates.

A good part's rate is gamma distributed with the mean and the shape of the fabric's good parts. Were its rate r, the
chance to see a likelihood at least as far above the one of r is that of the signed root of the likelihood ratio, which
is close to normal down to counts of a few; the mean of it over r is the tail. So a part that was measured well is
judged by how rare its rate is, and one that was hardly measured by how rare its count is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railkeeper.health.infer.problem import Floats

GRID = np.geomspace(1e-6, 12.0, 64)
"""Rates, -log(1 - share lost), at which likelihoods are taken."""

COARSE = np.array([2e-4, 5e-4, 1.2e-3, 3e-3, 8e-3, 2e-2, 8e-2, 0.5])

DROP_95 = 1.92  # half the 95% point of chi-square with one degree of freedom
_LOG_GRID = np.log(GRID)


def good_weights(grid: Floats, mean: float, shape: float) -> Floats:
    """Return (rates of a geometric grid,) the share of good parts about each rate."""
    log_density = shape * np.log(grid / mean) - shape * grid / mean
    weight = np.exp(log_density - log_density.max())
    return np.asarray(weight / weight.sum())


def log_tail(curve: Floats, weight: Floats) -> float:
    """Return the natural logarithm of the chance that a good part shows a likelihood curve as extreme as this one."""
    best = int(curve.argmax())
    root = np.sqrt(2.0 * np.maximum(curve[best] - curve, 0.0))
    root[best:] *= -1.0
    terms = np.log(np.maximum(weight, 1e-300)) + np.array([_log_normal_tail(z) for z in root])
    return float(np.logaddexp.reduce(terms))


def _log_normal_tail(z: float) -> float:
    if z < 25.0:
        return math.log(0.5 * math.erfc(z / math.sqrt(2.0)))
    return -0.5 * z * z - math.log(z * math.sqrt(2.0 * math.pi))


def log_ratio(curve: Floats, mean: float) -> float:
    """Return how far the best rate lifts the log-likelihood above that of the mean good rate."""
    return float(curve.max()) - float(np.interp(math.log(mean), _LOG_GRID, curve))


def peak(curve: Floats, grid: Floats = GRID) -> float:
    """Return the rate at the top of a curve over a geometric grid, between its points."""
    best = int(curve.argmax())
    if not 0 < best < len(grid) - 1:
        return float(grid[best])
    a, b, c = curve[best - 1 : best + 2]
    bend = a - 2 * b + c
    shift = 0.5 * (a - c) / bend if bend < 0 else 0.0
    return float(grid[best] * (grid[1] / grid[0]) ** min(max(shift, -0.5), 0.5))


def near(curve: Floats) -> Floats:
    """Return a fine grid of rates about the top of a curve over `GRID`, as wide as it takes for the 95% interval."""
    inside = np.flatnonzero(curve >= curve.max() - DROP_95)
    low, high = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(GRID) - 1)
    return np.geomspace(GRID[low], GRID[high], 16 * (high - low) + 1)


def interval(curve: Floats, grid: Floats) -> tuple[float, float]:
    """Return the rates where a curve over a fine grid has fallen by `DROP_95` from its top on either side."""
    inside = np.flatnonzero(curve >= curve.max() - DROP_95)
    return float(grid[inside[0]]), float(grid[inside[-1]])


def share(rate: float) -> float:
    """Return the share of packets lost at a rate."""
    return -math.expm1(-rate)
