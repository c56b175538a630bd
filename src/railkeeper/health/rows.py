"""Path rows with stable numbers, and which of them cross which part in which direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, join_paths, links_crossed, same_t0

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.paths import Paths
    from railkeeper.health.parts import Part

    Floats = npt.NDArray[np.float64]
    Longs = npt.NDArray[np.int64]


class Rows:
    """Registry of paths: a path keeps its row number for ever, so that ticks can be added up by row."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.version = 0
        self.paths: Paths | None = None
        self.crossed = np.empty((0, 6), dtype=np.int32)
        self.group = np.empty(0, dtype=np.int8)
        self.src_node = np.empty(0, dtype=np.int32)
        self.dst_node = np.empty(0, dtype=np.int32)
        self._keys = np.empty(0, dtype=np.int64)
        self._order = np.empty(0, dtype=np.int64)
        self._last: tuple[Longs, Longs] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, paths: Paths) -> Longs:
        """Return the (n,) row numbers of paths; new ones are added."""
        keys = path_keys(self.fabric, paths)
        if self._last is not None and np.array_equal(keys, self._last[0]):
            return self._last[1]
        at = self._find(keys)
        if (at < 0).any():
            self._add(paths.take(at < 0), keys[at < 0])
            at = self._find(keys)
        self._last = (keys, at)
        return at

    def _find(self, keys: Longs) -> Longs:
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        ranked = self._keys[self._order]
        place = np.minimum(np.searchsorted(ranked, keys), len(ranked) - 1)
        return np.where(ranked[place] == keys, self._order[place], -1)

    def _add(self, paths: Paths, keys: Longs) -> None:
        _, first = np.unique(keys, return_index=True)
        new = paths.take(np.sort(first))
        f = self.fabric
        self._keys = np.concatenate([self._keys, keys[np.sort(first)]])
        self._order = np.argsort(self._keys, kind="stable")
        self.paths = new if self.paths is None else join_paths([self.paths, new])
        self.crossed = np.concatenate([self.crossed, links_crossed(f, new)])
        local = (new.kind == PathKind.ONEWAY) & same_t0(f, new)
        self.group = np.concatenate([self.group, np.where(local, 4, new.kind).astype(np.int8)])
        self.src_node = np.concatenate([self.src_node, f.node_of(new.src)])
        self.dst_node = np.concatenate([self.dst_node, f.node_of(new.dst)])
        self.version += 1


def path_keys(f: Fabric, p: Paths) -> Longs:
    """Return (n,) one integer a path; far bounces end at home, so `far` and `back` can take the place of `dst`."""
    columns = ((p.src, f.n_nics), (p.plane, f.planes), (p.t1, f.t1_per_plane), (p.dst, f.n_nics))
    key = p.kind.astype(np.int64)
    for column, size in columns:
        key = key * (size + 1) + column + 1
    return (key * (f.t0_per_plane + 1) + p.far + 1) * (f.t1_per_plane + 1) + p.back + 1


@dataclass(frozen=True)
class Table:
    """Which rows each hypothesis crosses, and how often; hypothesis = 3 * part + direction (up, down, both).

    `hyp`, `row`, `times` are entries (n,) ordered by hypothesis; `start` (hypotheses + 1,) where each one's begin.
    """

    parts: list[Part]
    hyp: Longs
    row: Longs
    times: Floats
    start: Longs
    n_links: Floats
    of_one_host: npt.NDArray[np.bool_]

    @property
    def n_hyps(self) -> int:
        return 3 * len(self.parts)

    def rows_of(self, hyp: int) -> tuple[Longs, Floats]:
        """Return the rows that cross a hypothesis and how often each does."""
        chosen = slice(int(self.start[hyp]), int(self.start[hyp + 1]))
        return self.row[chosen], self.times[chosen]

    def total(self, per_row: npt.NDArray[np.generic]) -> Floats:
        """Return (hypotheses,) sums of a value over the rows that cross each."""
        return np.bincount(self.hyp, weights=per_row[self.row], minlength=self.n_hyps).astype(np.float64)

    def total_crossings(self, per_row: Floats) -> Floats:
        """Return (hypotheses,) sums of a value times the number of crossings."""
        return np.bincount(self.hyp, weights=per_row[self.row] * self.times, minlength=self.n_hyps).astype(np.float64)


def make_table(rows: Rows, parts: list[Part]) -> Table:
    """Cross parts with rows."""
    link_hyp = _directed_to_hyps(parts)
    row, place = np.nonzero(rows.crossed >= 0)
    directed = rows.crossed[row, place].astype(np.int64)
    order, bounds = link_hyp
    first, last = np.searchsorted(bounds, directed, "left"), np.searchsorted(bounds, directed, "right")
    count = last - first
    offset = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(int(count.sum()))
    key = order[offset] * max(len(rows), 1) + np.repeat(row, count)
    unique, times = np.unique(key, return_counts=True)
    hyp = unique // max(len(rows), 1)
    return Table(
        parts=parts, hyp=hyp, row=unique % max(len(rows), 1), times=times.astype(np.float64),
        start=np.searchsorted(hyp, np.arange(3 * len(parts) + 1)),
        n_links=np.repeat([float(len(p.links)) for p in parts], 3),
        of_one_host=np.repeat([p.of_one_host for p in parts], 3),
    )  # fmt: skip


def _directed_to_hyps(parts: list[Part]) -> tuple[Longs, Longs]:
    """Return hypotheses ordered by directed link, and the directed link of each."""
    part = np.repeat(np.arange(len(parts)), [len(p.links) for p in parts])
    link = np.concatenate([p.links for p in parts]).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
    hyp = np.concatenate([3 * part, 3 * part + 2, 3 * part + 1, 3 * part + 2])
    directed = np.concatenate([2 * link, 2 * link, 2 * link + 1, 2 * link + 1])
    order = np.lexsort((hyp, directed))
    return hyp[order], directed[order]
