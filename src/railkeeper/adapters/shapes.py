"""Shapes of metrics texts: what a text says beyond its numbers, kept so that the next one like it costs little.

A skeleton is a text's comments and names of metrics in their order: hosts of one kind share it. A shape is a skeleton
with the labels of one host.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from railkeeper.adapters import exposition_kernels as k
from railkeeper.adapters.families import Families, Family, labels_fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railkeeper.adapters.exposition_lines import Lines
    from railkeeper.adapters.families import Need, Problem
    from railkeeper.adapters.series_table import Series, SeriesTable

# Rows of all shapes that are kept: about 20 bytes each.
MAX_SHAPE_ROWS = 20_000_000
OVERHEAD_ROWS = 64


@dataclass
class Skeleton:
    """Families and their rows.

    - lines (n,): the samples' lines; problems: line -> what does not fit
    - counters: rows that may not be negative; needs: rows that must have a certain label
    - plans: what users derive from it once
    """

    families: Mapping[str, Family]
    lines: NDArray[np.int64]
    problems: dict[int, tuple[int, Problem]]
    counters: NDArray[np.int64]
    needs: tuple[Need, ...]
    plans: dict[Any, Any] = field(default_factory=dict)


@dataclass
class Shape:
    """A skeleton with series: row r is `series[r]`.

    - label_sets (n,): rows with the same labels have the same number
    - again (m, 2): rows whose series is there more than once, and which series it is
    """

    skeleton: Skeleton
    series: list[Series]
    label_sets: NDArray[np.int32]
    again: NDArray[np.int64]
    plans: dict[Any, Any] = field(default_factory=dict)


class Shapes:
    """Shapes and skeletons that were met, by what their texts say; those not met for longest go first."""

    def __init__(self, table: SeriesTable, max_rows: int = MAX_SHAPE_ROWS) -> None:
        self._table = table
        self._max_rows = max_rows
        self._rows = self._skeleton_rows = 0
        self._generation = table.generation
        self._shapes: OrderedDict[bytes, Shape] = OrderedDict()
        self._skeletons: OrderedDict[bytes, Skeleton] = OrderedDict()

    def of(self, lines: Lines, *, openmetrics: bool) -> Shape:
        """Return the shape of a text."""
        self._make_room()
        key = _key(lines.hashes, lines.kinds, openmetrics=openmetrics)
        rows = np.nonzero(lines.kinds == k.SAMPLE)[0]
        ids = self._table.ids(lines.body, np.ascontiguousarray(lines.ints[rows, :2]), lines.hashes[rows])
        if (shape := self._shapes.get(key)) is not None:
            self._shapes.move_to_end(key)
            return shape
        self._shapes[key] = shape = self._new(lines, rows, ids, openmetrics=openmetrics)
        self._rows += len(shape.series) + OVERHEAD_ROWS
        return shape

    def _make_room(self) -> None:
        self._table.make_room()
        if self._generation != self._table.generation:
            self._shapes.clear()
            self._rows, self._generation = 0, self._table.generation
        while self._rows > self._max_rows and self._shapes:
            _, gone = self._shapes.popitem(last=False)
            self._rows -= len(gone.series) + OVERHEAD_ROWS
        while self._skeleton_rows > self._max_rows // 20:
            _, old = self._skeletons.popitem(last=False)
            self._skeleton_rows -= len(old.lines) + OVERHEAD_ROWS

    def _new(self, lines: Lines, rows: NDArray[np.int64], ids: NDArray[np.int64], *, openmetrics: bool) -> Shape:
        series = [self._table.series[i] for i in ids.tolist()]
        key = _key(lines.names, lines.kinds, openmetrics=openmetrics)
        skeleton = self._skeletons.get(key)
        if skeleton is None or not self._fits(skeleton, series):
            skeleton = _skeleton(lines, series, rows, openmetrics=openmetrics)
            # One of the same key that did not fit these labels stays: most hosts are like it.
            if not skeleton.problems and key not in self._skeletons:
                self._skeletons[key] = skeleton
                self._skeleton_rows += len(skeleton.lines) + OVERHEAD_ROWS
        else:
            self._skeletons.move_to_end(key)
        if skeleton.problems:
            kept = np.isin(rows, skeleton.lines)
            ids = ids[kept]
            series = [self._table.series[i] for i in ids.tolist()]
        return Shape(skeleton, series, self._table.label_sets[ids], _again(self._table.same[ids]))

    @staticmethod
    def _fits(skeleton: Skeleton, series: list[Series]) -> bool:
        """Return whether a skeleton that was found in order is so with these labels too."""
        return all(labels_fit(need, series[need.row]) for need in skeleton.needs) and not any(
            one.problem for one in series
        )


def _key(hashes: NDArray[np.uint64], kinds: NDArray[np.uint8], *, openmetrics: bool) -> bytes:
    return blake2b(hashes.tobytes() + kinds.tobytes(), digest_size=16).digest() + bytes([openmetrics])


def _skeleton(lines: Lines, series: list[Series], rows: NDArray[np.int64], *, openmetrics: bool) -> Skeleton:
    """Sort samples into families, line by line in the order of the text."""
    families = Families(openmetrics=openmetrics)
    problems: dict[int, tuple[int, Problem]] = {}
    at: list[int] = []
    by_line = dict(zip(rows.tolist(), series, strict=True))
    for line in np.nonzero((lines.kinds == k.SAMPLE) | (lines.kinds == k.COMMENT))[0].tolist():
        found = by_line.get(line)
        if found is None:
            problem, code = families.comment(lines.raw(line).decode()), k.BAD_COMMENT
        elif found.problem:
            problem, code = (found.problem, "each label once, and none called __name__"), k.BAD_SERIES
        else:
            problem, code = families.sample(found, len(at)), k.BAD_FAMILY
        if problem is not None:
            problems[line] = (code, problem)
        elif found is not None:
            at.append(line)
    return Skeleton(
        families={name: family for name, family in families.all.items() if family.rows or family.said},
        lines=np.array(at, np.int64),
        problems=problems,
        counters=np.array(families.counting, np.int64),
        needs=tuple(families.needs),
    )


def _again(same: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return (row, which series) of all series that are there more than once."""
    found, which, counts = np.unique(same, return_inverse=True, return_counts=True)
    if len(found) == len(same):
        return np.empty((0, 2), np.int64)
    rows = np.nonzero(counts[which] > 1)[0]
    return np.stack([rows, which[rows]], axis=1)


def without(shape: Shape, rows: NDArray[np.int64]) -> Shape:
    """Return a shape without some of its rows. Kept in the shape: a target that errs does so at each scrape."""
    key = ("without", rows.tobytes())
    if key not in shape.plans:
        shape.plans = {key: _cut(shape, rows)}
    return cast("Shape", shape.plans[key])


def _cut(shape: Shape, rows: NDArray[np.int64]) -> Shape:
    keep = np.ones(len(shape.series), bool)
    keep[rows] = False
    place = np.cumsum(keep) - 1
    whole = shape.skeleton
    families = {
        name: replace(family, rows=[int(place[r]) for r in family.rows if keep[r]])
        for name, family in whole.families.items()
    }
    none = np.empty((0, 2), np.int64)
    return Shape(
        Skeleton(families, whole.lines[keep], whole.problems, none[:, 0], ()),
        [found for found, kept in zip(shape.series, keep.tolist(), strict=True) if kept],
        shape.label_sets[keep],
        none,
    )
