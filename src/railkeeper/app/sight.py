"""Which links have been looked at lately: of one that no probe crosses, nothing is known, whatever the others say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import links_crossed

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric
    from railkeeper.probe.pathstats import PathStats

# In a large fabric not every link is probed in every tick, but each is within some seconds.
FRESH_S = 10.0


class Sight:
    """The last tick in which each link was crossed by a row that is evidence; before the first, all count as seen."""

    def __init__(self, fabric: Fabric, tick_s: float) -> None:
        self._fabric, self._fresh_ticks = fabric, max(2, round(FRESH_S / tick_s))
        self._seen: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None

    def look(self, tick: int, stats: PathStats) -> int:
        """Take in a tick, and return how many links have not been seen lately."""
        if self._seen is None:
            self._seen = np.full(self._fabric.n_links, tick, dtype=np.int64)
        crossed = links_crossed(self._fabric, stats.paths.take(stats.sent > 0))
        self._seen[crossed[crossed >= 0] // 2] = tick
        np.minimum(self._seen, tick, out=self._seen)  # a clock that was set back makes nothing look fresh for long
        return int((tick - self._seen >= self._fresh_ticks).sum())
