"""Kernels that read numbers from bytes, exactly to the last bit or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

SPACE, TAB = 32, 9
POW10 = 10.0 ** np.arange(23)
MAX_EXACT = np.uint64(2**53)
LAST_TEN = np.uint64((2**64 - 1) // 10)


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
        power = min(power * 10 + (int(b[i]) - 48), 100_000)
        i += 1
    return (i if i == end else -1), (-power if minus else power)


@njit(cache=True)
def number(b: Bytes, i: int, end: int) -> tuple[int, bool, Any, int, float]:
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
def to_float(kind: int, minus: bool, mantissa: Any, power: int, word: float) -> tuple[float, bool]:
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
def stamp_ns(kind: int, minus: bool, mantissa: Any, power: int) -> tuple[Any, bool]:
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
def token_end(b: Bytes, i: int, end: int) -> int:
    while i < end and b[i] != SPACE and b[i] != TAB:
        i += 1
    return i
