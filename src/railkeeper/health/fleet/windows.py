"""Counts over three windows of ticks, each eight times as long as the one before, in bounded memory.

A window keeps two halves: the one that fills, and the full one before it. So it always holds at least as many ticks as
its length, and at most twice as many. All counts are whole numbers: what is taken back leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fleet.window_kernels import (
    CELL,
    TICKS,
    WINDOWS,
    put_wrong,
    read_cells,
    screen,
    sum_cells,
    take_back,
    take_back_tick,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.plan_index import PlanIndex
    from railkeeper.health.fleet.space import PartSpace

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Floats32 = npt.NDArray[np.float32]

NOW = -1  # stands for a window of this tick alone
SCALES = (NOW, *range(WINDOWS))


def ticks_held(tick: int) -> Floats:
    """Return (windows + 1,) ticks that each window holds at the `tick`-th tick (from 0), this tick alone last."""
    held = [tick % t + 1 + (t if tick >= t else 0) for t in TICKS]
    return np.array([*held, 1.0])


@dataclass
class Sum:
    """One number a tick, summed over each window: the halves that fill, then the full ones."""

    halves: Floats = field(default_factory=lambda: np.zeros(2 * WINDOWS))

    def begin(self, tick: int) -> None:
        """Begin the `tick`-th tick; ticks come one after the other."""
        for w in range(WINDOWS):
            if tick and tick % TICKS[w] == 0:
                self.halves[WINDOWS + w], self.halves[w] = self.halves[w], 0.0

    def add(self, value: float) -> None:
        """Add to this tick."""
        self.halves[:WINDOWS] += value

    def of(self, window: int) -> float:
        """Return the sum over a window that is not of this tick alone."""
        return float(self.halves[window] + self.halves[WINDOWS + window])


@dataclass
class Exposure:
    """Probes of each row: `fill` (windows, rows), each what the shorter ones have not handed on yet; `now` (rows,)."""

    fill: Ints
    full: Ints
    now: Ints

    def begin(self, tick: int) -> None:
        """Begin the `tick`-th tick: windows whose half is over hand it on."""
        for w in range(WINDOWS):
            if tick and tick % TICKS[w] == 0:
                if w + 1 < WINDOWS:
                    self.fill[w + 1] += self.fill[w]
                self.full[w] = self.fill[w]
                self.fill[w] = 0

    def of(self, scale: int, rows: Longs) -> Longs:
        """Return probes of some rows in a window."""
        if scale == NOW:
            return self.now[rows].astype(np.int64)
        fill = self.fill[: scale + 1, rows].sum(axis=0, dtype=np.int64)
        return np.asarray(fill + self.full[scale, rows])

    def forget(self, rows: Longs) -> None:
        """Count nothing that some rows have sent so far."""
        self.fill[:, rows] = 0
        self.full[:, rows] = 0


@dataclass
class Wrong:
    """What went wrong (was lost, or damaged): cells of rows and of entities, and the entities touched in this tick."""

    rows: Ints
    entities: Ints
    touched: Ints
    n_touched: int = 0
    tick: int = 0
    total: Sum = field(default_factory=Sum)
    total_now: float = 0.0

    def put(self, tick: int, index: PlanIndex, space: PartSpace, rows: Ints, x: Ints) -> None:
        """Begin the `tick`-th tick with what went wrong on some rows."""
        self.tick, self.total_now = tick, float(x.sum())
        self.total.begin(tick)
        self.total.add(self.total_now)
        self.n_touched = put_wrong(
            rows, x, tick, index.crossed, space.parts_of_link, space.fabric.n_links, self.rows, self.entities,
            self.touched,
        )  # fmt: skip

    def screen(self, nominal: Floats32, background: float, least: float) -> Ints:
        """Return (n, 2) entities of this tick that stand out, and bits of the windows in which they do."""
        out = np.empty((self.n_touched, 2), dtype=np.int32)
        now = self.touched[: self.n_touched]
        n = screen(now, self.entities, nominal, background, ticks_held(self.tick), least, out)
        return out[:n]

    def of_rows(self, scale: int, rows: Longs) -> Longs:
        """Return what went wrong on rows in a window."""
        return self._read(self.rows, scale, rows)

    def of_entities(self, scale: int, entities: Longs) -> Longs:
        """Return what went wrong on entities in a window."""
        return self._read(self.entities, scale, entities)

    def _read(self, cells: Ints, scale: int, ids: Longs) -> Longs:
        out = np.empty(len(ids), dtype=np.int64)
        read_cells(cells, np.asarray(ids, dtype=np.int64), self.tick, scale, out)
        return out

    def take_back(self, index: PlanIndex, space: PartSpace, then: int, rows: Ints, x: Ints) -> None:
        """Take what went wrong on some rows in an earlier tick out of all windows."""
        for w in range(WINDOWS):
            if self.tick // TICKS[w] - then // TICKS[w] <= 1:
                self.total.halves[w + WINDOWS * (self.tick // TICKS[w] - then // TICKS[w])] -= float(x.sum())
        take_back_tick(
            rows, x, then, self.tick, index.crossed, space.parts_of_link, space.fabric.n_links, self.rows,
            self.entities,
        )  # fmt: skip

    def forget(self, index: PlanIndex, space: PartSpace, rows: Longs) -> None:
        """Forget what went wrong on some rows."""
        gone = np.zeros(2 * WINDOWS, dtype=np.int64)
        sum_cells(self.rows, rows.astype(np.int64), self.tick, gone)
        self.total.halves -= gone
        few = rows.astype(np.int32)
        take_back(
            few, self.tick, index.crossed, space.parts_of_link, space.fabric.n_links, self.rows, self.entities
        )  # fmt: skip


def new_exposure(n_rows: int) -> Exposure:
    """Return counts of nothing."""
    shape = (WINDOWS, n_rows)
    return Exposure(np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(n_rows, np.int32))


def new_wrong(n_rows: int, n_entities: int) -> Wrong:
    """Return counts of nothing."""
    cells = np.zeros((n_rows, CELL), np.int32), np.zeros((n_entities, CELL), np.int32)
    for c in cells:
        c[:, -1] = -1
    return Wrong(*cells, np.empty(n_entities, np.int32))
