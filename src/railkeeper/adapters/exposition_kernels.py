"""Kernels of the exposition reader: lines of Prometheus text, told apart and checked byte by byte.

A line is blank, a comment, a sample, or bad; for a sample the kernel finds where its series (name and labels) ends, its
value and its time. Numbers are read here where that is exact to the last bit; the others are left to Python's float
(`SLOW_*`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from railkeeper.adapters.number_kernels import number, stamp_ns, to_float, token_end
from railkeeper.adapters.series_kernels import hashes_of

Bytes = NDArray[np.uint8]

# What a line is; from BAD on it is an error, and the number says which (texts in exposition_errors.py).
BLANK, COMMENT, SAMPLE, BAD = 0, 1, 2, 16
(
    BAD_NAME,
    BAD_LABEL_NAME,
    BAD_EQUALS,
    BAD_QUOTE,
    BAD_ESCAPE,
    BAD_OPEN_VALUE,
    BAD_AFTER_LABEL,
    BAD_SPACE,
    BAD_VALUE,
    BAD_TIME,
    BAD_REST,
    BAD_EXEMPLAR,
    BAD_CUT,
    BAD_BLANK,
    BAD_COMMENT,
    BAD_AFTER_EOF,
    BAD_UTF8,
    BAD_SERIES,
    BAD_FAMILY,
    BAD_TWICE,
    BAD_COUNTER,
) = range(BAD, BAD + 21)

WHOLE, SLOW_VALUE, HAS_TIME, SLOW_TIME, HAS_EXEMPLAR, SECONDS = 1, 2, 4, 8, 16, 32

SPACE, TAB, LF, HASH, QUOTE, COMMA, EQUALS, OPEN, CLOSE, BACKSLASH = 32, 9, 10, 35, 34, 44, 61, 123, 125, 92


@njit(cache=True)
def _name_end(b: Bytes, i: int, end: int, colon: bool) -> int:
    """Return the end of a name that begins at i; i itself if none does."""
    first = i
    while i < end:
        c = b[i]
        letter = 97 <= c <= 122 or 65 <= c <= 90 or c == 95 or (colon and c == 58)
        if not (letter or (i > first and 48 <= c <= 57)):
            break
        i += 1
    return i


@njit(cache=True)
def _blanks_end(b: Bytes, i: int, end: int) -> int:
    while i < end and (b[i] == SPACE or b[i] == TAB):
        i += 1
    return i


@njit(cache=True)
def _value_end(b: Bytes, i: int, end: int) -> tuple[int, int]:
    """Return (behind the closing quote of a label value that begins at i, 0 or what is bad)."""
    while i < end:
        c = b[i]
        if c == QUOTE:
            return i + 1, 0
        if c == BACKSLASH:
            i += 1
            if i >= end or not (b[i] == BACKSLASH or b[i] == QUOTE or b[i] == 110):
                return i, BAD_ESCAPE
        i += 1
    return i, BAD_OPEN_VALUE


@njit(cache=True)
def _label_end(b: Bytes, i: int, end: int, om: bool) -> tuple[int, int]:
    """Return (behind one label `name="value"` that begins at i, 0 or what is bad)."""
    at = i
    i = _name_end(b, i, end, False)
    if i == at:
        return i, BAD_LABEL_NAME
    if not om:
        i = _blanks_end(b, i, end)
    if i >= end or b[i] != EQUALS:
        return i, BAD_EQUALS
    i = i + 1 if om else _blanks_end(b, i + 1, end)
    if i >= end or b[i] != QUOTE:
        return i, BAD_QUOTE
    i, bad = _value_end(b, i + 1, end)
    return (i if om or bad else _blanks_end(b, i, end)), bad


@njit(cache=True)
def _labels_end(b: Bytes, i: int, end: int, om: bool) -> tuple[int, int]:
    """Return (behind the closing brace of labels whose opening brace is at i, 0 or what is bad)."""
    i += 1
    first = True
    while True:
        if not om:
            i = _blanks_end(b, i, end)
        if i < end and b[i] == CLOSE and (first or not om):
            return i + 1, 0
        i, bad = _label_end(b, i, end, om)
        if bad:
            return i, bad
        if i < end and b[i] == CLOSE:
            return i + 1, 0
        if i >= end or b[i] != COMMA:
            return i, BAD_AFTER_LABEL
        i += 1
        first = False


@njit(cache=True)
def _exemplar(b: Bytes, i: int, end: int) -> int:
    """Check `# {labels} value [time]` from i to the end of the line: 0 or what is bad."""
    if i + 2 >= end or b[i] != HASH or b[i + 1] != SPACE or b[i + 2] != OPEN:
        return BAD_EXEMPLAR
    i, bad = _labels_end(b, i + 2, end, True)
    if bad or i >= end or b[i] != SPACE:
        return BAD_EXEMPLAR
    stop = token_end(b, i + 1, end)
    if number(b, i + 1, stop)[0] == 0:
        return BAD_EXEMPLAR
    if stop < end:
        last = token_end(b, stop + 1, end)
        if last != end or b[stop] != SPACE or number(b, stop + 1, end)[0] < 2:
            return BAD_EXEMPLAR
    return 0


@njit(cache=True)
def _series(b: Bytes, i: int, end: int, om: bool, row: Any) -> tuple[int, int]:
    """Find name and labels of a sample, which begin at i; return (where its value begins, 0 or what is bad)."""
    row[0] = i
    i = _name_end(b, i, end, True)
    if i == row[0]:
        return i, BAD_NAME
    row[1] = row[10] = i
    j = i if om else _blanks_end(b, i, end)
    if j < end and b[j] == OPEN:
        i, bad = _labels_end(b, j, end, om)
        if bad:
            return i, bad
        row[1] = i
        j = i if om else _blanks_end(b, i, end)
    if om:
        return (j + 1, 0) if j < end and b[j] == SPACE else (j, BAD_SPACE)
    # Between labels and value the text format needs no blank: the brace has ended the labels.
    apart = j > row[1] or (j < end and b[j - 1] == CLOSE)
    return j, 0 if apart else BAD_SPACE


@njit(cache=True)
def _sample(b: Bytes, i: int, end: int, om: bool, k: int, out: Any) -> tuple[int, int]:
    """Check one sample line b[i:end]; fill row k of the outputs. Return (SAMPLE or what is bad, where)."""
    out_int, out_float, out_whole = out
    row = out_int[k]
    j, bad = _series(b, i, end, om, row)
    if bad:
        return bad, j
    stop = token_end(b, j, end)
    kind, minus, mantissa, power, word = number(b, j, stop)
    if kind == 0:
        return BAD_VALUE, j
    value, exact = to_float(kind, minus, mantissa, power, word)
    row[2], row[3], row[4] = j, stop, 0
    row[5] = 0 if exact else SLOW_VALUE
    if kind == 2 and not minus:
        row[5] |= WHOLE
        out_whole[k] = mantissa
    out_float[k] = value
    i = stop if om else _blanks_end(b, stop, end)
    return _tail(b, i, end, om, row) if i < end else (SAMPLE, i)


@njit(cache=True)
def _tail(b: Bytes, i: int, end: int, om: bool, row: Any) -> tuple[int, int]:
    """Check what follows a value at i: a time, and in OpenMetrics an exemplar."""
    if om:
        i += 1
    if not (om and i < end and b[i] == HASH):
        stop = token_end(b, i, end)
        kind, minus, mantissa, power, _ = number(b, i, stop)
        if kind < 2 or (kind != 2 and not om):
            return BAD_TIME, i
        row[4], exact = stamp_ns(kind, minus, mantissa, power + (9 if om else 6))
        row[5] |= HAS_TIME | (0 if exact else SLOW_TIME) | (SECONDS if om else 0)
        row[7], row[8] = i, stop
        i = stop if om else _blanks_end(b, stop, end)
        if i >= end:
            return SAMPLE, i
        if not om:
            return BAD_REST, i
        i += 1
    bad = _exemplar(b, i, end)
    if bad:
        return bad, i
    row[5] |= HAS_EXEMPLAR
    row[6] = i
    return SAMPLE, i


@njit(cache=True)
def _is_eof(b: Bytes, i: int, end: int) -> bool:
    return end - i == 5 and b[i] == HASH and b[i + 1] == SPACE and b[i + 2] == 69 and b[i + 3] == 79 and b[i + 4] == 70


@njit(cache=True)
def _line(b: Bytes, i: int, end: int, om: bool, eof: bool, k: int, out: Any) -> tuple[int, int]:
    """Say what the line b[i:end] is, and where it is bad."""
    first = i if om else _blanks_end(b, i, end)
    if eof:
        return BAD_AFTER_EOF, first
    if end == len(b) and not (om and _is_eof(b, i, end)):
        return BAD_CUT, first
    if first == end:
        return (BAD_BLANK if om else BLANK), first
    if b[first] == HASH:
        return COMMENT, first
    return _sample(b, first, end, om, k, out)


@njit(cache=True, nogil=True)
def scan(
    b: Bytes,
    om: bool,
    seed: Any,
    kinds: Any,
    starts: Any,
    ends: Any,
    hashes: Any,
    names: Any,
    out: Any,
) -> tuple[int, bool]:
    """Go over all lines of the text b (n,) uint8.

    - kinds (m,) uint8, starts/ends (m,) int64: what each line is and where it stands (without its line feed); of a bad
      line `ints[k, 9]` says where it is bad
    - hashes (m,) uint64: of a sample's series, of a whole comment, of what is bad
    - names (m,) uint64: the same, but of a sample's name alone
    - out: ints (m, 11) int64: series start, series end, value start, value end, time ns, flags, exemplar start,
      time start, time end, bad at, name end; values (m,) float64; (m,) uint64 the same where they were written as
      whole numbers

    Return (lines, whether `# EOF` was seen).
    """
    n = len(b)
    i = 0
    k = 0
    eof = False
    ints = out[0]
    while i < n:
        end = i
        while end < n and b[end] != LF:
            end += 1
        kind, at = _line(b, i, end, om, eof, k, out)
        kinds[k], starts[k], ends[k] = kind, i, end
        if kind == SAMPLE:
            names[k], hashes[k] = hashes_of(b, ints[k, 0], ints[k, 10], ints[k, 1], seed)
        elif kind == COMMENT:
            eof = om and _is_eof(b, i, end)
            _, hashes[k] = hashes_of(b, i, i, end, ~seed)
            names[k] = hashes[k]
        else:
            names[k] = hashes[k] = np.uint64(kind)
            ints[k, 9] = at
        k += 1
        i = end + 1
    return k, eof
