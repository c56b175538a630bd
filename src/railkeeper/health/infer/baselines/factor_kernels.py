"""Coordinate descent of NetBouncer's latent factors, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def descend(rows: int, of_start: Any, of_row: Any, passed: Any, weight: Any, pull: float, sweeps: int,
            enough: float) -> Any:  # fmt: skip
    """Return (parts,) the chance x to pass each part that minimises
    sum weight (passed - product of x)^2 + pull sum x (1 - x).
    """  # noqa: D205
    parts = len(of_start) - 1
    x = np.ones(parts)
    product = np.ones(rows)
    for _ in range(sweeps):
        moved = 0.0
        for p in range(parts):
            if of_start[p] == of_start[p + 1]:
                continue
            top, bottom = 0.0, 0.0
            for j in range(of_start[p], of_start[p + 1]):
                row = of_row[j]
                rest = product[row] / x[p]
                top += weight[row] * passed[row] * rest
                bottom += weight[row] * rest * rest
            top -= 0.5 * pull
            bottom -= pull
            best = top / bottom if bottom > 0 else 1.0
            best = min(max(best, 1e-6), 1.0)
            change = best / x[p]
            if change != 1.0:
                for j in range(of_start[p], of_start[p + 1]):
                    product[of_row[j]] *= change
            moved = max(moved, abs(best - x[p]))
            x[p] = best
        if moved < enough:
            break
    return x
