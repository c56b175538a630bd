"""Exposition: reads Prometheus text 0.0.4 and OpenMetrics 1.0 into columns; lines that are bad are told, none is lost.

A text has a shape: its series and comments in their order. Shapes are kept, so that the next text of the same shape
costs one pass over its bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from railkeeper.adapters import exposition_kernels as k
from railkeeper.adapters.exposition_errors import LineError, line_error
from railkeeper.adapters.families import Families, Family
from railkeeper.adapters.series_table import Series, SeriesTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

NO_TIME = np.iinfo(np.int64).min
# Errors that are told with their text; the rest is only counted.
MAX_ERRORS_TOLD = 20
# Rows of all shapes that are kept.
MAX_SHAPE_ROWS = 8_000_000


@dataclass(frozen=True)
class Counts:
    """What became of the lines: `lines = samples + comments + blank + errors`."""

    lines: int
    samples: int
    comments: int
    blank: int
    errors: int


@dataclass
class Shape:
    """What a text says beyond its numbers. `lines` are the samples' lines; `problems` the lines that do not fit."""

    series: list[Series]
    families: Mapping[str, Family]
    lines: NDArray[np.int64]
    problems: dict[int, tuple[int, tuple[str, str]]]
    again: NDArray[np.int64]  # (m, 2): rows whose series is there more than once, and which series it is
    counters: NDArray[np.int64]  # rows that may not be negative
    plans: dict[Any, Any] = field(default_factory=dict)  # what users of the shape derive from it once


@dataclass(frozen=True)
class Scrape:
    """One text as columns: row r is the r-th sample, `shape.series[r]` its name and labels.

    - values (n,) float64; whole (n,) uint64 the same exactly, where `is_whole` says it was written as a whole number
    - times_ns (n,) unix ns, NO_TIME where the text gives none
    - families: name -> Family with its rows
    - complete: False for an OpenMetrics text without `# EOF`, which may have been cut
    """

    shape: Shape
    values: NDArray[np.float64]
    whole: NDArray[np.uint64]
    is_whole: NDArray[np.bool_]
    times_ns: NDArray[np.int64]
    counts: Counts
    errors: tuple[LineError, ...]
    complete: bool
    exemplar_texts: Mapping[int, str]

    @property
    def series(self) -> list[Series]:
        """Return name and labels by row."""
        return self.shape.series

    @property
    def families(self) -> Mapping[str, Family]:
        """Return families by name."""
        return self.shape.families

    def number(self, row: int) -> int | float:
        """Return a value as exactly as it was written."""
        return int(self.whole[row]) if self.is_whole[row] else float(self.values[row])


@dataclass
class _Lines:
    """Output of the kernel for one text."""

    body: bytes
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    ints: NDArray[np.int64]
    values: NDArray[np.float64]
    whole: NDArray[np.uint64]
    special: dict[int, tuple[str, str]] = field(default_factory=dict)

    def raw(self, line: int) -> bytes:
        return self.body[self.starts[line] : self.ends[line]]


class Reader:
    """Reads texts of any number of targets, and shares series and shapes between them. For one thread at a time."""

    def __init__(self, table: SeriesTable | None = None, max_shape_rows: int = MAX_SHAPE_ROWS) -> None:
        self._table = table or SeriesTable()
        self._max_shape_rows = max_shape_rows
        self._shape_rows = 0
        self._generation = self._table.generation
        self._shapes: OrderedDict[tuple[bool, bytes], Shape] = OrderedDict()

    def read(self, body: bytes, *, openmetrics: bool = False) -> Scrape:
        """Return all samples of a text, and what is wrong with the other lines."""
        self._make_room()
        lines, eof = _scan(body, self._table.seed, openmetrics=openmetrics)
        _mark_bad_utf8(lines)
        _finish_numbers(lines)
        shape = _good_values(lines, self._shape(lines, openmetrics=openmetrics))
        return _scrape(lines, shape, complete=eof or not openmetrics)

    def _make_room(self) -> None:
        self._table.make_room()
        if self._generation != self._table.generation:
            self._shapes.clear()
            self._shape_rows, self._generation = 0, self._table.generation
        while self._shape_rows > self._max_shape_rows:
            _, gone = self._shapes.popitem(last=False)
            self._shape_rows -= len(gone.lines) + 16

    def _shape(self, lines: _Lines, *, openmetrics: bool) -> Shape:
        key = (openmetrics, lines.hashes.tobytes() + lines.kinds.tobytes())
        shape = self._shapes.get(key)
        rows = np.nonzero(lines.kinds == k.SAMPLE)[0]
        ids = self._table.ids(lines.body, np.ascontiguousarray(lines.ints[rows, :2]), lines.hashes[rows])
        if shape is not None:
            self._shapes.move_to_end(key)
            return shape
        shape = _build(lines, [self._table.series[i] for i in ids.tolist()], rows, openmetrics=openmetrics)
        self._shapes[key] = shape
        self._shape_rows += len(shape.lines) + 16
        return shape


