"""Compiled loops over all rows of a probe plan: rows by link, links by part, and what rows put on entities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Floats32 = npt.NDArray[np.float32]


@njit(cache=True)
def rows_by_link(crossed: Ints, start: Ints, row: Ints) -> None:
    """Fill `row` with the rows over each directed link, ascending; `start` (links + 1,) must be zero at first."""
    n = crossed.shape[0]
    for i in range(n):
        for c in crossed[i]:
            if c >= 0:
                start[c + 1] += 1
    for d in range(len(start) - 1):
        start[d + 1] += start[d]
    for i in range(n - 1, -1, -1):
        for c in crossed[i]:
            if c >= 0:
                start[c + 1] -= 1
                row[start[c + 1]] = i
    # Each start has moved down to where its link begins, one place to the right of where it belongs.
    total = len(row)
    for d in range(len(start) - 1):
        start[d] = start[d + 1]
    start[len(start) - 1] = total


@njit(cache=True)
def links_by_part(parts_of_link: Ints, start: Ints, link: Ints) -> None:
    """Fill `link` with the links of each part, ascending; `start` (parts + 1,) must be zero at first."""
    n = parts_of_link.shape[0]
    for i in range(n):
        for p in parts_of_link[i]:
            if p >= 0:
                start[p + 1] += 1
    for p in range(len(start) - 1):
        start[p + 1] += start[p]
    at = start[:-1].copy()
    for i in range(n):
        for p in parts_of_link[i]:
            if p >= 0:
                link[at[p]] = i
                at[p] += 1


@njit(cache=True)
def rows_over(directed: Longs, start: Ints, row: Ints, marks: Bytes) -> Ints:
    """Return all rows over any of some directed links, in no order; `marks` (rows,) is all 0, and is so afterwards."""
    most = 0
    for d in directed:
        most += start[d + 1] - start[d]
    out = np.empty(most, dtype=np.int32)
    n = 0
    for d in directed:
        for k in range(start[d], start[d + 1]):
            if marks[row[k]] == 0:
                marks[row[k]] = 1
                out[n] = row[k]
                n += 1
    for k in range(n):
        marks[out[k]] = 0
    return out[:n]


@njit(cache=True)
def entities_of_row(crossed: Ints, parts_of_link: Ints, n_links: int, row: int, out: Ints) -> int:
    """Write the entities of a row, each once, and return how many."""
    n = 0
    for c in crossed[row]:
        if c < 0:
            continue
        n = _add(out, n, c)
        for k in range(1, parts_of_link.shape[1]):
            part = parts_of_link[c >> 1, k]
            if part >= 0:
                n = _add(out, n, n_links + part)
    return n


@njit(cache=True)
def _add(out: Ints, n: int, value: int) -> int:
    for i in range(n):
        if out[i] == value:
            return n
    out[n] = value
    return n + 1


@njit(cache=True)
def put_on_entities(
    crossed: Ints,
    parts_of_link: Ints,
    n_links: int,
    value: Ints,
    group: npt.NDArray[np.uint8],
    weight: Floats32,
    first: int,
    last: int,
    out: Floats32,
) -> None:
    """Add the values of rows `first` to `last`, times the weight of their group, to all of their entities."""
    found = np.empty(64, dtype=np.int32)
    for i in range(first, last):
        if value[i] != 0:
            for j in range(entities_of_row(crossed, parts_of_link, n_links, i, found)):
                out[found[j]] += value[i] * weight[group[i]]
