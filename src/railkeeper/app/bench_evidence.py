"""Path evidence of a whole fleet, drawn from known faults: for benchmarks, at the speed of array arithmetic.

Each row sends as often as agents of such fabrics do; lost probes are drawn by number, not one by one. Knows nothing of
the locator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import Kind
from railkeeper.fabric.paths import PathKind
from railkeeper.health.fault import Observation
from railkeeper.probe.pathstats import N_BINS, PathStats
from railkeeper.telemetry.ports import DOWN, UP, PortStates

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.paths import Paths

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

# Probes a tick of half a second: to the T0s and T1s every millisecond, as the largest published prober does; one way
# and by far T0s less often, since they only say which direction.
PROBES = {PathKind.T0_BOUNCE: 500, PathKind.T1_BOUNCE: 500, PathKind.FAR_BOUNCE: 20, PathKind.ONEWAY: 100}
BASE_NS = {PathKind.T0_BOUNCE: 4_000, PathKind.T1_BOUNCE: 8_000, PathKind.FAR_BOUNCE: 12_000, PathKind.ONEWAY: 8_000}
TRAIN_EVERY = 4  # ticks
DEAD = frozenset({"down", "blackhole", "reboot"})


@dataclass(frozen=True)
class Quiet:
    """What is no fault.

    - loss: (lowest, highest) chance of a probe to be lost for no reason; it differs from plane to plane
    - jitter: share of the base delay that the least delay of a tick may be above it
    - slow_trains: share of trains that a busy host makes slow
    """

    loss: tuple[float, float] = (1e-6, 1e-5)
    jitter: float = 0.2
    slow_trains: float = 1e-3


@dataclass
class FleetEvidence:
    """Ticks of a fleet. `rows_over` (directed links -> rows, ascending) is asked for the rows that a fault strikes."""

    fabric: Fabric
    paths: Paths
    crossed: npt.NDArray[np.int32]
    rows_over: object
    seed: int = 0
    quiet: Quiet = field(default_factory=Quiet)
    faults: list[InjectedFault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        n = len(self.paths)
        by_kind = np.array([PROBES[k] for k in PathKind])
        self.sent: Longs = by_kind[self.paths.kind]
        self.base_ns: Longs = np.array([BASE_NS[k] for k in PathKind])[self.paths.kind]
        self.of_kind = [np.flatnonzero(self.paths.kind == k) for k in PathKind]
        self.plane_loss = np.geomspace(*self.quiet.loss, self.fabric.planes)
        self._zero = np.zeros(n, dtype=np.int64)
        self._histogram = np.broadcast_to(np.zeros((1, N_BINS), dtype=np.uint32), (n, N_BINS))

    def tick(self, number: int) -> Observation:
        """Draw a tick."""
        received = self.sent - self._lost_by_chance()
        corrupt, delay, trains = self._zero.copy(), self._delays(), self._trains(number)
        for f in self.faults:
            self._strike(f, received, corrupt, delay, trains)
        stats = PathStats(
            paths=self.paths, sent=self.sent, received=received, corrupt=corrupt, reordered=self._zero,
            duplicate=self._zero, delay_min_ns=np.where(received > 0, delay, np.iinfo(np.int64).max),
            delay_hist=self._histogram, train_bps=trains,
        )  # fmt: skip
        return Observation(number, stats, self._ports())

    def _lost_by_chance(self) -> Longs:
        """Return (rows,) losses of no reason: drawn at the highest rate, then thinned to each plane's."""
        highest, out = float(self.plane_loss[-1]), self._zero.copy()
        for k, rows in zip(PathKind, self.of_kind, strict=True):
            count = self.rng.poisson(highest * PROBES[k] * len(rows))
            struck = rows[self.rng.integers(0, max(len(rows), 1), count if len(rows) else 0)]
            keep = self.rng.random(len(struck)) * highest < self.plane_loss[self.paths.plane[struck]]
            np.add.at(out, struck[keep], 1)
        return out

    def _delays(self) -> Longs:
        noise = self.rng.random(len(self.paths), dtype=np.float32) * np.float32(self.quiet.jitter)
        return np.asarray(self.base_ns * (1 + noise), dtype=np.int64)

    def _trains(self, number: int) -> Floats:
        out = np.full(len(self.paths), np.nan)
        rows = np.arange(number % TRAIN_EVERY, len(out), TRAIN_EVERY)
        bps = self.fabric.link_gbps * 1e9 * self.rng.uniform(0.95, 1.0, len(rows))
        slowed = self.rng.random(len(rows)) < self.quiet.slow_trains
        out[rows] = np.where(slowed, bps * 0.3, bps)
        return out

    def _strike(self, f: InjectedFault, received: Longs, corrupt: Longs, delay: Longs, trains: Floats) -> None:
        rows, times = self.struck(f)
        if f.kind in DEAD:
            received[rows], corrupt[rows], trains[rows] = 0, 0, np.nan
        elif f.kind == "loss":
            received[rows] -= self.rng.binomial(received[rows], 1 - (1 - f.rate) ** times)
        elif f.kind == "corrupt":
            damaged = self.rng.binomial(received[rows], 1 - (1 - f.rate) ** times)
            received[rows] -= damaged
            corrupt[rows] += damaged
        elif f.kind == "delay":
            delay[rows] += np.asarray(times * f.ms * 1e6, dtype=np.int64)
        elif f.kind == "slow":
            trains[rows] = np.minimum(trains[rows], f.gbps * 1e9)

    def struck(self, f: InjectedFault) -> tuple[Longs, Longs]:
        """Return the rows that cross a fault, and how often each does."""
        links = links_of(self.fabric, f.target).astype(np.int64)
        ways = {"up": [2 * links], "down": [2 * links + 1], "both": [2 * links, 2 * links + 1]}[f.direction]
        directed = np.concatenate(ways)
        rows = self.rows_over(directed)  # type: ignore[operator]
        return rows, np.isin(self.crossed[rows], directed).sum(axis=1)

    def _ports(self) -> PortStates:
        f = self.fabric
        state, downs = np.full(f.n_links, UP, dtype=np.int8), np.zeros(f.n_links, dtype=np.int64)
        for fault in self.faults:
            if fault.kind == "down":
                state[links_of(f, fault.target)], downs[links_of(f, fault.target)] = DOWN, 1
        answers = np.full(f.n_t0 + f.n_t1, UP, dtype=np.int8)
        dead = [x.target for x in self.faults if x.kind == "down" and x.target.kind in {Kind.T0, Kind.T1}]
        for target in dead:
            answers[target.id + (f.n_t0 if target.kind is Kind.T1 else 0)] = 0
        return PortStates(state, state, downs, downs, answers)
