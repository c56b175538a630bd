"""Quantiles of all groups of peers in one pass: a histogram whose bins are the leading bits of the values themselves.

A float32's exponent and first seven bits of its mantissa, taken as a number, count its size on a logarithmic scale, 128
bins to the octave. So the bin's lower edge is at most 1/128 below the value, and exact for whole numbers up to 256.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    import numpy.typing as npt

# Values nearer to zero than 2^-80 count as zero, greater ones than 2^48 as 2^48.
_LOW = (127 - 80) << 7
_OCTAVES = 128
SIDE = _OCTAVES << 7
BINS = 2 * SIDE + 1


@njit(cache=True, parallel=True)
def histogram(
    values: npt.NDArray[np.float32], group: npt.NDArray[np.int16], n_groups: int, slices: int
) -> npt.NDArray[np.int32]:
    """Return (slices, n_groups, BINS) counts; the bins of a group ascend with the value, zero is in the middle."""
    n = len(values)
    bits = values.view(np.int32)
    out = np.zeros((slices, n_groups, BINS), dtype=np.int32)
    for s in prange(slices):
        mine = out[s]
        for i in range(n * s // slices, n * (s + 1) // slices):
            if np.isnan(values[i]):
                continue
            size = min(max(((bits[i] & 0x7FFFFFFF) >> 16) - _LOW, 0), SIDE)
            mine[group[i], SIDE - size if bits[i] < 0 else SIDE + size] += 1
    return out


@njit(cache=True, parallel=True)
def quantiles_of(counts: npt.NDArray[np.int32], qs: npt.NDArray[np.float64], fewest: int) -> npt.NDArray[np.int32]:
    """Return (len(qs), n_groups) bins in which the quantiles lie, -1 where a group has fewer than `fewest` values."""
    slices, n_groups, bins = counts.shape
    out = np.full((len(qs), n_groups), -1, dtype=np.int32)
    for g in prange(n_groups):
        for s in range(1, slices):
            for b in range(bins):
                counts[0, g, b] += counts[s, g, b]
        total = 0
        for b in range(bins):
            total += counts[0, g, b]
        if total < fewest:
            continue
        for q in range(len(qs)):
            rank = min(max(int(np.ceil(qs[q] * total)), 1), total)
            reached, b = 0, -1
            while reached < rank:
                b += 1
                reached += counts[0, g, b]
            out[q, g] = b
    return out


def edge(bins: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """Return the edge of bins that is nearer to zero; NaN for -1."""
    size = np.abs(bins - SIDE)
    value = np.where(size == 0, 0, (size + _LOW) << 16).astype(np.int32).view(np.float32)
    signed: npt.NDArray[np.float32] = np.where(bins < 0, np.nan, np.where(bins < SIDE, -value, value)).astype(
        np.float32
    )
    return signed
