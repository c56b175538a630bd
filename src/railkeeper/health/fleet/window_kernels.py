"""Compiled loops over cells: what went wrong on a row or an entity, over windows of ticks.

A cell is eight whole numbers, one cache line's half: for each of three windows the half that fills and the full half
before it, then this tick's, then the tick in which it was last brought up to date. Most cells are not touched in most
ticks, so a cell is brought up to date only when it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from railkeeper.health.fleet.index_kernels import entities_of_row

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Floats32 = npt.NDArray[np.float32]

TICKS = (8, 64, 512)
WINDOWS = len(TICKS)
THIS, STAMP = 2 * WINDOWS, 2 * WINDOWS + 1
CELL = STAMP + 1


@njit(cache=True)
def _roll(cell: Ints, tick: int) -> None:
    """Bring a cell up to a tick."""
    if cell[STAMP] == tick:
        return
    for w in range(WINDOWS):
        halves = tick // TICKS[w] - cell[STAMP] // TICKS[w]
        if halves == 1:
            cell[WINDOWS + w] = cell[w]
            cell[w] = 0
        elif halves > 1:
            cell[WINDOWS + w] = 0
            cell[w] = 0
    cell[THIS] = 0
    cell[STAMP] = tick


@njit(cache=True)
def put_wrong(
    rows: Ints,
    x: Ints,
    tick: int,
    crossed: Ints,
    parts_of_link: Ints,
    n_links: int,
    row_cells: Ints,
    entity_cells: Ints,
    touched: Ints,
) -> int:
    """Add what went wrong on some rows to them and their entities; `touched` gets each entity, returns how many."""
    found = np.empty(64, dtype=np.int32)
    n_touched = 0
    for k in range(len(rows)):
        i = rows[k]
        _roll(row_cells[i], tick)
        _add(row_cells[i], x[k])
        for j in range(entities_of_row(crossed, parts_of_link, n_links, i, found)):
            cell = entity_cells[found[j]]
            if cell[STAMP] != tick:
                _roll(cell, tick)
                touched[n_touched] = found[j]
                n_touched += 1
            _add(cell, x[k])
    return n_touched


@njit(cache=True)
def _add(cell: Ints, x: int) -> None:
    for w in range(WINDOWS):
        cell[w] += x
    cell[THIS] += x


@njit(cache=True)
def sum_cells(cells: Ints, ids: Longs, tick: int, out: Longs) -> None:
    """Add all halves of some cells, brought up to a tick, to `out` (2 * windows,)."""
    for i in ids:
        _roll(cells[i], tick)
        for w in range(THIS):
            out[w] += cells[i, w]


@njit(cache=True)
def take_back(
    rows: Ints, tick: int, crossed: Ints, parts_of_link: Ints, n_links: int, row_cells: Ints, entity_cells: Ints
) -> None:
    """Forget all that went wrong on some rows."""
    found = np.empty(64, dtype=np.int32)
    for i in rows:
        _roll(row_cells[i], tick)
        cell = row_cells[i]
        if not cell[:STAMP].any():
            continue
        for j in range(entities_of_row(crossed, parts_of_link, n_links, i, found)):
            other = entity_cells[found[j]]
            if other[STAMP] != tick:
                _roll(other, tick)
            for w in range(STAMP):
                other[w] -= cell[w]
        cell[:STAMP] = 0


@njit(cache=True)
def take_back_tick(
    rows: Ints,
    x: Ints,
    then: int,
    tick: int,
    crossed: Ints,
    parts_of_link: Ints,
    n_links: int,
    row_cells: Ints,
    entity_cells: Ints,
) -> None:
    """Take what went wrong on some rows in an earlier tick out of the windows, where it is still there."""
    found = np.empty(64, dtype=np.int32)
    for k in range(len(rows)):
        i = rows[k]
        x_left = _less(row_cells[i], x[k], then, tick)
        if x_left:
            for j in range(entities_of_row(crossed, parts_of_link, n_links, i, found)):
                _less(entity_cells[found[j]], x[k], then, tick)


@njit(cache=True)
def _less(cell: Ints, x: int, then: int, tick: int) -> bool:
    """Take x out of the halves that hold an earlier tick; False where it has been forgotten already."""
    _roll(cell, tick)
    at = [tick // TICKS[w] - then // TICKS[w] for w in range(WINDOWS)]
    for w in range(WINDOWS):
        if at[w] <= 1 and cell[at[w] * WINDOWS + w] < x:
            return False
    for w in range(WINDOWS):
        if at[w] <= 1:
            cell[at[w] * WINDOWS + w] -= x
    return True


@njit(cache=True)
def read_cells(cells: Ints, ids: Longs, tick: int, window: int, out: Longs) -> None:
    """Write what went wrong on some cells in a window, or (window -1) in this tick."""
    for k in range(len(ids)):
        cell = cells[ids[k]]
        _roll(cell, tick)
        out[k] = cell[THIS] if window < 0 else cell[window] + cell[WINDOWS + window]


@njit(cache=True)
def screen(
    touched: Ints, cells: Ints, nominal: Floats32, background: float, ticks: Floats, least: float, out: Ints
) -> int:
    """Find entities on which far more went wrong than usual.

    - nominal: (entities,) probes a tick; ticks: (windows + 1,) that each window holds, this tick alone last
    - out: (n, 2) entity, and bits of the windows in which it stands out by `least` nats; returns how many
    """
    n = 0
    for e in touched:
        cell = cells[e]
        bits = 0
        for w in range(WINDOWS + 1):
            x = cell[THIS] if w == WINDOWS else cell[w] + cell[WINDOWS + w]
            mu = max(background * nominal[e] * ticks[w], 1e-9)
            if x > 1.5 * mu and x * math.log(x / mu) - x + mu >= least:
                bits |= 1 << w
        if bits:
            out[n, 0], out[n, 1] = e, bits
            n += 1
    return n
