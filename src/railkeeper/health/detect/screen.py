"""Screen: which entities lie over (or under) a limit. Nearly all do not; detectors look closely at these few only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]


def above(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None = None) -> Ids:
    """Return (m,) ascending ids where value > limit; NaN, on either side, is never above.

    `limit` is one number, or (G,) one a group of peers: then `group` (n,) says which each entity is in.
    """
    return _ids(values > _spread(limit, group))


def below(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None = None) -> Ids:
    """Return (m,) ascending ids where value < limit; NaN, on either side, is never below; limits as in `above`."""
    return _ids(values < _spread(limit, group))


def _spread(limit: float | Floats, group: npt.NDArray[np.int16] | None) -> np.float32 | Floats:
    if group is None:
        return np.float32(limit)
    spread: Floats = np.asarray(limit, dtype=np.float32)[group]
    return spread


def _ids(hit: npt.NDArray[np.bool_]) -> Ids:
    return np.flatnonzero(hit).astype(np.int32)
