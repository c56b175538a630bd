"""The locator's memory: everything that one tick hands to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Component, name_of
from railkeeper.health.carriers import Carriers, new_carriers
from railkeeper.health.evidence import KEPT, RECENT, Counts, Ring, TickRows
from railkeeper.health.fault import CLEARED, LocatorConfig
from railkeeper.health.parts import BOTH, Part, Parts
from railkeeper.health.rows import Rows, Table, make_table
from railkeeper.health.track import CORRUPT, LOSS, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Bools = npt.NDArray[np.bool_]
    Longs = npt.NDArray[np.int64]


@dataclass
class Waiting:
    """A suspicion that is not told yet: since which tick, seen last in which, how often in a row."""

    first: int
    last: int
    times: int = 1


@dataclass(frozen=True)
class Past:
    """A dead part that came back: if it dies again soon, it flaps."""

    key: str
    spells: tuple[int, ...]
    seen: int


def make_table_of_nothing() -> Table:
    """Return a table without rows and parts."""
    none = np.empty(0, dtype=np.int64)
    return Table([], none, none, np.empty(0), np.zeros(1, dtype=np.int64), np.empty(0), np.empty(0, dtype=bool))


@dataclass
class LocatorState:
    """State between ticks. `judge` takes it over: only the state that it returns may be used again.

    `table` counts each crossing of a part, for losses that strike each link on its own; `table_at_once` counts a part
    once, for links that die at the same moments.
    """

    fabric: Fabric
    config: LocatorConfig
    parts: Parts
    rows: Rows
    carriers: Carriers
    silent_for: Longs
    heard: Bools
    tick: int = -1
    ticks_seen: int = 0
    loss: Counts = field(default_factory=Counts)
    corrupt: Counts = field(default_factory=Counts)
    delays: Ring = field(default_factory=lambda: Ring(RECENT, np.inf, np.float64))
    trains: Ring = field(default_factory=lambda: Ring(RECENT, np.nan, np.float64))
    faults: list[Tracked] = field(default_factory=list)
    waiting: dict[tuple[str, Component], Waiting] = field(default_factory=dict)
    past: dict[Component, Past] = field(default_factory=dict)
    previous: TickRows | None = None
    background: dict[str, float] = field(default_factory=dict)
    table: Table = field(default_factory=make_table_of_nothing)
    table_at_once: Table = field(default_factory=make_table_of_nothing)
    index: dict[Part, int] = field(default_factory=dict)
    table_version: int = -1

    @property
    def threshold(self) -> float:
        """Nats that evidence must reach, so that chance passes it `false_alarms_per_day` times a day.

        Counted over all parts, directions, ticks and window lengths (of windows twice as long there are half as many).
        """
        tests = 2 * 3 * max(len(self.table.parts), 1) * 86_400 / self.config.tick_s
        return math.log(tests / self.config.false_alarms_per_day)

    def refresh_table(self) -> None:
        """Cross parts with rows again if paths have come since."""
        if self.table_version == self.rows.version:
            return
        links = np.unique(self.rows.crossed[self.rows.crossed >= 0] // 2)
        parts = self.parts.around(links)
        self.table = make_table(self.rows, parts)
        self.table_at_once = replace(self.table, times=np.minimum(self.table.times, 1.0))
        self.index = {p: i for i, p in enumerate(parts)}
        self.table_version = self.rows.version

    def rows_of(self, part: Part, direction: int = BOTH) -> Longs:
        """Return the rows that cross a part."""
        if part not in self.index:
            return np.empty(0, dtype=np.int64)
        return self.table.rows_of(3 * self.index[part] + direction)[0]

    def live(self, *families: str) -> list[Tracked]:
        """Return the faults of some families that are not cleared."""
        return [f for f in self.faults if f.live and f.family in families]

    def open(self, fault: Tracked) -> Tracked:
        """Begin to track a fault; a part that has just come back keeps its old key."""
        name = name_of(self.fabric, fault.component())
        fault.key = fault.key or f"{fault.family}:{name}:{fault.since}"
        fault.opened = fault.seen = self.tick
        self.faults.append(fault)
        return fault

    def suspect(self, family: str, component: Component, within: int = 1) -> Waiting:
        """Note a suspicion; one that was not raised in the `within` ticks before begins anew."""
        w = self.waiting.get((family, component))
        if w is None or w.last < self.tick - within:
            w = Waiting(self.tick, self.tick)
        elif w.last < self.tick:
            w.times, w.last = w.times + 1, self.tick
        self.waiting[family, component] = w
        return w

    def drop_stale(self) -> None:
        """Forget cleared faults and old suspicions."""
        self.faults = [f for f in self.faults if f.status != CLEARED]
        self.waiting = {k: w for k, w in self.waiting.items() if w.last >= self.tick - KEPT}


def new_state(fabric: Fabric, config: LocatorConfig | None = None) -> LocatorState:
    """Return a locator that has seen nothing."""
    c = config or LocatorConfig()
    return LocatorState(
        fabric=fabric, config=c, parts=Parts(fabric), rows=Rows(fabric),
        carriers=new_carriers(fabric), background={LOSS: c.background_loss, CORRUPT: c.background_loss},
        silent_for=np.full(fabric.n_nodes, 1, dtype=np.int64),
        heard=np.zeros(fabric.n_nodes, dtype=np.bool_),
    )  # fmt: skip
