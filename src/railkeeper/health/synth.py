"""Synthetic evidence: a fabric's probes drawn one by one from known faults, as agents and switches would report them.

Knows nothing of the locator. Each probe has a time of its own, so that faults begin and end in the middle of a tick.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import Kind
from railkeeper.fabric.paths import PathKind, join_paths, links_crossed
from railkeeper.health.fault import Observation
from railkeeper.probe.pathstats import N_BINS, NO_TIME, UNKNOWN, PathStats
from railkeeper.probe.plan import ProbeBudget, make_plan
from railkeeper.telemetry.ports import DOWN, UNREAD, UP, PortStates, unread_ports

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.fabric.model import Fabric

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

FOR_EVER = 1e18
CARRIER_KINDS = frozenset({"down", "flap", "reboot", "optic", "node-down"})
DEAD_KINDS = CARRIER_KINDS | {"blackhole"}
BASE_DELAY_MS = (0.03, 0.05, 0.08, 0.05, 0.03)
FAST_TRAIN_BPS = 5e8


@dataclass(frozen=True)
class Event:
    """A fault that holds from `start_s` to `end_s`."""

    fault: InjectedFault
    start_s: float
    end_s: float = FOR_EVER

    def active(self, t: Floats) -> Bools:
        """Return at which times the fault bites."""
        f = self.fault
        on = (t >= self.start_s) & (t < self.end_s)
        if f.kind == "flap":
            on &= (t - self.start_s) % (f.down_s + f.up_s) < f.down_s
        if f.kind in {"reboot", "optic"}:
            on &= t < self.start_s + f.seconds
        return np.asarray(on)

    def spells(self, t: float) -> int:
        """Return how many times its links have gone down by time t."""
        if t < self.start_s:
            return 0
        if self.fault.kind != "flap":
            return 1
        until = min(t, self.end_s) - self.start_s
        return int(until // (self.fault.down_s + self.fault.up_s)) + 1


@dataclass(frozen=True)
class Noise:
    """What is no fault: random loss on any path, and a host whose processors are taken.

    - loss: chance that any probe is lost
    - slowed: factor on delays and trains of everything, drawn anew each tick up to this
    - hiccup: chance a tick that one agent loses `hiccup_share` of its probes and does not know
    """

    loss: float = 0.0
    slowed: float = 1.0
    hiccup: float = 0.0
    hiccup_share: float = 0.3


@dataclass(frozen=True)
class _Arrivals:
    """Columns over single probes."""

    row: npt.NDArray[np.int64]
    alive: Bools
    corrupt: Bools
    delay_ms: Floats


@dataclass
class World:
    """A fabric under probes; `tick` gives what all agents report of one tick.

    `load_bps` is the traffic on each directed link, `ports` whether anyone reads port states, `bounce_trains` whether
    trains go to T0s and far T0s too (only these tell a slow T0 from slow ports of it), `clocks_ms` how far the nodes'
    clocks stand apart.
    """

    fabric: Fabric
    events: list[Event] = field(default_factory=list)
    seed: int = 0
    tick_s: float = 0.5
    noise: Noise = field(default_factory=Noise)
    nominal_bps: float = 20e6
    load_bps: float = 1.6e6
    ports: bool = True
    bounce_trains: bool = True
    clocks_ms: float = 0.0
    budget: ProbeBudget | None = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        plans = [make_plan(self.fabric, n, self.budget) for n in range(self.fabric.n_nodes)]
        self.paths = join_paths([p.paths for p in plans])
        self.rate = np.concatenate([p.rate for p in plans])
        self.train_rate = np.concatenate([p.train_rate for p in plans])
        if self.bounce_trains:
            self.train_rate[self.paths.kind == PathKind.T0_BOUNCE] = 0.5
            self.train_rate[self.paths.kind == PathKind.FAR_BOUNCE] = 0.25
        self.crossed = links_crossed(self.fabric, self.paths)
        self.phase = self.rng.random(len(self.paths))
        self.train_phase = self.rng.random(len(self.paths))
        self.clock_ms = self.rng.uniform(0, self.clocks_ms, self.fabric.n_nodes)
        self.src = self.fabric.node_of(self.paths.src)
        self.dst = self.fabric.node_of(self.paths.dst)

    # -- one tick -----------------------------------------------------------------------------------
    def tick(self, number: int) -> Observation:
        """Draw a tick."""
        start = number * self.tick_s
        row, t = self._probes(start)
        silent = self._silent(start)
        here = ~np.isin(self.src[row], silent) & ~np.isin(self.dst[row], silent)
        row, t = row[here], t[here]
        alive, corrupt, delay = self._fly(row, t)
        alive &= ~self._hiccup(row)
        stats = self._stats(_Arrivals(row, alive, corrupt & alive, delay), self._trains(number))
        stats = stats.take(~np.isin(self.src, silent) & ~np.isin(self.dst, silent))
        return Observation(number, stats, self._ports(start + self.tick_s + 0.25, silent), tuple(silent), ())

    def _probes(self, start: float) -> tuple[npt.NDArray[np.int64], Floats]:
        begin = self.rate * start + self.phase
        count = (np.floor(begin + self.rate * self.tick_s) - np.floor(begin)).astype(np.int64)
        row = np.repeat(np.arange(len(self.paths)), count)
        nth = np.arange(len(row)) - np.repeat(np.concatenate([[0], np.cumsum(count)[:-1]]), count)
        at = (np.floor(begin)[row] + 1 + nth - begin[row]) / self.rate[row]
        return row, start + at

    def _silent(self, start: float) -> list[int]:
        out = set()
        for e in self.events:
            if e.fault.kind in {"agent-down", "node-down"} and e.start_s < start + self.tick_s and e.end_s > start:
                out.add(e.fault.target.id)
        return sorted(out)

    def _fly(self, row: npt.NDArray[np.int64], t: Floats) -> tuple[Bools, Bools, Floats]:
        alive = self.rng.random(len(row)) >= self.noise.loss
        corrupt = np.zeros(len(row), dtype=bool)
        base = np.array(BASE_DELAY_MS)[self.paths.kind[row]]
        stretch = 1 + self.rng.random() * (self.noise.slowed - 1)
        delay = base * stretch * (1 + self.rng.exponential(0.3, len(row)))
        for e in self.events:
            on, m = e.active(t), self._crossings(e.fault)[row]
            lose, damage, late = self._effect(e.fault)
            alive &= ~(on & (self.rng.random(len(row)) > (1 - lose) ** m))
            corrupt |= on & (self.rng.random(len(row)) > (1 - damage) ** m)
            delay += np.where(on, m * late, 0.0)
        return alive, corrupt, delay

    def _effect(self, f: InjectedFault) -> tuple[float, float, float]:
        """Return chance of loss, chance of damage, added ms, each a crossing."""
        if f.kind in DEAD_KINDS:
            return 1.0, 0.0, 0.0
        if f.kind == "slow":
            cap = self._cap_bps(f)
            full = self.load_bps > cap
            return (1 - cap / self.load_bps if full else 0.0), 0.0, (30.0 if full else 0.0)
        return (f.rate if f.kind == "loss" else 0.0), (f.rate if f.kind == "corrupt" else 0.0), f.ms

    def _cap_bps(self, f: InjectedFault) -> float:
        return max(0.5e6, self.nominal_bps * f.gbps / self.fabric.link_gbps)

    def _crossings(self, f: InjectedFault) -> npt.NDArray[np.int64]:
        links = links_of(self.fabric, f.target).astype(np.int64)
        directed = {"up": [2 * links], "down": [2 * links + 1], "both": [2 * links, 2 * links + 1]}[f.direction]
        if f.kind == "agent-down":
            return np.zeros(len(self.paths), dtype=np.int64)
        return np.asarray(np.isin(self.crossed, np.concatenate(directed)).sum(axis=1))

    def _hiccup(self, row: npt.NDArray[np.int64]) -> Bools:
        bad = np.flatnonzero(self.rng.random(self.fabric.n_nodes) < self.noise.hiccup)
        return np.isin(self.src[row], bad) & (self.rng.random(len(row)) < self.noise.hiccup_share)

    def _stats(self, a: _Arrivals, trains: Floats) -> PathStats:
        n = len(self.paths)
        least = np.full(n, np.inf)
        np.minimum.at(least, a.row[a.alive], a.delay_ms[a.alive])
        least += self.clock_ms[self.dst] - self.clock_ms[self.src]
        delay_ns = np.where(np.isfinite(least), least * 1e6, 0).astype(np.int64)
        return PathStats(
            paths=self.paths, sent=np.bincount(a.row, minlength=n),
            received=np.bincount(a.row[a.alive & ~a.corrupt], minlength=n),
            corrupt=np.bincount(a.row[a.corrupt], minlength=n), reordered=np.zeros(n, np.int64),
            duplicate=np.zeros(n, np.int64), delay_min_ns=np.where(np.isfinite(least), delay_ns, NO_TIME),
            delay_hist=np.zeros((n, N_BINS), np.uint32), train_bps=trains,
        )  # fmt: skip

    def _trains(self, number: int) -> Floats:
        start = number * self.tick_s
        begin = self.train_rate * start + self.train_phase
        has = np.floor(begin + self.train_rate * self.tick_s) > np.floor(begin)
        t = start + (np.floor(begin) + 1 - begin) / np.maximum(self.train_rate, 1e-9)
        stretch = 1 + self.rng.random(len(has)) * (self.noise.slowed - 1) * 5
        bps = FAST_TRAIN_BPS * self.rng.uniform(0.2, 1.0, len(has)) / stretch
        for e in self.events:
            m = self._crossings(e.fault)
            on = e.active(t) & (m > 0)
            if e.fault.kind == "slow":
                bps[on] = np.minimum(bps[on], self._cap_bps(e.fault) * self.rng.uniform(0.97, 1.03, int(on.sum())))
            lose = self._effect(e.fault)[0]
            has &= ~(on & (self.rng.random(len(has)) < 1 - (1 - lose) ** (3 * m)))
        return np.where(has, bps, np.nan)

    # -- what ports and switches say ------------------------------------------------------------------
    def _ports(self, t: float, silent: list[int]) -> PortStates:
        if not self.ports:
            return unread_ports(self.fabric)
        f = self.fabric
        state = np.full(f.n_links, UP, dtype=np.int8)
        downs = np.zeros(f.n_links, dtype=np.int64)
        answers = np.full(f.n_t0 + f.n_t1, UP, dtype=np.int8)
        for e in self.events:
            if e.fault.kind not in CARRIER_KINDS or e.fault.direction != "both":
                continue
            links = links_of(f, e.fault.target)
            downs[links] += e.spells(t)
            if e.active(np.array([t]))[0]:
                state[links] = DOWN
                if e.fault.kind == "reboot":
                    answers[e.fault.target.id + (f.n_t0 if e.fault.target.kind is Kind.T1 else 0)] = 0
        return self._unread(state, downs, answers, silent)

    def _unread(
        self,
        state: npt.NDArray[np.int8],
        downs: npt.NDArray[np.int64],
        answers: npt.NDArray[np.int8],
        silent: list[int],
    ) -> PortStates:
        f = self.fabric
        lower, upper = state.copy(), state.copy()
        lower_downs, upper_downs = downs.copy(), downs.copy()
        ports = np.arange(f.n_ports)
        lost = np.zeros(f.n_links, dtype=bool)
        lost[: f.n_ports] = np.isin(f.node_of(ports // f.planes), silent)
        lost[f.n_ports :] = answers[f.link_lower[f.n_ports :]] == 0
        upper_switch = f.link_upper + np.where(np.arange(f.n_links) < f.n_ports, 0, f.n_t0)
        gone = answers[upper_switch] == 0
        lower[lost], lower_downs[lost] = UNREAD, UNKNOWN
        upper[gone], upper_downs[gone] = UNREAD, UNKNOWN
        return PortStates(lower, upper, lower_downs, upper_downs, answers)