def _scan(body: bytes, seed: np.uint64, *, openmetrics: bool) -> tuple[_Lines, bool]:
    array = np.frombuffer(body, np.uint8)
    most = int(np.count_nonzero(array == k.LF)) + 1
    kinds, starts, ends = np.empty(most, np.uint8), np.empty(most, np.int64), np.empty(most, np.int64)
    hashes, ints = np.empty(most, np.uint64), np.empty((most, 10), np.int64)
    values, whole = np.empty(most, np.float64), np.zeros(most, np.uint64)
    n, eof = k.scan(array, openmetrics, seed, kinds, starts, ends, hashes, ints, values, whole)
    return _Lines(body, kinds[:n], starts[:n], ends[:n], hashes[:n], ints[:n], values[:n], whole[:n]), bool(eof)


def _mark_bad_utf8(lines: _Lines) -> None:
    """Mark lines with bytes that are no UTF-8; a text of ASCII costs one quick pass."""
    if lines.body.isascii():
        return
    high = np.concatenate([[0], np.cumsum(np.frombuffer(lines.body, np.uint8) >= 0x80)])
    for line in np.nonzero(high[lines.ends] > high[lines.starts])[0].tolist():
        try:
            lines.raw(line).decode()
        except UnicodeDecodeError as error:
            _mark(lines, line, k.BAD_UTF8, int(lines.starts[line]) + error.start)


def _mark(lines: _Lines, line: int, code: int, at: int) -> None:
    lines.kinds[line] = code
    lines.hashes[line] = code
    lines.ints[line, 9] = at


def _finish_numbers(lines: _Lines) -> None:
    """Read the numbers that the kernel left: those with more digits than it reads exactly."""
    flags = np.where(lines.kinds == k.SAMPLE, lines.ints[:, 5], 0)
    for line in np.nonzero(flags & k.SLOW_VALUE)[0].tolist():
        begin, end = lines.ints[line, 2:4].tolist()
        value = float(lines.body[begin:end])
        if np.isinf(value):
            _mark(lines, line, k.BAD_VALUE, begin)
        lines.values[line] = value
    for line in np.nonzero(flags & k.SLOW_TIME)[0].tolist():
        begin, end = lines.ints[line, 7:9].tolist()
        ns = _far_time_ns(lines.body[begin:end].decode())
        if ns is None:
            _mark(lines, line, k.BAD_TIME, begin)
            lines.special[line] = ("the time is out of range", "a time between the years 1678 and 2262")
        else:
            lines.ints[line, 4] = ns


def _far_time_ns(text: str) -> int | None:
    """Return the ns of a time in s with more digits than the kernel reads; None if they are out of range."""
    seconds = Decimal(text)
    # The size is looked at first: 1e999999 is quick to write and slow to make whole.
    if seconds.adjusted() > 11:
        return None
    ns = int(seconds * 10**9) if seconds.adjusted() > -12 else 0
    return ns if abs(ns) < 2**63 else None


def _build(lines: _Lines, series: list[Series], rows: NDArray[np.int64], *, openmetrics: bool) -> Shape:
    """Sort samples into families, line by line in the order of the text."""
    families = Families(openmetrics=openmetrics)
    problems: dict[int, tuple[int, tuple[str, str]]] = {}
    kept: list[Series] = []
    at: list[int] = []
    by_line = dict(zip(rows.tolist(), series, strict=True))
    for line in np.nonzero((lines.kinds == k.SAMPLE) | (lines.kinds == k.COMMENT))[0].tolist():
        found = by_line.get(line)
        if found is None:
            problem, code = families.comment(lines.raw(line).decode()), k.BAD_COMMENT
        elif found.problem:
            problem, code = (found.problem, "each label once, and none called __name__"), k.BAD_SERIES
        else:
            problem, code = families.sample(found, len(kept)), k.BAD_FAMILY
        if problem is not None:
            problems[line] = (code, problem)
        elif found is not None:
            kept.append(found)
            at.append(line)
    counters = [r for f in families.all.values() if openmetrics and f.kind == "counter" for r in f.rows]
    found_families = {name: family for name, family in families.all.items() if family.rows or family.said}
    return Shape(kept, found_families, np.array(at, np.int64), problems, _again(kept), np.array(counters, np.int64))


