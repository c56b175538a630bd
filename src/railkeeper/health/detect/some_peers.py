"""Some peers: exact quantiles of a sample of each group, for values that may be negative, as decibels and decades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.peers import MIN_PEERS

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Floats = npt.NDArray[np.float32]

# Entities from which the quantiles are taken: some hundreds in each group of the largest fabrics.
SAMPLE = 20_000
# Standard deviations from the middle to the quantile of 0.9.
AT_90 = np.float32(1.2816)


def middle_and_spread(view: View, values: Floats) -> tuple[Floats, Floats]:
    """Return (n_groups,) median of the finite values (n,), and the larger half of the spread as a standard deviation.

    NaN where the sample has fewer than MIN_PEERS of a group. The stride is odd, so that both ends of links, whose ids
    are even and odd, are in it.
    """
    some = slice(0, None, max(1, len(values) // SAMPLE) | 1)
    few, group = values[some], view.entities.group[some]
    known = np.isfinite(few)
    few, group = few[known], group[known]
    order = np.lexsort((few, group))
    counts = np.bincount(group, minlength=view.entities.n_groups)
    starts = np.cumsum(counts) - counts
    q = np.full((3, len(counts)), np.nan, dtype=np.float32)
    enough = counts >= MIN_PEERS
    for row, share in enumerate((0.1, 0.5, 0.9)):
        place = starts + np.rint((counts - 1) * share).astype(np.int64)
        q[row, enough] = few[order[place[enough]]]
    return q[1], np.maximum(q[2] - q[1], q[1] - q[0]) / AT_90
