"""A probe plan as the fleet locator holds it: rows with stable numbers, and their incidence with directed links."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths, join_paths, links_crossed, same_t0
from railkeeper.health.fleet.index_kernels import rows_by_link, rows_over
from railkeeper.health.rows import path_keys

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]

BLOCK = 1 << 18  # rows whose links are worked out at once: bounds the memory of temporaries


@dataclass
class PlanIndex:
    """Rows that were ever seen; a row keeps its number.

    - crossed: (rows, 6) directed links of each row, -1 as padding
    - group: (rows,) uint8: kind of path, 4 for a one-way path under one T0
    - start (2 * n_links + 1,), row: rows over directed link d are row[start[d]:start[d + 1]], ascending
    """

    fabric: Fabric
    paths: Paths
    crossed: Ints
    group: npt.NDArray[np.uint8]
    start: Ints
    row: Ints
    _last: Paths | None = None
    _place: Longs | None = None
    _marks: npt.NDArray[np.uint8] | None = field(default=None, repr=False)
    _sorted: tuple[Longs, Longs] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.paths)

    def place(self, paths: Paths) -> Longs | None:
        """Return the numbers of rows, None where they are 0, 1, 2, … themselves; -1 for rows never seen.

        The same object as before costs nothing, the same columns a comparison, other ones a search.
        """
        if paths is self.paths:
            return None
        if paths is not self._last:
            if not same_paths(paths, self._last):
                self._place = None if same_paths(paths, self.paths) else self._find(paths)
            self._last = paths
        return self._place

    def _find(self, paths: Paths) -> Longs:
        if self._sorted is None:
            keys = path_keys(self.fabric, self.paths)
            order = np.argsort(keys, kind="stable")
            self._sorted = (keys[order], order)
        ranked, order = self._sorted
        keys = path_keys(self.fabric, paths)
        at = np.minimum(np.searchsorted(ranked, keys), max(len(ranked) - 1, 0))
        return np.where(ranked[at] == keys, order[at], -1) if len(ranked) else np.full(len(keys), -1, dtype=np.int64)

    def rows_over(self, directed: npt.NDArray[np.integer]) -> Longs:
        """Return all rows over any of some directed links, ascending."""
        if self._marks is None:
            self._marks = np.zeros(len(self), dtype=np.uint8)
        found = rows_over(np.asarray(directed, dtype=np.int64), self.start, self.row, self._marks)
        return np.sort(found).astype(np.int64)

    def probed(self, links: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return whether any row crosses each link."""
        return np.asarray(self.start[2 * links + 2] > self.start[2 * links])


def same_paths(a: Paths, b: Paths | None) -> bool:
    """Return whether two tables hold the same paths in the same order."""
    if a is b:
        return True
    return b is not None and len(a) == len(b) and all(
        np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Paths)
    )  # fmt: skip


def index_paths(fabric: Fabric, paths: Paths) -> PlanIndex:
    """Return the index of a plan; takes a second or two for millions of rows."""
    crossed = np.empty((len(paths), 6), dtype=np.int32)
    for at in range(0, len(paths), BLOCK):
        crossed[at : at + BLOCK] = links_crossed(fabric, paths.take(slice(at, at + BLOCK)))
    start = np.zeros(2 * fabric.n_links + 1, dtype=np.int32)
    row = np.empty(int((crossed >= 0).sum()), dtype=np.int32)
    rows_by_link(crossed, start, row)
    local = (paths.kind == PathKind.ONEWAY) & same_t0(fabric, paths)
    group = np.where(local, len(PathKind), paths.kind).astype(np.uint8)
    return PlanIndex(fabric, paths, crossed, group, start, row)


def with_more(index: PlanIndex, paths: Paths) -> PlanIndex:
    """Return an index with rows added behind the known ones; repeats among the new rows are left out."""
    keys = path_keys(index.fabric, paths)
    _, first = np.unique(keys, return_index=True)
    new = paths.take(np.sort(first))
    return index_paths(index.fabric, join_paths([index.paths, new]) if len(index) else new)
