"""Exposition: reads Prometheus text 0.0.4 and OpenMetrics 1.0 into columns; bad lines are told, none is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters import exposition_kernels as k
from railkeeper.adapters.exposition_errors import LineError, line_error
from railkeeper.adapters.exposition_lines import Lines, scan
from railkeeper.adapters.series_table import Series, SeriesTable
from railkeeper.adapters.shapes import MAX_SHAPE_ROWS, Shape, Shapes, without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railkeeper.adapters.families import Family

NO_TIME = np.iinfo(np.int64).min
# Errors that are told with their text; the rest is only counted.
MAX_ERRORS_TOLD = 20


@dataclass(frozen=True)
class Counts:
    """What became of the lines: `lines = samples + comments + blank + errors`."""

    lines: int
    samples: int
    comments: int
    blank: int
    errors: int


@dataclass(frozen=True)
class Scrape:
    """One text as columns: row r is the r-th sample, `series[r]` its name and labels.

    - values (n,) float64; whole (n,) uint64 the same exactly, where `is_whole` says it was written as a whole number
    - times_ns (n,) unix ns, NO_TIME where the text gives none
    - families: name -> Family with its rows
    - exemplar_texts: row -> what is written behind its sample, from `#` on
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
        return self.shape.skeleton.families

    def number(self, row: int) -> int | float:
        """Return a value as exactly as it was written."""
        return int(self.whole[row]) if self.is_whole[row] else float(self.values[row])


class Reader:
    """Reads texts of any number of targets, and shares series and shapes between them. For one thread at a time."""

    def __init__(self, table: SeriesTable | None = None, max_shape_rows: int = MAX_SHAPE_ROWS) -> None:
        self._table = SeriesTable() if table is None else table
        self._shapes = Shapes(self._table, max_shape_rows)

    def read(self, body: bytes, *, openmetrics: bool = False) -> Scrape:
        """Return all samples of a text, and what is wrong with the other lines."""
        lines, eof = scan(body, self._table.seed, openmetrics=openmetrics)
        shape = _good_values(lines, self._shapes.of(lines, openmetrics=openmetrics))
        return _scrape(lines, shape, complete=eof or not openmetrics)


def _good_values(lines: Lines, shape: Shape) -> Shape:
    """Return the shape without the samples that are bad by their numbers, which are marked."""
    places, counters = shape.skeleton.lines, shape.skeleton.counters
    bad = _not_rising(lines, shape) if len(shape.again) else []
    if len(counters):
        bad += [(r, k.BAD_COUNTER) for r in counters[~(lines.values[places[counters]] >= 0)].tolist()]
    for row, code in bad:
        line = int(places[row])
        lines.mark(line, code, int(lines.starts[line]))
    return without(shape, np.array(sorted({row for row, _ in bad}), np.int64)) if bad else shape


def _not_rising(lines: Lines, shape: Shape) -> list[tuple[int, int]]:
    """Return rows of a series that was there before, unless each has a time after the one before."""
    last: dict[int, int | None] = {}
    bad = []
    for row, which in shape.again.tolist():
        ints = lines.ints[shape.skeleton.lines[row]]
        time_ns = int(ints[4]) if ints[5] & k.HAS_TIME else None
        if which in last and (time_ns is None or (before := last[which]) is None or time_ns <= before):
            bad.append((row, k.BAD_TWICE))
        else:
            last[which] = time_ns
    return bad


def _scrape(lines: Lines, shape: Shape, *, complete: bool) -> Scrape:
    at = shape.skeleton.lines
    flags = lines.ints[at, 5]
    return Scrape(
        shape=shape,
        values=lines.values[at],
        whole=lines.whole[at],
        is_whole=(flags & k.WHOLE) != 0,
        times_ns=np.where(flags & k.HAS_TIME, lines.ints[at, 4], NO_TIME),
        counts=_counts(lines, shape),
        errors=_errors(lines, shape),
        complete=complete,
        exemplar_texts=_exemplars(lines, at, flags),
    )


def _counts(lines: Lines, shape: Shape) -> Counts:
    problems = shape.skeleton.problems
    comments = int(np.count_nonzero(lines.kinds == k.COMMENT))
    comments -= sum(code == k.BAD_COMMENT for code, _ in problems.values())
    blank = int(np.count_nonzero(lines.kinds == k.BLANK))
    errors = int(np.count_nonzero(lines.kinds >= k.BAD)) + len(problems)
    return Counts(len(lines.kinds), len(shape.series), comments, blank, errors)


def _errors(lines: Lines, shape: Shape) -> tuple[LineError, ...]:
    problems = shape.skeleton.problems
    bad = np.nonzero(lines.kinds >= k.BAD)[0][:MAX_ERRORS_TOLD].tolist()
    told = sorted({*bad, *sorted(problems)[:MAX_ERRORS_TOLD]})[:MAX_ERRORS_TOLD]
    out = []
    for line in told:
        code, special = problems.get(line, (int(lines.kinds[line]), lines.special.get(line)))
        column = 1 if line in problems else int(lines.ints[line, 9] - lines.starts[line]) + 1
        out.append(line_error(line + 1, column, code, lines.raw(line), special))
    return tuple(out)


def _exemplars(lines: Lines, at: NDArray[np.int64], flags: NDArray[np.int64]) -> dict[int, str]:
    rows = np.nonzero(flags & k.HAS_EXEMPLAR)[0].tolist()
    return {row: lines.body[lines.ints[at[row], 6] : lines.ends[at[row]]].decode() for row in rows}
