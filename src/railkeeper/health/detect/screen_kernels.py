"""The pass of a screen over all values: counted, then written, piece by piece on all cores; no full-size arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    import numpy.typing as npt

PIECE = 65536


@njit(cache=True, parallel=True)
def screened(
    values: npt.NDArray[np.float32], limits: npt.NDArray[np.float32], group: npt.NDArray[np.int16], sign: np.float32
) -> npt.NDArray[np.int32]:
    """Return ascending ids where sign * value > sign * limit; with no groups limits[0] is everybody's."""
    n = len(values)
    pieces = (n + PIECE - 1) // PIECE
    counts = np.zeros(pieces + 1, dtype=np.int64)
    for piece in prange(pieces):
        hits = 0
        for i in range(piece * PIECE, min((piece + 1) * PIECE, n)):
            limit = limits[group[i]] if len(group) else limits[0]
            hits += sign * values[i] > sign * limit
        counts[piece + 1] = hits
    starts = np.cumsum(counts)
    out = np.empty(starts[pieces], dtype=np.int32)
    for piece in prange(pieces):
        at = starts[piece]
        if starts[piece + 1] > at:
            for i in range(piece * PIECE, min((piece + 1) * PIECE, n)):
                limit = limits[group[i]] if len(group) else limits[0]
                if sign * values[i] > sign * limit:
                    out[at] = i
                    at += 1
    return out
