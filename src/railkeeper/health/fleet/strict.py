"""Location where one good row clears all that it crosses: added delay, lack of speed.

A slow or late link lets nothing pass in time, so a single row that did well proves each of its links innocent. A part
is guilty in a direction when all of its links that any row crosses in this direction are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fleet.solve import Neighbourhood, neighbourhood
from railkeeper.health.fleet.strict_kernels import guilty_links

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.plan_index import PlanIndex
    from railkeeper.health.fleet.space import PartSpace

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Culprit:
    """A part that explains bad rows: `directions` fit equally, `ties` are parts that would explain as much."""

    part: int
    direction: int
    directions: tuple[int, ...]
    ties: tuple[int, ...]
    rows: Longs
    times: Floats
    weight: float


@dataclass
class Strict:
    """What strict location needs beside a plan; the scratch arrays are clean between calls."""

    index: PlanIndex
    space: PartSpace
    verdict: Bytes
    age: Bytes
    scratch: Ints
    seen: Bytes

    def explain(
        self, bad: Ints, weight: Floats, clears: tuple[int, int], least: float, held: frozenset[int]
    ) -> list[Culprit]:
        """Return the fewest parts that explain bad rows (ascending numbers) of some weight each.

        - clears: bits and an age in ticks: a row with one of these bits, and younger, clears what it crosses
        - least: weight below which a rest stays unexplained; held: parts that win ties
        """
        guilty = self._guilty(bad, *clears)
        parts = self._near(guilty)
        if not len(parts):
            return []
        hood = neighbourhood(self.index, self.space, parts, bad.astype(np.int64), self.scratch)
        return _cover(hood, self._allowed(parts, guilty), weight, least, held)

    def _guilty(self, bad: Ints, clears: int, most: int) -> Ints:
        out = np.empty(bad.size * self.index.crossed.shape[1], dtype=np.int32)
        i = self.index
        n = guilty_links(bad, i.crossed, i.start, i.row, self.verdict, clears, self.age, most, self.seen, out)
        return out[:n]

    def _near(self, guilty: Ints) -> Longs:
        parts = np.unique(self.space.parts_of_link[np.unique(guilty >> 1)])
        return parts[parts >= 0].astype(np.int64)

    def _allowed(self, parts: Longs, guilty: Ints) -> npt.NDArray[np.bool_]:
        """Return (3 * parts,) whether all probed links of a part are guilty in a direction."""
        out = np.zeros(3 * len(parts), dtype=np.bool_)
        known = set(guilty.tolist())
        for p, part in enumerate(parts.tolist()):
            links = self.space.links(part)
            ways = [self._way(2 * links + d, known) for d in (0, 1)]
            out[3 * p : 3 * p + 3] = ways[0] > 0, ways[1] > 0, min(ways) >= 0 and max(ways) > 0
        return out

    def _way(self, directed: Ints, known: set[int]) -> int:
        """Return how many links are guilty, -1 where one that is probed is not."""
        probed = directed[self.index.start[directed + 1] > self.index.start[directed]]
        return len(probed) if all(d in known for d in probed.tolist()) else -1


def _cover(
    hood: Neighbourhood, allowed: npt.NDArray[np.bool_], weight: Floats, least: float, held: frozenset[int]
) -> list[Culprit]:
    left = weight.astype(np.float64)
    out: list[Culprit] = []
    of_entry = np.repeat(np.arange(hood.n_hyps), np.diff(hood.start))
    while True:
        total = np.bincount(of_entry, weights=left[hood.row], minlength=hood.n_hyps)
        total[~allowed] = 0.0
        top = float(total.max(initial=0.0))
        if top < least or top == 0.0:
            return out
        ties = np.flatnonzero(total >= top * (1 - 1e-9))
        first = int(min(ties, key=lambda h: (int(hood.parts[h // 3]) not in held, hood.sizes[h // 3], -(h % 3))))
        row, times = hood.rows_of(first)
        left[row] = 0.0
        after = np.bincount(of_entry, weights=left[hood.row], minlength=hood.n_hyps)
        same = ties[after[ties] <= top * 1e-9]
        out.append(
            Culprit(
                part=int(hood.parts[first // 3]), direction=first % 3,
                directions=tuple(int(h) % 3 for h in same if h // 3 == first // 3),
                ties=tuple(dict.fromkeys(int(hood.parts[h // 3]) for h in same if h // 3 != first // 3)),
                rows=hood.rows[row], times=times, weight=top,
            )
        )  # fmt: skip
