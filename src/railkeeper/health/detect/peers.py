"""Peers: quantiles of a column within each group of peers, which say what is normal at this moment.

They come from a histogram of logarithmic bins: a quantile is at most 0.8 % nearer to zero than the exact one, and exact
for whole numbers up to 256. That holds for values from 1e-24 to 2.8e14; smaller ones count as zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.peers_kernels import edge, histogram, quantiles_of
from railkeeper.health.detect.threads import threads_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Floats = npt.NDArray[np.float32]

# With fewer peers a quantile says nothing.
MIN_PEERS = 8
MAX_SLICES = 8


def quantiles(view: View, values: Floats, qs: Sequence[float], key: str | None = None) -> Floats:
    """Return (len(qs), G) float32 quantiles of values (n,) by group of peers.

    They are NaN where a group has fewer than MIN_PEERS values. NaN values do not count. Asked again in the same tick,
    the answer comes from the cache of the view if `values` is a column of it (from `view.rate` or `view.gauge`), or
    if a `key` names what the values are.
    """
    place = (f"peers:{key or _address(values)}", tuple(qs)) if key or _is_column(view, values) else None
    if place and place in view._cache:  # noqa: SLF001 - the cache is the view's, for helpers
        cached: Floats = view._cache[place]  # type: ignore[assignment] # noqa: SLF001
        return cached
    found = _quantiles(values, view.entities.group, view.entities.n_groups, qs)
    if place:
        view._cache[place] = found  # noqa: SLF001
    return found


def _is_column(view: View, values: Floats) -> bool:
    """Return whether values lie in the view's tables: these live as long as the view, so that an address is a name."""
    return any(np.may_share_memory(values, table) for table in (view.rates.per_s, view.block.gauges))


def _address(values: Floats) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


def _quantiles(values: Floats, group: npt.NDArray[np.int16], n_groups: int, qs: Sequence[float]) -> Floats:
    column = np.ascontiguousarray(values, dtype=np.float32)
    with threads_for(len(column)) as threads:
        counts = histogram(column, group, n_groups, min(threads, MAX_SLICES))
        return edge(quantiles_of(counts, np.asarray(qs, dtype=np.float64), MIN_PEERS))
