"""Screen: which entities lie over (or under) a limit. Nearly all do not; detectors look closely at these few only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]
    Compare = np.ufunc


def above(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None = None) -> Ids:
    """Return (m,) ascending ids where value > limit; NaN, on either side, is never above.

    `limit` is one number, or (G,) one a group of peers: then `group` (n,) says which each entity is in.
    """
    return _screened(values, limit, group, np.greater)


def below(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None = None) -> Ids:
    """Return (m,) ascending ids where value < limit; NaN, on either side, is never below; limits as in `above`."""
    return _screened(values, limit, group, np.less)


def _screened(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None, over: Compare) -> Ids:
    limits = np.asarray(limit, dtype=np.float32)
    if group is None:
        if limits.size != 1:
            raise ValueError(f"{limits.size} limits and no group that says which is whose")
        return np.flatnonzero(over(values, limits.reshape(()))).astype(np.int32)
    # Few pass the most lenient of the limits; only they are held against their own.
    lenient = (np.fmin if over is np.greater else np.fmax).reduce(limits, initial=np.nan)
    near = np.flatnonzero(over(values, lenient))
    hit: npt.NDArray[np.bool_] = over(values[near], limits[group[near]])
    return near[hit].astype(np.int32)
