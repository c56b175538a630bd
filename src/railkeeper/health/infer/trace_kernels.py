"""One pass over the bytes of a flow trace into columns, compiled.

Nothing here raises: a code and the number of the line come back, and `trace` makes the message.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from railkeeper.health.infer.word_kernels import (
    NEWLINE,
    blank,
    byte_at,
    decimal,
    int32_at,
    int64_at,
    line_end,
    put_int32,
    skip,
    whole,
)

OK, UNKNOWN_RECORD, BAD_NUMBER, BAD_FIELDS, EMPTY_PATH, NO_FLOW, SECOND_PATH, LOST_MORE = range(8)
LIMIT = 1 << 31
"""Numbers of nodes stay below."""

_FID, _FPT, _FPRT, _FP, _SS, _FAILING, _NONE = range(7)
_C, _D, _F, _I, _P, _R, _S, _T = 67, 68, 70, 73, 80, 82, 83, 84
_FAILING_LINK = tuple(b"ailing_link")


@njit(cache=True, nogil=True)
def _record(i: int) -> Any:
    """Return (which record a line is, place after its name)."""
    c, d, e = byte_at(i), byte_at(i + 1), byte_at(i + 2)
    if c == _S and d == _S and blank(e):
        return _SS, i + 2
    if c == _F and d == _I and e == _D and blank(byte_at(i + 3)):
        return _FID, i + 3
    if c == _F and d == _P:
        if blank(e):
            return _FP, i + 2
        if e == _T and blank(byte_at(i + 3)):
            return _FPT, i + 3
        if e == _R and byte_at(i + 3) == _T and blank(byte_at(i + 4)):
            return _FPRT, i + 4
    if c == _F and d == _FAILING_LINK[0]:
        for letter in _FAILING_LINK:
            i += 1
            if byte_at(i) != letter:
                return _NONE, i
        return (_FAILING, i) if blank(byte_at(i + 1)) else (_NONE, i)
    return _NONE, i


@njit(cache=True, nogil=True)
def _flow(i: int) -> Any:
    """Read `src dst srcRack dstRack [srcPort dstPort] bytes start_ms`; returns (code, place, the first four)."""
    src, i = whole(i)
    dst, i = whole(i)
    first, i = whole(i)
    last, i = whole(i)
    if min(src, dst, first, last) < 0 or max(src, dst, first, last) >= LIMIT:
        return BAD_NUMBER, i, 0, 0, 0, 0
    fields = 0
    i = skip(i)
    while byte_at(i) != NEWLINE:
        right, i = decimal(i)
        if not right:
            return BAD_NUMBER, i, 0, 0, 0, 0
        fields += 1
        i = skip(i)
    code = OK if fields in (2, 4) else BAD_FIELDS
    return code, i, src, dst, first, last


@njit(cache=True, nogil=True)
def _counts(i: int) -> Any:
    """Read `t_ms sent lost random_lost`; returns (code, place, sent, lost)."""
    right, i = decimal(i)
    n, i = whole(i)
    x, i = whole(i)
    other, i = whole(i)
    if not right or min(n, x, other) < 0:
        return BAD_NUMBER, i, 0, 0
    i = skip(i)
    if byte_at(i) != NEWLINE:
        return BAD_FIELDS, i, 0, 0
    return (LOST_MORE if x > n else OK), i, n, x


@njit(cache=True, nogil=True)
def _nodes(i: int, out: int) -> Any:
    """Write the nodes of a path to the address `out`; returns (code, place, number of nodes, hash)."""
    h, length = np.int64(1469598103934665603), 0
    i = skip(i)
    while byte_at(i) != NEWLINE:
        value, i = whole(i)
        if value < 0 or value >= LIMIT:
            return BAD_NUMBER, i, 0, h
        put_int32(out + 4 * length, value)
        h = (h ^ value) * np.int64(1099511628211)
        length += 1
        i = skip(i)
    h ^= (h >> 29) & np.int64(0x7FFFFFFFF)
    return (OK if length else EMPTY_PATH), i, length, h


@njit(cache=True, nogil=True)
def _place(slots: int, mask: int, hashes: int, start: int, nodes: int, h: int, length: int, begin: int) -> int:
    """Return the slot of a path in the table, or the empty one where it belongs; arrays are given by address."""
    at = h & mask
    while True:
        p = int32_at(slots + 4 * at)
        if p < 0:
            return at
        own = int64_at(start + 8 * p)
        if int64_at(hashes + 8 * p) == h and int64_at(start + 8 * p + 8) - own == length:
            j = 0
            while j < length and int32_at(nodes + 4 * (own + j)) == int32_at(nodes + 4 * (begin + j)):
                j += 1
            if j == length:
                return at
        at = (at + 1) & mask


@njit(cache=True, nogil=True)
def _grown(slots: Any, hashes: Any, paths: int) -> Any:
    """Return a table of four times the size with the same paths in it."""
    out = np.full(4 * len(slots), -1, dtype=np.int32)
    mask = len(out) - 1
    for path in range(paths):
        at = hashes[path] & mask
        while out[at] >= 0:
            at = (at + 1) & mask
        out[at] = path
    return out


@njit(cache=True, nogil=True)
def parse(text: Any, size: int) -> Any:
    """Read `size` bytes, which are followed by newlines, into columns.

    Returns (code, line), flows (src, dst, first rack, last rack, path, sent, lost, line), paths taken (start, nodes,
    line), each once, and paths listed as possible (start, nodes, hash, line) as they stand there: most of them are
    taken by nobody, and looking each up would cost more than all the rest. A flow without a path has path -1, without
    counts sent -1.
    """
    room = size // 14 + 2  # no flow takes less
    src, dst = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    first, last = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    path, flow_line = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    sent, lost = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    space = size // 5 + 2  # no path takes less
    nodes, start = np.empty(size // 2 + 2, dtype=np.int32), np.empty(space, dtype=np.int64)
    hashes, path_line = np.empty(space, dtype=np.int64), np.empty(space, dtype=np.int32)
    fp_nodes, fp_start = np.empty(size // 2 + 2, dtype=np.int32), np.empty(space, dtype=np.int64)
    fp_hash, fp_line = np.empty(space, dtype=np.int64), np.empty(space, dtype=np.int32)
    slots = np.full(1 << 10, -1, dtype=np.int32)
    start[0] = fp_start[0] = 0
    nodes_at, fp_nodes_at, hashes_at, start_at = (
        nodes.ctypes.data, fp_nodes.ctypes.data, hashes.ctypes.data, start.ctypes.data
    )  # fmt: skip
    k, p, q, line, code = -1, 0, 0, 0, OK
    i = text.ctypes.data
    end = i + size
    while i < end:
        line += 1
        i = skip(i)
        if byte_at(i) == NEWLINE:
            i += 1
            continue
        record, i = _record(i)
        if record == _FID:
            k += 1
            code, i, src[k], dst[k], first[k], last[k] = _flow(i)
            path[k], sent[k], lost[k], flow_line[k] = -1, -1, 0, line
        elif record == _SS:
            code, i, n, x = _counts(i)
            if k < 0:
                code = NO_FLOW
            elif code == OK:
                sent[k], lost[k] = n, x
        elif record == _FP:
            code, i, length, fp_hash[q] = _nodes(i, fp_nodes_at + 4 * fp_start[q])
            fp_start[q + 1], fp_line[q] = fp_start[q] + length, line
            q += 1
        elif record == _FPT:
            begin = start[p]
            code, i, length, h = _nodes(i, nodes_at + 4 * begin)
            if k < 0:
                code = NO_FLOW
            if code == OK:
                at = _place(slots.ctypes.data, len(slots) - 1, hashes_at, start_at, nodes_at, h, length, begin)
                own = slots[at]
                if own < 0:
                    own = p
                    slots[at], hashes[p], start[p + 1], path_line[p] = p, h, begin + length, line
                    p += 1
                    if 2 * p > len(slots):
                        slots = _grown(slots, hashes, p)
                if path[k] >= 0 and path[k] != own:
                    code = SECOND_PATH
                path[k] = own
        elif record == _NONE:
            code = UNKNOWN_RECORD
        else:
            i = line_end(i)
        if code != OK:
            break
        i += 1
    f = k + 1
    flows = (src[:f], dst[:f], first[:f], last[:f], path[:f], sent[:f], lost[:f], flow_line[:f])
    taken = (start[: p + 1], nodes[: start[p]], path_line[:p])
    return (code, line), flows, taken, (fp_start[: q + 1], fp_nodes[: fp_start[q]], fp_hash[:q], fp_line[:q])
