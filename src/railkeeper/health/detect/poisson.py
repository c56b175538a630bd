"""Poisson: how surprising a count is, if events came by chance at the expected rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.poisson_kernels import surprises

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def surprise(count: npt.ArrayLike, expected: npt.ArrayLike) -> Floats:
    """Return -log10 of the chance of at least `count` events where `expected` are; arrays broadcast.

    6 means one in a million. Counts (rate times interval) are rounded to whole events. 0 events are no surprise; an
    event where 0 are expected is infinitely surprising, so give a floor; NaN in, NaN out.
    """
    c, mean = np.broadcast_arrays(np.asarray(count, dtype=np.float64), np.asarray(expected, dtype=np.float64))
    found: Floats = surprises(c.ravel(), mean.ravel()).reshape(c.shape)
    return found
