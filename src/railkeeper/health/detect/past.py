"""Past: what each entity's own value used to be, as exponentially weighted mean and spread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.past_kernels import learn
from railkeeper.health.detect.threads import threads_for

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

# The first sample has no sample before it that says how long it stands for.
FIRST_S = 1.0


class Past:
    """The past of one column over n entities; what lies `half_life_s` back weighs half.

    - mean, spread: (n,) float32 weighted mean and standard deviation; NaN and 0 where nothing is known yet
    - weight_s: (n,) float32 seconds of past that are in it, the older ones faded; at most half_life_s / ln 2
    """

    def __init__(self, n: int, half_life_s: float) -> None:
        self.half_life_s = half_life_s
        self.mean = np.full(n, np.nan, dtype=np.float32)
        self.spread = np.zeros(n, dtype=np.float32)
        self.weight_s = np.zeros(n, dtype=np.float32)
        self.last_s: float | None = None


def update(past: Past, values: Floats, now_s: float, skip: npt.NDArray[np.int32] | None = None) -> None:
    """Learn the values of one moment, in place; a moment that is not later than the one before is not learnt.

    NaN is not learnt, and what is known fades meanwhile. `skip` are ids (m,) that are suspected: theirs is not learnt
    and does not fade, so that a fault that lasts does not become normal.
    """
    dt_s = FIRST_S if past.last_s is None else now_s - past.last_s
    if dt_s <= 0:
        return
    past.last_s = now_s
    keep = math.exp(-math.log(2) * dt_s / past.half_life_s)
    gain_s = past.half_life_s / math.log(2) * (1 - keep)
    held = None if skip is None else (past.mean[skip], past.spread[skip], past.weight_s[skip])
    column = np.ascontiguousarray(values, dtype=np.float32)
    with threads_for(len(column)):
        learn(past.mean, past.spread, past.weight_s, column, np.float32(keep), np.float32(gain_s))
    if held is not None:
        past.mean[skip], past.spread[skip], past.weight_s[skip] = held
