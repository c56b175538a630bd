"""Poisson: how surprising a count is, if events came by chance at the expected rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_LN10 = math.log(10)
# Beyond this many expected events the tail comes from the deviance, which is exact to a fraction of a per cent there.
_MANY = 1000.0


def surprise(count: npt.ArrayLike, expected: npt.ArrayLike) -> Floats:
    """Return -log10 of the chance of at least `count` events where `expected` are; arrays broadcast.

    6 means one in a million. Counts (rate times interval) are rounded to whole events. 0 events are no surprise; an
    event where 0 are expected is infinitely surprising, so give a floor; NaN in, NaN out.
    """
    c, e = np.broadcast_arrays(np.asarray(count, dtype=np.float64), np.asarray(expected, dtype=np.float64))
    return np.array([_surprise(*pair) for pair in zip(c.flat, e.flat, strict=True)], dtype=np.float64).reshape(c.shape)


def _surprise(count: float, expected: float) -> float:
    if math.isnan(count) or math.isnan(expected):
        return math.nan
    c = round(count)
    if c <= 0:
        return 0.0
    if expected <= 0:
        return math.inf
    return -(_tail_of_many(c, expected) if expected > _MANY else _tail(c, expected)) / _LN10


def _tail(c: int, expected: float) -> float:
    """Log of the upper tail, summed from the side on which terms fall."""
    if c > expected:
        return _log_mass(c, expected) + math.log(_falling(c, expected, 1))
    return math.log1p(-math.exp(_log_mass(c - 1, expected)) * _falling(c - 1, expected, -1))


def _falling(c: int, expected: float, step: int) -> float:
    """Sum of masses from c onwards (or downwards), in units of the mass at c."""
    total, term, k = 1.0, 1.0, c
    while term > total * 1e-12:
        term *= expected / (k + 1) if step > 0 else k / expected
        k += step
        total += term
    return total


def _log_mass(c: float, expected: float) -> float:
    return c * math.log(expected) - expected - math.lgamma(c + 1)


def _tail_of_many(c: float, expected: float) -> float:
    """Log of the upper tail by the signed root of the deviance, with half an event's correction."""
    at = c - 0.5
    deviance = 2 * (at * math.log(at / expected) - (at - expected))
    z = math.copysign(math.sqrt(max(deviance, 0.0)), at - expected)
    if z < 30:
        return math.log(max(0.5 * math.erfc(z / math.sqrt(2)), 1e-300))
    return -z * z / 2 - math.log(z * math.sqrt(2 * math.pi))
