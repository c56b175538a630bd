"""Metrics texts of many targets as one column, for those who know which series they want.

A target says the same series in the same order again and again, and only numbers change. So the text before is kept;
while nothing else differs, the new one costs a comparison of bytes and the digits of its numbers. Whatever differs
otherwise is read by the full reader, with all its checks.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters import exposition_kernels as k
from railkeeper.adapters.exposition_lines import Lines, scan
from railkeeper.adapters.prometheus_columns_kernels import follow
from railkeeper.adapters.series_table import Series, parse_series
from railkeeper.base.errors import OutsideError
from railkeeper.telemetry.frame import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass
class _Known:
    """A target's last text: the spans of its numbers, and the row of each (-1: nobody wants it)."""

    body: bytes
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.uint64]
    wanted: NDArray[np.int64] | slice


class SeriesColumn:
    """Whole numbers of series of any number of targets, by row; `place` says which row a series has, None for none.

    `values` (n,) uint64: ABSENT where the last text of the target had no such series, or no whole number for it.
    """

    def __init__(self, n: int, place: Callable[[Series], int | None]) -> None:
        self.values = np.full(n, ABSENT, dtype=np.uint64)
        self.followed = self.read_anew = 0
        self._place = place
        self._known: dict[str, _Known] = {}
        self._seed = np.uint64(secrets.randbits(64))

    def take(self, target: str, body: bytes) -> None:
        """Take in the text of a target. Raises OutsideError if a line of it is bad; its rows are then ABSENT."""
        known = self._known.get(target)
        if known is not None:
            pair = np.frombuffer(body, np.uint8), np.frombuffer(known.body, np.uint8)
            if follow(*pair, known.begins, known.ends, known.values):
                known.body = body
                self.followed += 1
                self.values[known.rows] = known.values[known.wanted]
                return
            self.lose(target)
        self.read_anew += 1
        self._read(target, body)

    def lose(self, target: str) -> None:
        """Forget a target that did not answer: its rows are ABSENT."""
        known = self._known.pop(target, None)
        if known is not None:
            self.values[known.rows] = ABSENT

    def _read(self, target: str, body: bytes) -> None:
        lines, _ = scan(body, self._seed, openmetrics=False)
        bad = np.flatnonzero(lines.kinds >= k.BAD)
        if len(bad):
            raise OutsideError(
                f"{target}: line {int(bad[0]) + 1} of its metrics can't be read: {lines.raw(bad[0])[:80]!r}"
            )
        at = np.flatnonzero(lines.kinds == k.SAMPLE)
        rows = np.array([self._row(lines, line) for line in at.tolist()], dtype=np.int64)
        whole = (lines.ints[at, 5] & k.WHOLE) != 0
        values = np.where(whole, lines.whole[at], np.uint64(ABSENT))
        wanted = np.flatnonzero(rows >= 0)
        self.values[rows[wanted]] = values[wanted]
        spans = lines.ints[at, 2].copy(), lines.ints[at, 3].copy()
        everything: NDArray[np.int64] | slice = slice(None) if len(wanted) == len(at) else wanted
        self._known[target] = _Known(body, *spans, rows[wanted], values, everything)

    def _row(self, lines: Lines, line: int) -> int:
        begin, end = lines.ints[line, :2].tolist()
        found = self._place(parse_series(lines.body[begin:end].decode()))
        return -1 if found is None else found
