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

SPACE, TAB, LF, CR, HASH, QUOTE, COMMA, EQUALS, OPEN, CLOSE, BACKSLASH = 32, 9, 10, 13, 35, 34, 44, 61, 123, 125, 92
FNV_PRIME = np.uint64(1099511628211)
POW10 = 10.0 ** np.arange(23)
MAX_EXACT = np.uint64(2**53)
LAST_TEN = np.uint64((2**64 - 1) // 10)


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
def _labels_end(b: Bytes, i: int, end: int, om: bool) -> tuple[int, int]:
    """Return (behind the closing brace of labels whose opening brace is at i, 0 or what is bad)."""
    i += 1
    first = True
    while True:
        if not om:
            i = _blanks_end(b, i, end)
        if i < end and b[i] == CLOSE and (first or not om):
            return i + 1, 0
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
        if bad:
            return i, bad
        if not om:
            i = _blanks_end(b, i, end)
        if i < end and b[i] == CLOSE:
            return i + 1, 0
        if i >= end or b[i] != COMMA:
            return i, BAD_AFTER_LABEL
        i += 1
        first = False


@njit(cache=True)
def _word(b: Bytes, i: int, end: int) -> float:
    """Return the value of inf, infinity or nan without sign, 0.0 for anything else."""
    n = end - i
    if n != 3 and n != 8:  # noqa: PLR1714
        return 0.0
    infinity = (105, 110, 102, 105, 110, 105, 116, 121)
    if n == 3 and (b[i] | 32) == 110 and (b[i + 1] | 32) == 97 and (b[i + 2] | 32) == 110:
        return np.nan
    for k in range(n):
        if (b[i + k] | 32) != infinity[k]:
            return 0.0
    return np.inf


@njit(cache=True)
def _digits(b: Bytes, i: int, end: int) -> tuple[int, Any, int, int, bool, bool]:
    """Read digits with at most one dot: (end, mantissa, power of ten, digits seen, whether all fit, dot)."""
    mantissa = np.uint64(0)
    power = 0
    seen = 0
    fits: Any = True
    dot = False
    while i < end:
        c = b[i]
        if 48 <= c <= 57:
            seen += 1
            digit = np.uint64(c - 48)
            fits = fits and (mantissa < LAST_TEN or (mantissa == LAST_TEN and digit <= np.uint64(5)))
            if fits:
                mantissa = mantissa * np.uint64(10) + digit
                power -= 1 if dot else 0
        elif c == 46 and not dot:
            dot = True
        else:
            break
        i += 1
    return i, mantissa, power, seen, fits, dot


@njit(cache=True)
def _exponent(b: Bytes, i: int, end: int) -> tuple[int, int]:
    """Read what follows an e: (end or -1, exponent)."""
    minus = i < end and b[i] == 45
    if i < end and (b[i] == 45 or b[i] == 43):
        i += 1
    if i >= end:
        return -1, 0
    power = 0
    while i < end and 48 <= b[i] <= 57:
        power = min(power * 10 + (b[i] - 48), 100_000)
        i += 1
    return (i if i == end else -1), (-power if minus else power)


@njit(cache=True)
def _number(b: Bytes, i: int, end: int) -> tuple[int, bool, Any, int, float]:
    """Read a number that fills b[i:end]: (kind, minus, mantissa, power of ten, float of words).

    kind: 0 none, 1 a word (inf, nan), 2 decimal and whole, 3 decimal, 4 decimal with more digits than fit.
    """
    minus = i < end and b[i] == 45
    signed = minus or (i < end and b[i] == 43)
    if signed:
        i += 1
    if i >= end:
        return 0, minus, np.uint64(0), 0, 0.0
    word = _word(b, i, end)
    if word != 0.0 and not (signed and np.isnan(word)):
        return 1, minus, np.uint64(0), 0, word
    i, mantissa, power, seen, fits, dot = _digits(b, i, end)
    kind = 3 if dot else 2
    if seen == 0:
        return 0, minus, mantissa, 0, 0.0
    if i < end and (b[i] | 32) == 101:
        i, exponent = _exponent(b, i + 1, end)
        power += exponent
        kind = 3
    if i != end:
        return 0, minus, mantissa, 0, 0.0
    return (kind if fits else 4), minus, mantissa, power, 0.0


@njit(cache=True)
def _float(kind: int, minus: bool, mantissa: Any, power: int, word: float) -> tuple[float, bool]:
    """Return (value, whether it is exact); inexact ones are Python's business."""
    if kind == 1:
        value, exact = word, True
    elif kind != 4 and (mantissa == 0 or power == 0):
        value, exact = float(mantissa), True
    elif kind != 4 and mantissa <= MAX_EXACT and -22 <= power <= 22:
        m = float(mantissa)
        value, exact = (m * POW10[power] if power >= 0 else m / POW10[-power]), True
    else:
        value, exact = 0.0, False
    return (-value if minus else value), exact


@njit(cache=True)
def _stamp_ns(kind: int, minus: bool, mantissa: Any, power: int) -> tuple[Any, bool]:
    """Return (ns, whether it is exact) of a time given as mantissa * 10 ** power ns."""
    if kind not in (2, 3) or power > 18 or power < -18:
        return 0, False
    ten = np.uint64(10)
    while power > 0:
        if mantissa > np.uint64(9 * 10**17):
            return 0, False
        mantissa *= ten
        power -= 1
    while power < 0:
        mantissa //= ten
        power += 1
    if mantissa > np.uint64(9 * 10**18):
        return 0, False
    return (-np.int64(mantissa) if minus else np.int64(mantissa)), True


@njit(cache=True)
def _token_end(b: Bytes, i: int, end: int) -> int:
    while i < end and b[i] != SPACE and b[i] != TAB:
        i += 1
    return i


@njit(cache=True)
def _exemplar(b: Bytes, i: int, end: int) -> int:
    """Check `# {labels} value [time]` from i to the end of the line: 0 or what is bad."""
    if i + 2 >= end or b[i] != HASH or b[i + 1] != SPACE or b[i + 2] != OPEN:
        return BAD_EXEMPLAR
    i, bad = _labels_end(b, i + 2, end, True)
    if bad or i >= end or b[i] != SPACE:
        return BAD_EXEMPLAR
    stop = _token_end(b, i + 1, end)
    if _number(b, i + 1, stop)[0] == 0:
        return BAD_EXEMPLAR
    if stop < end:
        last = _token_end(b, stop + 1, end)
        if last != end or b[stop] != SPACE or _number(b, stop + 1, end)[0] < 2:
            return BAD_EXEMPLAR
    return 0


@njit(cache=True)
def _sample(
    b: Bytes, i: int, end: int, om: bool, k: int, out_int: Any, out_float: Any, out_whole: Any
) -> tuple[int, int]:
    """Check one sample line b[i:end]; fill row k of the outputs. Return (SAMPLE or what is bad, where)."""
    at = i
    i = _name_end(b, i, end, True)
    if i == at:
        return BAD_NAME, i
    name_end = series_end = i
    j = i if om else _blanks_end(b, i, end)
    if j < end and b[j] == OPEN:
        i, bad = _labels_end(b, j, end, om)
        if bad:
            return bad, i
        series_end = i
        j = i if om else _blanks_end(b, i, end)
    if om:
        if j >= end or b[j] != SPACE:
            return BAD_SPACE, j
        j += 1
    elif j == series_end and (j >= end or b[j - 1] != CLOSE):
        # Between labels and value the text format needs no blank: the brace has ended the labels.
        return BAD_SPACE, j
    stop = _token_end(b, j, end)
    kind, minus, mantissa, power, word = _number(b, j, stop)
    if kind == 0:
        return BAD_VALUE, j
    value, exact = _float(kind, minus, mantissa, power, word)
    flags = 0 if exact else SLOW_VALUE
    if kind == 2 and not minus:
        flags |= WHOLE
        out_whole[k] = mantissa
    out_float[k] = value
    out_int[k, 0], out_int[k, 1], out_int[k, 2], out_int[k, 10] = at, series_end, j, name_end
    out_int[k, 3], out_int[k, 4], out_int[k, 5] = stop, 0, flags
    i = stop if om else _blanks_end(b, stop, end)
    if i >= end:
        return SAMPLE, i
    return _tail(b, i, end, om, k, out_int)


@njit(cache=True)
def _tail(b: Bytes, i: int, end: int, om: bool, k: int, out_int: Any) -> tuple[int, int]:
    """Check what follows a value at i: a time, and in OpenMetrics an exemplar."""
    if om:
        i += 1
    if not (om and i < end and b[i] == HASH):
        stop = _token_end(b, i, end)
        kind, minus, mantissa, power, _ = _number(b, i, stop)
        if kind < 2 or (kind != 2 and not om):
            return BAD_TIME, i
        ns, exact = _stamp_ns(kind, minus, mantissa, power + (9 if om else 6))
        out_int[k, 4] = ns
        out_int[k, 5] |= HAS_TIME if exact else HAS_TIME | SLOW_TIME
        out_int[k, 5] |= SECONDS if om else 0
        out_int[k, 7], out_int[k, 8] = i, stop
        i = stop if om else _blanks_end(b, stop, end)
        if i >= end:
            return SAMPLE, i
        if not om:
            return BAD_REST, i
        i += 1
    bad = _exemplar(b, i, end)
    if bad:
        return bad, i
    out_int[k, 5] |= HAS_EXEMPLAR
    out_int[k, 6] = i
    return SAMPLE, i


@njit(cache=True)
def _hashes(b: Bytes, i: int, middle: int, end: int, seed: Any) -> tuple[Any, Any]:
    """Return the hash of b[i:middle] and that of b[i:end]."""
    h = seed
    for k in range(i, middle):
        h = (h ^ np.uint64(b[k])) * FNV_PRIME
    first = h ^ (h >> np.uint64(29))
    for k in range(middle, end):
        h = (h ^ np.uint64(b[k])) * FNV_PRIME
    return first, h ^ (h >> np.uint64(29))


@njit(cache=True)
def _is_eof(b: Bytes, i: int, end: int) -> bool:
    return end - i == 5 and b[i] == HASH and b[i + 1] == SPACE and b[i + 2] == 69 and b[i + 3] == 79 and b[i + 4] == 70


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
    out_int: Any,
    out_float: Any,
    out_whole: Any,
) -> tuple[int, bool]:
    """Go over all lines of the text b (n,) uint8.

    - kinds (m,) uint8, starts/ends (m,) int64: what each line is and where it stands (without its line feed); of a bad
      line `out_int[k, 9]` says where it is bad
    - hashes (m,) uint64: of a sample's series, of a whole comment, of what is bad
    - names (m,) uint64: the same, but of a sample's name alone
    - out_int (m, 11) int64: series start, series end, value start, value end, time ns, flags, exemplar start,
      time start, time end, bad at, name end
    - out_float (m,) float64 values; out_whole (m,) uint64 the same where they were written as whole numbers

    Return (lines, whether `# EOF` was seen).
    """
    n = len(b)
    i = 0
    k = 0
    eof = False
    while i < n:
        end = i
        while end < n and b[end] != LF:
            end += 1
        starts[k], ends[k] = i, end
        first = i if om else _blanks_end(b, i, end)
        at = first
        if eof:
            kind = BAD_AFTER_EOF
        elif end == n and not (om and _is_eof(b, i, end)):
            kind = BAD_CUT
        elif first == end:
            kind = BAD_BLANK if om else BLANK
        elif b[first] == HASH:
            kind = COMMENT
            eof = om and _is_eof(b, i, end)
        else:
            kind, at = _sample(b, first, end, om, k, out_int, out_float, out_whole)
        kinds[k] = kind
        if kind == SAMPLE:
            names[k], hashes[k] = _hashes(b, out_int[k, 0], out_int[k, 10], out_int[k, 1], seed)
        elif kind == COMMENT:
            names[k], hashes[k] = _hashes(b, i, i, end, ~seed)
            names[k] = hashes[k]
        else:
            names[k] = hashes[k] = np.uint64(kind)
            out_int[k, 9] = at
        k += 1
        i = end + 1
    return k, eof


