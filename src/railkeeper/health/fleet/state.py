"""The fleet locator's memory: everything that one tick hands to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import name_of
from railkeeper.health.carriers import Carriers, new_carriers
from railkeeper.health.fault import CLEARED, LocatorConfig
from railkeeper.health.fleet.hiccups import Hiccups
from railkeeper.health.fleet.plan_index import PlanIndex, index_paths
from railkeeper.health.fleet.scan_kernels import NO_TRAIN, OLDEST
from railkeeper.health.fleet.space import PartSpace
from railkeeper.health.fleet.windows import Exposure, Sum, Wrong, new_exposure, new_wrong
from railkeeper.health.parts import Parts
from railkeeper.health.track import CORRUPT, LOSS, Tracked, to_fault

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.paths import Paths
    from railkeeper.health.fault import Fault
    from railkeeper.health.fleet.solve import Neighbourhood

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Floats32 = npt.NDArray[np.float32]
    Bytes = npt.NDArray[np.uint8]
    Bools = npt.NDArray[np.bool_]

WAIT_TICKS = 128  # a suspicion that was not raised again for so long is forgotten


@dataclass
class Waiting:
    """A suspicion that is not told yet: since which tick, seen last in which, how often; losses at its beginning."""

    first: int
    last: int
    lost: int
    times: int = 1


@dataclass
class Case:
    """Counts (rows,) on a neighbourhood around a fault, in which any part of `hood` may be at fault."""

    family: str
    hood: Neighbourhood
    n: Floats
    x: Floats
    opened: int


@dataclass(eq=False)
class Followed:
    """An open fault with the rows that cross it (by number), and what they have counted since it was told.

    - n, x: probes and how many went wrong; u: -log(1 - rate), and `u_believed` as others take it to be
    - calm: nats that speak for its end, gathered in the last `calm_ticks`
    - case: all evidence around it while it is young
    """

    tracked: Tracked
    part: int
    rows: Longs
    times: Floats
    n: Floats
    x: Floats
    u: float
    calm: float = 0.0
    calm_ticks: int = 0
    case: Case | None = None
    u_believed: float = 1e-6

    @property
    def live(self) -> bool:
        return self.tracked.status != CLEARED


@dataclass(frozen=True)
class Columns:
    """One tick by row number; rows that nobody reports have sent 0."""

    sent: Longs
    received: Longs
    corrupt: Longs
    delay_ns: Longs
    train_bps: Floats


# Chance of a row of each group to lose a probe for no reason, relative to the shortest: by the links that it crosses.
PER_NEAR = np.array([1, 2, 3, 2, 1], dtype=np.float32)
NODE_GROUPS = 64


@dataclass
class Near:
    """What the shortest rows of groups of nodes lost lately, and how many probes they all sent."""

    wrong: dict[str, Floats]
    probes: float = 0.0


@dataclass
class Memory:
    """Arrays by row, entity and part that go with a plan of paths.

    - nominal: (entities,) probes a tick, weighted by `PER_NEAR`; `coming`: the same, being counted anew slice by slice
    - sent: probes of all rows, weighted by `PER_NEAR`
    - believed: {family: (rows,) chance to survive the open faults}
    """

    index: PlanIndex
    exposure: Exposure
    wrong: dict[str, Wrong]
    delay_before: Floats32
    slow_run: Bytes
    train_age: Bytes
    verdict: Bytes
    nominal: Floats32
    coming: Floats32
    believed: dict[str, Floats32]
    part_scratch: Ints
    link_scratch: Bytes
    sample: tuple[Longs, ...]
    near: Near
    hiccups: Hiccups
    sent: Sum
    sent_now: float = 0.0
    counted_to: int = 0


@dataclass
class FleetLocator:
    """State between ticks. `judge_fleet` takes it over: only the state that it returns may be used again."""

    fabric: Fabric
    config: LocatorConfig
    space: PartSpace
    parts: Parts
    carriers: Carriers
    silent_for: Longs
    heard: Bools
    tick: int = -1
    ticks_seen: int = 0
    memory: Memory | None = None
    grown: bool = False
    followed: list[Followed] = field(default_factory=list)
    others: list[Tracked] = field(default_factory=list)
    waiting: dict[tuple[str, int], Waiting] = field(default_factory=dict)
    background: dict[str, float] = field(default_factory=dict)

    @property
    def threshold(self) -> float:
        """Nats that evidence must reach, so that chance passes it `false_alarms_per_day` times a day.

        Counted over all parts, directions, ticks and windows (of windows eight times as long there are an eighth).
        """
        tests = 2 * 3 * self.space.n_parts * 86_400 / self.config.tick_s
        return math.log(tests / self.config.false_alarms_per_day)

    @property
    def faults(self) -> list[Tracked]:
        """All faults, those of agents away at the end."""
        return [*(f.tracked for f in self.followed), *self.others]

    def live(self, *families: str) -> list[Tracked]:
        """Return the faults of some families that are not cleared."""
        return [f for f in self.faults if f.live and f.family in families]

    def followed_of(self, *families: str) -> list[Followed]:
        """Return the open faults of some families with their rows."""
        return [f for f in self.followed if f.live and f.tracked.family in families]

    def open(self, fault: Tracked) -> Tracked:
        """Begin to tell a fault that no rows are followed for."""
        self.name(fault)
        self.others.append(fault)
        return fault

    def name(self, fault: Tracked) -> None:
        """Give a fault its key."""
        fault.key = fault.key or f"{fault.family}:{name_of(self.fabric, fault.component())}:{fault.since}"
        fault.opened = fault.seen = self.tick

    def drop_stale(self) -> None:
        """Forget cleared faults and old suspicions."""
        self.followed = [f for f in self.followed if f.live]
        self.others = [f for f in self.others if f.live]
        self.waiting = {k: w for k, w in self.waiting.items() if w.last >= self.tick - WAIT_TICKS}

    def answer(self) -> tuple[Fault, ...]:
        """Return the faults as they are told."""
        return tuple(to_fault(self.fabric, f) for f in self.faults)


def new_fleet(fabric: Fabric, config: LocatorConfig | None = None) -> FleetLocator:
    """Return a locator that has seen nothing."""
    c = config or LocatorConfig()
    return FleetLocator(
        fabric=fabric, config=c, space=PartSpace(fabric), parts=Parts(fabric), carriers=new_carriers(fabric),
        silent_for=np.full(fabric.n_nodes, 1, dtype=np.int64), heard=np.zeros(fabric.n_nodes, dtype=np.bool_),
        background={LOSS: c.background_loss, CORRUPT: c.background_loss},
    )  # fmt: skip


SAMPLE = 4096  # rows of a group whose delays stand for all of it


def remember(space: PartSpace, index: PlanIndex) -> Memory:
    """Return empty memory for a plan."""
    n, entities = len(index), space.n_entities
    return Memory(
        index=index, exposure=new_exposure(n),
        wrong={LOSS: new_wrong(n, entities), CORRUPT: new_wrong(n, entities)},
        delay_before=np.full(n, np.inf, dtype=np.float32), slow_run=np.full(n, NO_TRAIN, dtype=np.uint8),
        train_age=np.full(n, OLDEST, dtype=np.uint8),
        verdict=np.zeros(n, dtype=np.uint8), nominal=np.zeros(entities, dtype=np.float32),
        coming=np.zeros(entities, dtype=np.float32),
        believed={LOSS: np.ones(n, dtype=np.float32), CORRUPT: np.ones(n, dtype=np.float32)},
        part_scratch=np.full(space.n_parts, -1, dtype=np.int32),
        link_scratch=np.zeros(2 * space.fabric.n_links, dtype=np.uint8), sample=_samples(index),
        near=Near({f: np.zeros(min(NODE_GROUPS, space.fabric.n_nodes)) for f in (LOSS, CORRUPT)}),
        hiccups=Hiccups(), sent=Sum(),
    )  # fmt: skip


def _samples(index: PlanIndex) -> tuple[Longs, ...]:
    """Return some rows of each group, spread evenly."""
    out = []
    for g in range(5):
        rows = np.flatnonzero(index.group == g)
        # An odd step, since plans repeat themselves in even ones.
        out.append(rows[:: (len(rows) // SAMPLE) | 1])
    return tuple(out)


def start_memory(space: PartSpace, paths: Paths) -> Memory:
    """Return memory for the paths of a first tick."""
    return remember(space, index_paths(space.fabric, paths))
