"""Reads a metrics text beside the one before it: where only numbers differ, nothing else has to be understood again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LF, _ZERO, _NINE = 10, 48, 57
# With so many digits a whole number fits into 64 bits for certain.
_DIGITS = 19


@njit(cache=True)
def follow(
    body: NDArray[np.uint8], before: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64],
    values: NDArray[np.uint64],
) -> bool:  # fmt: skip
    """Write the values (m,) of a text that is `before` with other whole numbers in its spans; return whether it is.

    `begins` and `ends` (m,) are the spans of the numbers in `before`, and are moved to those in `body` if it is.
    """
    at, old = 0, 0
    moved = np.empty((len(begins), 2), dtype=np.int64)
    for r in range(len(begins)):
        gap = begins[r] - old
        if at + gap >= len(body) or not _same(body, at, before, old, gap):
            return False
        at += gap
        moved[r, 0] = at
        value = np.uint64(0)
        while at < len(body) and _ZERO <= body[at] <= _NINE:
            value = value * np.uint64(10) + np.uint64(body[at] - _ZERO)
            at += 1
        if not 0 < at - moved[r, 0] <= _DIGITS or at == len(body) or body[at] != _LF:
            return False
        moved[r, 1], old = at, ends[r]
        values[r] = value
    rest = len(before) - old
    if len(body) - at != rest or not _same(body, at, before, old, rest):
        return False
    begins[:], ends[:] = moved[:, 0], moved[:, 1]
    return True


@njit(cache=True)
def _same(a: Any, at: int, b: Any, old: int, size: int) -> bool:
    # Slices that begin at 0 are compared many bytes at a time: no index can be negative, which Numba would look at.
    mine, other = a[at : at + size], b[old : old + size]
    differs = np.uint8(0)
    for i in range(len(mine)):
        differs |= mine[i] ^ other[i]
    return bool(differs == 0)
