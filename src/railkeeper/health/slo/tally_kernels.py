"""Kernels of service levels: rows added up by scope in one pass, and arrivals in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


@njit(cache=True)
def add_up(
    out: Floats, scopes_of: npt.NDArray[np.int32], keys: npt.NDArray[np.int64], good: Floats, total: Floats
) -> None:
    """Add good and total (n,) of rows to `out` (n_scopes, 2): to the first scope, and to those of the rows' keys.

    `scopes_of` is (n_keys, k): numbers of scopes, -1 for none.
    """
    for i in range(len(keys)):
        out[0, 0] += good[i]
        out[0, 1] += total[i]
        for c in range(scopes_of.shape[1]):
            scope = scopes_of[keys[i], c]
            if scope >= 0:
                out[scope, 0] += good[i]
                out[scope, 1] += total[i]


@njit(cache=True)
def in_time(hist: npt.NDArray[np.uint32], bins: int) -> Any:
    """Return (n,) arrivals in the first `bins` bins of histograms (n, n_bins), and in all of them."""
    n, width = hist.shape
    good, total = np.zeros(n), np.zeros(n)
    for i in range(n):
        first = np.int64(0)
        for b in range(bins):
            first += hist[i, b]
        rest = np.int64(0)
        for b in range(bins, width):
            rest += hist[i, b]
        good[i], total[i] = first, first + rest
    return good, total
