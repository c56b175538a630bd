"""Observations put in order for scoring, compiled: which rows tell something of which part.

Rows that lost nothing and took a known path matter only through the sum of their packets; rows that lost nothing on an
unknown path of a set are put together by set and size. Only the others are kept one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

KNOWN, ONE_OF, SPRAYED, LOSSY_ONLY = range(4)
BINS = 40  # sizes of rows, a bin a doubling


@njit(cache=True, nogil=True)
def known_rows(kind: Any, route: Any, sent: Any, lost: Any, ends: Any, path_start: Any, path_part: Any, parts: int,
               large: int) -> Any:  # fmt: skip
    """Return (crossings of each part by rows that are not kept, kept rows, their parts' start, their parts).

    Kept is a row of a known path that lost something, or is so large that its chance of losing nothing depends on more
    than the mean rates of parts.
    """
    plain = np.zeros(parts, dtype=np.float64)
    kept, start, entry = 0, 0, 0
    for i in range(len(kind)):
        if kind[i] == KNOWN and (lost[i] > 0 or sent[i] >= large):
            kept += 1
            entry += path_start[route[i] + 1] - path_start[route[i]] + 2
    row, out_start, out = np.empty(kept, np.int64), np.zeros(kept + 1, np.int64), np.empty(entry, np.int32)
    kept, entry = 0, 0
    for i in range(len(kind)):
        if kind[i] != KNOWN:
            if lost[i] == 0:
                for j in range(2):
                    if ends[i, j] >= 0:
                        plain[ends[i, j]] += sent[i]
            continue
        p = route[i]
        if lost[i] == 0 and sent[i] < large:
            n = float(sent[i])
            for j in range(path_start[p], path_start[p + 1]):
                plain[path_part[j]] += n
            for j in range(2):
                if ends[i, j] >= 0:
                    plain[ends[i, j]] += n
            continue
        start = entry
        for j in range(path_start[p], path_start[p + 1]):
            out[entry] = path_part[j]
            entry += 1
        for j in range(2):
            if ends[i, j] >= 0:
                out[entry] = ends[i, j]
                entry += 1
        if entry == start and lost[i] == 0:
            continue
        row[kept], out_start[kept + 1] = i, entry
        kept += 1
    return plain, row[:kept], out_start[: kept + 1], out[:entry]


@njit(cache=True, nogil=True)
def size_bins(kind: Any, route: Any, sent: Any, lost: Any, sets: int) -> Any:
    """Return (number of rows, packets) by set and size of rows that lost nothing on an unknown path, (sets, BINS)."""
    count, packets = np.zeros((sets, BINS)), np.zeros((sets, BINS))
    for i in range(len(kind)):
        if lost[i] == 0 and sent[i] > 0:
            if kind[i] == ONE_OF:
                b = min(BINS - 1, int(np.log2(float(sent[i]))))
                count[route[i], b] += 1
                packets[route[i], b] += sent[i]
            elif kind[i] == SPRAYED:  # the chance is a power of the number of packets: one row does for all
                count[route[i], 0] = 1
                packets[route[i], 0] += sent[i]
    return count, packets


@njit(cache=True, nogil=True)
def turned(start: Any, ids: Any, n: int) -> Any:
    """Return the rows of each id (start (n + 1,), rows) of rows of ids; a row stands as often as it holds the id."""
    out_start = np.zeros(n + 1, dtype=np.int64)
    for j in range(len(ids)):
        out_start[ids[j] + 1] += 1
    for i in range(n):
        out_start[i + 1] += out_start[i]
    at, rows = out_start[:-1].copy(), np.empty(len(ids), dtype=np.int32)
    for row in range(len(start) - 1):
        for j in range(start[row], start[row + 1]):
            rows[at[ids[j]]] = row
            at[ids[j]] += 1
    return out_start, rows


@njit(cache=True, nogil=True)
def parts_of_sets(used: Any, set_start: Any, set_path: Any, path_start: Any, path_part: Any, parts: int) -> Any:
    """Return (start, parts, share of the set's paths that cross the part) of the sets that are used."""
    n = len(set_start) - 1
    seen, start = np.full(parts, -1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    total = 0
    for s in range(n):
        if used[s]:
            for a in range(set_start[s], set_start[s + 1]):
                for j in range(path_start[set_path[a]], path_start[set_path[a] + 1]):
                    if seen[path_part[j]] != s:
                        seen[path_part[j]] = s
                        total += 1
        start[s + 1] = total
    part, share = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.float64)
    seen[:] = -1
    k = 0
    for s in range(n):
        if not used[s]:
            continue
        weight = 1.0 / (set_start[s + 1] - set_start[s])
        for a in range(set_start[s], set_start[s + 1]):
            for j in range(path_start[set_path[a]], path_start[set_path[a] + 1]):
                at = seen[path_part[j]]
                if at < start[s]:
                    at = seen[path_part[j]] = k
                    part[k], share[k] = path_part[j], 0.0
                    k += 1
                share[at] += weight
    return start, part, share
