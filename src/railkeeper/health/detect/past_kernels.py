"""The pass that learns a column, all entities in one go on all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


@njit(cache=True, parallel=True)
def learn(mean: Floats, spread: Floats, weight_s: Floats, values: Floats, keep: np.float32, gain_s: np.float32) -> None:
    """Fade what is known by `keep`, and add one value of weight `gain_s` where there is one, in place."""
    for i in prange(len(values)):
        x, weight = values[i], weight_s[i] * keep
        if not np.isnan(x):
            weight += gain_s
            share = gain_s / weight
            off = np.float32(0) if np.isnan(mean[i]) else x - mean[i]
            mean[i] = x if np.isnan(mean[i]) else mean[i] + share * off
            spread[i] = np.sqrt((np.float32(1) - share) * (spread[i] * spread[i] + share * off * off))
        weight_s[i] = weight
