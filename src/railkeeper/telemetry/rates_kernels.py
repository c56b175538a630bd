"""What a counter did between two samples: the meaning, value by value, and the pass over all values of a tick.

Compiled by Numba. Unsigned and signed integers are never mixed in one expression: that would make floats of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, prange

from railkeeper.telemetry.frame import (
    ABSENT,
    DUPLICATE,
    FIRST,
    GAP,
    NO_SAMPLE,
    NO_TIME,
    OK,
    OUT_OF_ORDER,
    RESET,
    STALE,
    WRAPPED,
)  # fmt: skip

if TYPE_CHECKING:
    import numpy.typing as npt

_NONE = np.uint64(ABSENT)
_ZERO = np.uint64(0)
# Samples are stamped later than they are taken, and devices refresh their counters in steps of their own: an interval
# may hold this much more than its share, and traffic twice its line rate, before a value counts as impossible.
_SLOP_S = 1.0
_SLACK = 2.0
# Entities a piece of work: times of a piece stay in the cache of a core while all columns pass.
PIECE = 4096


@njit(cache=True)
def interval(
    before: Any, before_ns: Any, now: Any, now_ns: Any, top: Any, ceiling: float, busy: bool, gap_ns: int, back_ns: int
) -> tuple[int, Any, bool]:
    """Return (flag, how much the counter grew or ABSENT if unknown, whether this sample is the one to go on from).

    - before, now: uint64 values of the sample that stands and of this one, ABSENT where there is none; their times ns
    - top: all ones in the counter's width; ceiling: most that it can grow in a second (inf: not known)
    - busy: it may really grow that fast, so that a narrow one may wrap twice unseen
    - gap_ns: a longer interval is a gap; back_ns: a clock that goes back by more was set, and is followed
    """
    if now_ns == NO_TIME or now in (_NONE, top):
        return NO_SAMPLE, _NONE, False
    if before_ns != NO_TIME and now_ns < before_ns:
        return OUT_OF_ORDER, _NONE, before_ns - now_ns > back_ns
    if before_ns == NO_TIME or before == _NONE:
        return FIRST, _NONE, True
    if now_ns == before_ns:
        return (DUPLICATE if now == before else STALE), _NONE, False
    dt_s = (now_ns - before_ns) * 1e-9
    span = top if max(before, now) <= top else _NONE
    late = now_ns - before_ns > gap_ns
    if busy and span != _NONE and ceiling < math.inf and ceiling * dt_s >= float(span):
        return GAP, _NONE, True
    grown = (now - before) & span
    most = _SLACK * ceiling * (dt_s + _SLOP_S)
    wrapped = now < before
    if float(grown) > (min(most, float(span) / 2) if wrapped else most):
        return RESET, _NONE, True
    return (GAP if late else WRAPPED if wrapped else OK), grown, True


@njit(cache=True)
def ones(width: Any) -> Any:
    """Return all ones of a width of 1 to 64 bits."""
    return _NONE >> np.uint64(64 - np.int64(width))


@njit(cache=True, parallel=True)
def advance(
    now: npt.NDArray[np.uint64], now_ns: npt.NDArray[np.int64], now_row: npt.NDArray[np.int64],
    before: npt.NDArray[np.uint64], before_ns: npt.NDArray[np.int64],
    own_row: npt.NDArray[np.int64], own_ns: npt.NDArray[np.int64],
    widths: npt.NDArray[np.uint8], widths_at: npt.NDArray[np.uint8],
    ceilings: npt.NDArray[np.float64], busy: npt.NDArray[np.bool_],
    gap_ns: int, back_ns: int,
    next_ns: npt.NDArray[np.int64], dt_s: npt.NDArray[np.float32],
    per_s: npt.NDArray[np.float32], flags: npt.NDArray[np.uint8], holes: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """Take in one tick: write rates, flags and what stands from now on.

    - now (k, n): the tick, sampled at now_ns[now_row[column]]; now_ns (m, n): row 0 is of the entities as a whole
    - before (k, n), before_ns (n,): what stands; `before` is updated in place
    - own_row (k,): row of own_ns that holds the times of a column's values, -1: before_ns are the times (and now_row 0)
    - widths (k,) bits of each column; widths_at (k, n) of each value instead, or (0, 0)
    - next_ns (n,), dt_s (n,), per_s (k, n), flags (k, n): the answers
    - holes (pieces, k): a column lacks a value whose entity was sampled, so that it needs times of its own from now on
    """
    k, n = now.shape
    for piece in prange((n + PIECE - 1) // PIECE):
        start, stop = piece * PIECE, min((piece + 1) * PIECE, n)
        plain = np.empty(stop - start, dtype=np.float64)  # 1 / interval, 0 where the interval needs a closer look
        for i in range(start, stop):
            t, stood = now_ns[0, i], before_ns[i]
            sampled = t != NO_TIME
            longer = sampled and stood != NO_TIME and t > stood
            dt_s[i] = np.float32((t - stood) * 1e-9) if longer else np.float32(np.nan)
            plain[i - start] = 1e9 / (t - stood) if longer and t - stood <= gap_ns else 0.0
            follows = sampled and (stood == NO_TIME or t > stood or stood - t > back_ns)
            next_ns[i] = t if follows else stood
        for c in range(k):
            row, top, ceiling, at = own_row[c], ones(widths[c]), ceilings[c], now_row[c]
            # narrow counters that may wrap twice, and widths that differ, always need the closer look
            simple = len(widths_at) == 0 and (top == _NONE or not busy[c])
            hole = False
            for i in range(start, stop):
                value, stood_value, per = now[c, i], before[c, i], plain[i - start]
                stood = before_ns[i]
                if row >= 0:
                    t, stood = now_ns[at, i], own_ns[row, i]
                    short = stood != NO_TIME and stood < t <= stood + gap_ns
                    per = 1e9 / (t - stood) if short else 0.0
                if simple and per > 0 and stood_value <= value < top:
                    rate = float(value - stood_value) * per
                    if rate <= ceiling:
                        per_s[c, i] = np.float32(rate)
                        flags[c, i] = OK
                        before[c, i] = value
                        if row >= 0:
                            own_ns[row, i] = now_ns[at, i]
                        continue
                if len(widths_at) > 0:
                    top = ones(widths_at[c, i])
                flag, grown, take = interval(
                    stood_value, stood, value, now_ns[at, i], top, ceiling, busy[c], gap_ns, back_ns
                )
                flags[c, i] = flag
                known = grown != _NONE
                per_s[c, i] = (
                    np.float32(float(grown) * (1e9 / (now_ns[at, i] - stood))) if known else np.float32(np.nan)
                )
                if take:
                    before[c, i] = value
                    if row >= 0:
                        own_ns[row, i] = now_ns[at, i]
                elif row >= 0 and at == 0 and stood_value == _NONE:
                    own_ns[row, i] = next_ns[i]
                elif stood_value != _NONE and next_ns[i] != before_ns[i]:
                    hole = True
            if row < 0 and hole:
                holes[piece, c] = True
