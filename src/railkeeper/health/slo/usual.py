"""What a node's collectives usually reach: a high quantile of its last minutes, which fades slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

SAMPLE_S = 10.0
SAMPLES, LEAST_SAMPLES = 60, 6
QUANTILE = 0.75
# What was reached once fades by a half in two hours, so that a slow fault does not become the usual within a shift.
FADE = 0.5 ** (SAMPLE_S / 7200.0)


@dataclass
class Usual:
    """Bus bandwidth by node, in place.

    - ring: (n_nodes, SAMPLES) means over SAMPLE_S, NaN where a node said nothing; bps: (n_nodes,) usual, NaN unknown
    - sums, counts: (n_nodes,) of the sample that is being gathered; number: of that sample
    """

    ring: npt.NDArray[np.float64]
    bps: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    number: int = -1


def new_usual(n_nodes: int) -> Usual:
    """Return that nothing is known yet."""
    nothing = np.full(n_nodes, np.nan)
    return Usual(np.full((n_nodes, SAMPLES), np.nan), nothing, np.zeros(n_nodes), np.zeros(n_nodes, dtype=np.int64))


def learn(
    usual: Usual, now_s: float, nodes: npt.NDArray[np.int64], busbw_bps: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Take in bus bandwidths (n,) of nodes (n,), and return what these usually reach (n,)."""
    number = int(now_s // SAMPLE_S)
    if number != usual.number:
        _close_sample(usual)
        if usual.number >= 0:
            _pass_over(usual, number - usual.number - 1)
        usual.number = number
    np.add.at(usual.sums, nodes, busbw_bps)
    np.add.at(usual.counts, nodes, 1)
    return np.asarray(usual.bps[nodes], dtype=np.float64)


def _pass_over(usual: Usual, n: int) -> None:
    """Let samples pass in which nobody said anything: what was reached is older now."""
    for k in range(1, min(max(n, 0), SAMPLES) + 1):
        usual.ring[:, (usual.number + k) % SAMPLES] = np.nan
    usual.bps = usual.bps * FADE ** max(n, 0)


def _close_sample(usual: Usual) -> None:
    said = usual.counts > 0
    if not said.any():
        return
    column = np.full(len(said), np.nan)
    column[said] = usual.sums[said] / usual.counts[said]
    usual.ring[:, usual.number % SAMPLES] = column
    usual.sums[:], usual.counts[:] = 0.0, 0
    enough = (~np.isnan(usual.ring)).sum(axis=1) >= LEAST_SAMPLES
    high = np.full(len(said), np.nan)
    if enough.any():
        high[enough] = np.nanquantile(usual.ring[enough], QUANTILE, axis=1)
    usual.bps = np.fmax(usual.bps * FADE, high)
