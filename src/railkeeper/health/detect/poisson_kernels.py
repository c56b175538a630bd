"""The upper tail of a Poisson distribution, value by value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_LN10 = math.log(10)
# Beyond this many expected events the tail comes from the deviance, which is exact to a fraction of a per cent there.
_MANY = 1000.0


@njit(cache=True)
def surprises(counts: Floats, expected: Floats) -> Floats:
    """Return (m,) -log10 of the chance of at least so many events."""
    out = np.empty(len(counts), dtype=np.float64)
    for i in range(len(counts)):
        c, mean = np.rint(counts[i]), expected[i]
        if math.isnan(c) or math.isnan(mean):
            out[i] = math.nan
        elif c <= 0:
            out[i] = 0.0
        elif mean <= 0:
            out[i] = math.inf
        else:
            out[i] = max(-(_tail_of_many(c, mean) if mean > _MANY else _tail(c, mean)) / _LN10, 0.0)
    return out


@njit(cache=True)
def _tail(c: float, mean: float) -> float:
    """Log of the tail, summed from the side on which its terms fall."""
    if c > mean:
        return _log_mass(c, mean) + math.log(_falling(c, mean, 1.0))
    return math.log1p(-min(math.exp(_log_mass(c - 1, mean)) * _falling(c - 1, mean, -1.0), 1.0 - 1e-16))


@njit(cache=True)
def _falling(c: float, mean: float, step: float) -> float:
    """Sum of masses from c onwards, in units of the mass at c."""
    total, term, k = 1.0, 1.0, c
    while term > total * 1e-12:
        term *= mean / (k + 1) if step > 0 else k / mean
        k += step
        total += term
    return total


@njit(cache=True)
def _log_mass(c: float, mean: float) -> float:
    return c * math.log(mean) - mean - math.lgamma(c + 1)


@njit(cache=True)
def _tail_of_many(c: float, mean: float) -> float:
    """Log of the tail by the signed root of the deviance, with half an event's correction."""
    at = c - 0.5
    z = math.copysign(math.sqrt(max(2 * (at * math.log(at / mean) - (at - mean)), 0.0)), at - mean)
    if z < 30:
        return math.log(max(0.5 * math.erfc(z / math.sqrt(2.0)), 1e-300))
    return -z * z / 2 - math.log(z * math.sqrt(2 * math.pi))