@njit(cache=True, nogil=True)
def look_up(b: Bytes, spans: Any, hashes: Any, slot_hash: Any, slot_id: Any, arena: Any, offsets: Any, ids: Any) -> int:
    """Find the ids of series by their bytes: ids (m,) int64, -1 for those not known yet; return how many those are.

    spans (m, 2) are places in b; a known series' bytes are arena[offsets[id]:offsets[id + 1]]; slots is an open table.
    """
    mask = np.uint64(len(slot_hash) - 1)
    missed = 0
    for k in range(len(hashes)):
        h = hashes[k]
        slot = h & mask
        found = -1
        while slot_id[slot] >= 0 and found < 0:
            if slot_hash[slot] == h:
                known = slot_id[slot]
                at, length = offsets[known], offsets[known + 1] - offsets[known]
                if length == spans[k, 1] - spans[k, 0]:
                    same = True
                    for j in range(length):
                        if arena[at + j] != b[spans[k, 0] + j]:
                            same = False
                            break
                    if same:
                        found = known
            slot = (slot + np.uint64(1)) & mask
        ids[k] = found
        missed += found < 0
    return missed


@njit(cache=True, nogil=True)
def insert(hashes: Any, first_id: int, slot_hash: Any, slot_id: Any) -> None:
    """Give the slots the new ids first_id, first_id + 1, … of series with these hashes; there must be free slots."""
    mask = np.uint64(len(slot_hash) - 1)
    for k in range(len(hashes)):
        slot = hashes[k] & mask
        while slot_id[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slot_hash[slot] = hashes[k]
        slot_id[slot] = first_id + k
