"""Lines of a metrics text as the kernel finds them, and the marks of those that are bad in ways it can't see."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters import exposition_kernels as k

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Lines:
    """Output of the kernel for one text; columns of `ints` as `exposition_kernels.scan` says."""

    body: bytes
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    names: NDArray[np.uint64]
    ints: NDArray[np.int64]
    values: NDArray[np.float64]
    whole: NDArray[np.uint64]
    special: dict[int, tuple[str, str]] = field(default_factory=dict)

    def raw(self, line: int) -> bytes:
        """Return a line without its line feed."""
        return self.body[self.starts[line] : self.ends[line]]

    def mark(self, line: int, code: int, at: int) -> None:
        """Say that a line is bad, and where."""
        self.kinds[line] = code
        self.hashes[line] = self.names[line] = code
        self.ints[line, 9] = at


def scan(body: bytes, seed: np.uint64, *, openmetrics: bool) -> tuple[Lines, bool]:
    """Return the lines of a text, and whether its `# EOF` was there."""
    array = np.frombuffer(body, np.uint8)
    most = int(np.count_nonzero(array == k.LF)) + 1
    kinds, starts, ends = np.empty(most, np.uint8), np.empty(most, np.int64), np.empty(most, np.int64)
    hashes, names, ints = np.empty(most, np.uint64), np.empty(most, np.uint64), np.empty((most, 11), np.int64)
    values, whole = np.empty(most, np.float64), np.zeros(most, np.uint64)
    n, eof = k.scan(array, openmetrics, seed, kinds, starts, ends, hashes, names, (ints, values, whole))
    columns = (kinds, starts, ends, hashes, names, ints, values, whole)
    lines = Lines(body, *(column[:n] for column in columns))  # type: ignore[arg-type]
    _mark_bad_utf8(lines)
    _finish_numbers(lines)
    return lines, bool(eof)


def _mark_bad_utf8(lines: Lines) -> None:
    """Mark lines with bytes that are no UTF-8; a text of ASCII costs one quick pass."""
    if lines.body.isascii():
        return
    high = np.concatenate([[0], np.cumsum(np.frombuffer(lines.body, np.uint8) >= 0x80)])
    for line in np.nonzero(high[lines.ends] > high[lines.starts])[0].tolist():
        try:
            lines.raw(line).decode()
        except UnicodeDecodeError as error:
            lines.mark(line, k.BAD_UTF8, int(lines.starts[line]) + error.start)


def _finish_numbers(lines: Lines) -> None:
    """Read the numbers that the kernel left: those with more digits than it reads exactly."""
    flags = np.where(lines.kinds == k.SAMPLE, lines.ints[:, 5], 0)
    for line in np.nonzero(flags & k.SLOW_VALUE)[0].tolist():
        begin, end = lines.ints[line, 2:4].tolist()
        lines.values[line] = value = float(lines.body[begin:end])
        if np.isinf(value):
            lines.mark(line, k.BAD_VALUE, begin)
    for line in np.nonzero(flags & k.SLOW_TIME)[0].tolist():
        begin, end = lines.ints[line, 7:9].tolist()
        ns = _far_time_ns(lines.body[begin:end].decode(), whole_ms=not lines.ints[line, 5] & k.SECONDS)
        if ns is None:
            lines.mark(line, k.BAD_TIME, begin)
            lines.special[line] = ("the time is out of range", "a time between the years 1678 and 2262")
        else:
            lines.ints[line, 4] = ns


def _far_time_ns(text: str, *, whole_ms: bool) -> int | None:
    """Return the ns of a time with more digits than the kernel reads; None if they are out of range."""
    given = Decimal(text)
    # The size is looked at first: 1e999999 is quick to write and slow to make whole.
    if given.adjusted() > 14:
        return None
    scale = 10**6 if whole_ms else 10**9
    ns = int(given * scale) if given.adjusted() > -12 else 0
    return ns if abs(ns) < 2**63 else None