def _again(series: list[Series]) -> NDArray[np.int64]:
    """Return (row, which series) of all series that are there more than once."""
    first: dict[tuple[str, int], int] = {}
    which = [first.setdefault((found.name, id(found.labels)), row) for row, found in enumerate(series)]
    if len(first) == len(series):
        return np.empty((0, 2), np.int64)
    numbers = np.array(which, np.int64)
    rows = np.nonzero(np.bincount(numbers, minlength=len(series))[numbers] > 1)[0]
    return np.stack([rows, numbers[rows]], axis=1)


def _good_values(lines: _Lines, shape: Shape) -> Shape:
    """Return the shape without the samples that are bad by their numbers, which are marked."""
    bad = _not_rising(lines, shape) if len(shape.again) else []
    if len(shape.counters):
        bad += [(r, k.BAD_COUNTER) for r in shape.counters[~(lines.values[shape.lines[shape.counters]] >= 0)].tolist()]
    if not bad:
        return shape
    for row, code in bad:
        line = int(shape.lines[row])
        _mark(lines, line, code, int(lines.starts[line]))
    rows = np.array(sorted({row for row, _ in bad}), np.int64)
    if (key := ("without", rows.tobytes())) not in shape.plans:
        shape.plans = {key: _without(shape, rows)}
    return cast("Shape", shape.plans[key])


def _not_rising(lines: _Lines, shape: Shape) -> list[tuple[int, int]]:
    """Return rows of a series that was there before, unless each has a time after the one before."""
    last: dict[int, int | None] = {}
    bad = []
    for row, which in shape.again.tolist():
        ints = lines.ints[shape.lines[row]]
        time_ns = int(ints[4]) if ints[5] & k.HAS_TIME else None
        if which in last and (time_ns is None or (before := last[which]) is None or time_ns <= before):
            bad.append((row, k.BAD_TWICE))
        else:
            last[which] = time_ns
    return bad


def _without(shape: Shape, rows: NDArray[np.int64]) -> Shape:
    keep = np.ones(len(shape.series), bool)
    keep[rows] = False
    place = np.cumsum(keep) - 1
    families = {
        name: replace(family, rows=[int(place[r]) for r in family.rows if keep[r]])
        for name, family in shape.families.items()
    }
    series = [found for found, kept in zip(shape.series, keep.tolist(), strict=True) if kept]
    none = np.empty((0, 2), np.int64)
    return Shape(series, families, shape.lines[keep], shape.problems, none, none[:, 0])


def _scrape(lines: _Lines, shape: Shape, *, complete: bool) -> Scrape:
    at = shape.lines
    flags = lines.ints[at, 5]
    samples = len(at)
    comments = int(np.count_nonzero(lines.kinds == k.COMMENT))
    comments -= sum(code == k.BAD_COMMENT for code, _ in shape.problems.values())
    blank = int(np.count_nonzero(lines.kinds == k.BLANK))
    errors = int(np.count_nonzero(lines.kinds >= k.BAD)) + len(shape.problems)
    return Scrape(
        shape=shape,
        values=lines.values[at],
        whole=lines.whole[at],
        is_whole=(flags & k.WHOLE) != 0,
        times_ns=np.where(flags & k.HAS_TIME, lines.ints[at, 4], NO_TIME),
        counts=Counts(len(lines.kinds), samples, comments, blank, errors),
        errors=_errors(lines, shape),
        complete=complete,
        exemplar_texts=_exemplars(lines, at, flags),
    )


def _errors(lines: _Lines, shape: Shape) -> tuple[LineError, ...]:
    bad = np.nonzero(lines.kinds >= k.BAD)[0][:MAX_ERRORS_TOLD].tolist()
    told = sorted({*bad, *sorted(shape.problems)[:MAX_ERRORS_TOLD]})[:MAX_ERRORS_TOLD]
    out = []
    for line in told:
        code, special = shape.problems.get(line, (int(lines.kinds[line]), lines.special.get(line)))
        column = 1 if line in shape.problems else int(lines.ints[line, 9] - lines.starts[line]) + 1
        out.append(line_error(line + 1, column, code, lines.raw(line), special))
    return tuple(out)


def _exemplars(lines: _Lines, at: NDArray[np.int64], flags: NDArray[np.int64]) -> dict[int, str]:
    rows = np.nonzero(flags & k.HAS_EXEMPLAR)[0].tolist()
    return {row: lines.body[lines.ints[at[row], 6] : lines.ends[at[row]]].decode() for row in rows}
