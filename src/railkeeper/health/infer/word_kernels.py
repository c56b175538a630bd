"""Text read by address, eight bytes at a time: numbers without a branch per digit (for little-endian machines).

Addresses instead of arrays, because a compiled function counts references to each array that it is handed, and that
costs more than reading the number. Callers keep the array alive and see to it that it ends with `PADDING` newlines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic as _intrinsic

intrinsic: Any = _intrinsic

PADDING = 16
"""Newlines that must stand after the text: every loop stops at one, and words may be read past it."""

SPACE, TAB, RETURN, NEWLINE = 32, 9, 13, 10
_MAX_DIGITS = 18
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH = np.uint64(0x8080808080808080)
_PAIRS, _TENS = np.uint64(0x00FF00FF00FF00FF), np.uint64(2561)
_QUADS, _HUNDREDS = np.uint64(0x0000FFFF0000FFFF), np.uint64(6553601)
_MYRIADS = np.uint64(42949672960001)
_64, _8, _16, _32 = np.uint64(64), np.uint64(8), np.uint64(16), np.uint64(32)


@intrinsic
def word_at(_context: Any, _place: Any) -> Any:
    """Return the eight bytes from an address on as one number."""

    def code(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), code


@intrinsic
def byte_at(_context: Any, _place: Any) -> Any:
    """Return the byte at an address."""

    def code(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()), align=1)
        return builder.zext(byte, ir.IntType(64))

    return types.int64(types.int64), code


@intrinsic
def int32_at(_context: Any, _place: Any) -> Any:
    """Return the 32-bit number at an address."""

    def code(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        number = builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()), align=4)
        return builder.sext(number, ir.IntType(64))

    return types.int64(types.int64), code


@intrinsic
def int64_at(_context: Any, _place: Any) -> Any:
    """Return the 64-bit number at an address."""

    def code(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=8)

    return types.int64(types.int64), code


@intrinsic
def put_int32(_context: Any, _place: Any, _value: Any) -> Any:
    """Write a 32-bit number to an address."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        number = builder.trunc(args[1], ir.IntType(32))
        builder.store(number, builder.inttoptr(args[0], ir.IntType(32).as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def zeros_below(_context: Any, _word: Any) -> Any:
    """Return how many zero bits stand below the lowest set bit."""

    def code(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), code


@njit(cache=True, nogil=True, inline="always")
def skip(i: int) -> int:
    """Return the next place that is neither a space nor a tab nor a return."""
    while byte_at(i) == SPACE or byte_at(i) == TAB or byte_at(i) == RETURN:
        i += 1
    return i


@njit(cache=True, nogil=True)
def blank(c: int) -> bool:
    """Tell whether a byte may stand after a field."""
    return c == SPACE or c == NEWLINE or c == TAB or c == RETURN  # noqa: PLR1714  `in` is slow when compiled


@njit(cache=True, nogil=True)
def digits(i: int) -> Any:
    """Return (number of digits from i on, their value) for up to seven digits; eight stand for eight or more."""
    word = word_at(i) ^ _ZEROS
    other = ((word + _ABOVE_NINE) | word) & _HIGH
    if other == 0:
        return 8, 0
    bits = zeros_below(other) & ~np.uint64(7)
    if bits == 0:
        return 0, 0
    word <<= _64 - bits
    word = ((word * _TENS) >> _8) & _PAIRS
    word = ((word * _HUNDREDS) >> _16) & _QUADS
    return np.int64(bits >> np.uint64(3)), np.int64((word * _MYRIADS) >> _32)


@njit(cache=True, nogil=True)
def whole(i: int) -> Any:
    """Return (number, place after it); -1 where no whole number of up to 18 digits stands."""
    i = skip(i)
    many, value = digits(i)
    if 0 < many < 8 and blank(byte_at(i + many)):
        return value, i + many
    begin, value = i, 0
    digit = byte_at(i) - 48
    while 0 <= digit <= 9:
        value = value * 10 + digit if i - begin < _MAX_DIGITS else 0
        i += 1
        digit = byte_at(i) - 48
    if i == begin or i - begin > _MAX_DIGITS or not blank(byte_at(i)):
        return -1, i
    return value, i


@njit(cache=True, nogil=True)
def decimal(i: int) -> Any:
    """Return (whether a decimal number stands here, place after it)."""
    i = skip(i)
    before = digits(i)[0]
    if before and byte_at(i + before) == 46:
        after = digits(i + before + 1)[0]
        if after < 8 and blank(byte_at(i + before + 1 + after)):
            return True, i + before + 1 + after
    figures = dots = 0
    if byte_at(i) == 45 or byte_at(i) == 43:
        i += 1
    while 48 <= byte_at(i) <= 57 or byte_at(i) == 46:
        figures += byte_at(i) != 46
        dots += byte_at(i) == 46
        i += 1
    if figures and (byte_at(i) == 101 or byte_at(i) == 69):
        i += 2 if byte_at(i + 1) == 45 or byte_at(i + 1) == 43 else 1
        begin = i
        while 48 <= byte_at(i) <= 57:
            i += 1
        figures = i - begin
    return figures > 0 and dots <= 1 and blank(byte_at(i)), i


@njit(cache=True, nogil=True)
def line_end(i: int) -> int:
    """Return the place of the next newline."""
    while byte_at(i) != NEWLINE:
        i += 1
    return i
