"""Screen: which entities lie over (or under) a limit. Nearly all do not; detectors look closely at these few only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.screen_kernels import screened

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

_NO_GROUP = np.empty(0, dtype=np.int16)


def above(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None = None) -> Ids:
    """Return (m,) ascending ids where value > limit; NaN, on either side, is never above.

    `limit` is one number, or (G,) one a group of peers: then `group` (n,) says which each entity is in.
    """
    return _screened(values, limit, group, 1.0)


def below(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None = None) -> Ids:
    """Return (m,) ascending ids where value < limit; NaN, on either side, is never below; limits as in `above`."""
    return _screened(values, limit, group, -1.0)


def _screened(values: Floats, limit: float | Floats, group: npt.NDArray[np.int16] | None, sign: float) -> Ids:
    limits = np.atleast_1d(np.asarray(limit, dtype=np.float32))
    if group is None and len(limits) != 1:
        raise ValueError(f"{len(limits)} limits and no group that says which is whose")
    column = np.ascontiguousarray(values, dtype=np.float32)
    found: Ids = screened(column, limits, _NO_GROUP if group is None else group, np.float32(sign))
    return found
