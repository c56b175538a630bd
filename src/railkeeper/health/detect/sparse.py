"""Sparse: statistics of counters that stand still nearly everywhere, from the few entities where they move."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]
    Ids = npt.NDArray[np.int32]

DAY_S = 86_400.0


def needed_surprise(n: int, tick_s: float, false_alarms_per_day: float) -> float:
    """Return the -log10 p that chance passes `false_alarms_per_day` times over n entities and all ticks of a day."""
    return math.log10(max(n, 1) * DAY_S / tick_s / false_alarms_per_day)


def peer_quantile(entities: Entities, ids: Ids, values: npt.NDArray[np.number[Any]], q: float) -> Floats:
    """Return (n_groups,) quantile of a non-negative column that is 0 for all entities but `ids` (m,).

    The rank is taken over all entities of the group (the higher of two values between which it falls); entities that
    were not read count as 0, which makes the answer lower, never higher.
    """
    out = np.zeros(entities.n_groups, dtype=np.float32)
    if not len(ids):
        return out
    group = entities.group[ids]
    order = np.lexsort((values, group))
    held = np.bincount(group, minlength=entities.n_groups)
    ends = np.cumsum(held)
    from_top = np.floor((1 - q) * entities.group_size).astype(np.int64)
    has = held > from_top
    out[has] = values[order][ends[has] - 1 - from_top[has]]
    return out


def union(a: npt.NDArray[np.integer[Any]], b: npt.NDArray[np.integer[Any]]) -> Ids:
    """Return the ids that are in either, ascending, each once. NumPy's own goes through a hash table: slow for many."""
    if not len(a) or not len(b):
        return np.asarray(a if len(a) else b, dtype=np.int32)
    both = np.sort(np.concatenate([a, b]).astype(np.int32), kind="stable")
    first = np.ones(len(both), dtype=np.bool_)
    first[1:] = both[1:] != both[:-1]
    found: Ids = both[first]
    return found


class Tally:
    """Counts of the few entities that counted of late, faded by half every `half_life_s`; columns over `ids` ascending.

    One tick adds at most `most`, so that a burst is not taken for a steady leak. `window_s` is the time that a steady
    rate is multiplied with: half_life_s / ln 2, less while the tally is young.
    """

    def __init__(self, half_life_s: float, most: float) -> None:
        self.half_life_s = half_life_s
        self.most = most
        self.now_s: float | None = None
        self.window_s = 0.0
        self.ids = np.empty(0, dtype=np.int32)
        self.counts = np.empty(0, dtype=np.float64)

    def add(self, ids: Ids, counts: npt.NDArray[np.float64], now_s: float, tick_s: float) -> None:
        """Add counts (m,) of ascending ids (m,); what is as good as forgotten is let go."""
        dt_s = tick_s if self.now_s is None else max(now_s - self.now_s, 0.0)
        self.now_s = now_s
        keep = 0.5 ** (dt_s / self.half_life_s)
        self.window_s = self.window_s * keep + dt_s
        every = union(self.ids, ids)
        total = np.zeros(len(every))
        total[np.searchsorted(every, self.ids)] = self.counts * keep
        total[np.searchsorted(every, ids)] += np.minimum(counts, self.most)
        stays = total > 1e-2
        self.ids, self.counts = every[stays], total[stays]

    def of(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Return (m,) tallied counts, 0 for those that it does not hold."""
        out = np.zeros(len(ids))
        if len(self.ids):
            place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
            there = self.ids[place] == ids
            out[there] = self.counts[place[there]]
        return out
