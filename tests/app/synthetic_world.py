"""A world without packets for the tests of the keeper: agents and senders over known faults, obeying denials."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railkeeper.app.inputs import Confirmation, TickInput
from railkeeper.fabric.components import links_of
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import PathKind, links_crossed, make_paths
from railkeeper.fabric.spec import check_spec
from railkeeper.health.synth import Event, World
from railkeeper.lab.traffic.flowstats import FlowReport, FlowStats
from railkeeper.probe.pathstats import TickReport, join_stats
from railkeeper.telemetry.ports import UNREAD

FIRST_TICK = 3_400_000_000
TICK_S = 0.5
SHAPE = {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 4, "nics_per_t0": 2}
SENT_PER_NODE = 200


def make_fabric(**shape):
    return Fabric(check_spec({"fabric": SHAPE | shape}))


def event(fabric, start_tick, end_tick, **fault):
    """A fault that holds from one tick of the test to another, both counted from its first."""
    made = parse_fault(fabric, {"id": fault["target"], **fault}, where="test")
    return Event(made, (FIRST_TICK + start_tick) * TICK_S, (FIRST_TICK + end_tick) * TICK_S)


def reports_of(fabric, obs):
    """Split a tick's joined rows into what each agent would have said."""
    s, paths = obs.stats, obs.stats.paths
    source, target = fabric.node_of(paths.src), fabric.node_of(paths.dst)
    width = fabric.nics_per_node * fabric.planes
    out = []
    for node in range(fabric.n_nodes):
        if node in obs.silent:
            continue
        oneway = paths.kind == PathKind.ONEWAY
        own, there = s.take((source == node) & ~oneway), s.take((target == node) & oneway)
        here = s.take((source == node) & oneway)
        rows = [
            own,
            replace(here, received=np.full(len(here), -1), corrupt=np.zeros(len(here), np.int64)),
            replace(there, sent=np.full(len(there), -1)),
        ]
        mine = slice(node * width, (node + 1) * width)
        out.append(
            TickReport(
                node, obs.tick, TICK_S, join_stats(rows),
                port_state=tuple(int(x) for x in obs.ports.lower[mine]),
                port_downs=tuple(int(x) for x in obs.ports.lower_downs[mine]),
            )
        )  # fmt: skip
    return tuple(out)


class Senders:
    """A ring of senders that spread packets over all paths which are not denied.

    `incurable`: share of packets that is lost on any path, from that tick on, whatever is denied.
    """

    def __init__(self, fabric, events=(), incurable=None):
        self.fabric, self.events, self.incurable = fabric, events, incurable or (lambda _tick: 0.0)
        self.version, self.denied = -1, ()
        planes, t1s = np.divmod(np.arange(fabric.planes * fabric.t1_per_plane), fabric.t1_per_plane)
        self.paths = [
            make_paths(PathKind.ONEWAY, n, planes, dst=(n + fabric.nics_per_t0) % fabric.n_nics, t1=t1s)
            for n in range(fabric.n_nics)
        ]
        self.crossed = [links_crossed(fabric, p) for p in self.paths]

    def flows(self, tick):
        return tuple(self._flow(n, tick) for n in range(self.fabric.n_nodes))

    def _flow(self, node, tick):
        crossed = self.crossed[node]
        usable = ~np.isin(crossed, self.denied).any(axis=1)
        sent = np.where(usable, SENT_PER_NODE // max(1, int(usable.sum())), 0).astype(np.int64)
        keep = np.full(len(sent), 1.0 - self.incurable(tick))
        for e in self.events:
            if e.start_s <= tick * TICK_S < e.end_s:
                keep *= (1 - e.fault.rate if e.fault.kind == "loss" else 0.0) ** self._hits(crossed, e.fault)
        lost = np.round(sent * (1 - keep)).astype(np.int64)
        zero = np.zeros_like(sent)
        stats = FlowStats(self.paths[node], sent, zero, lost, zero, (sent - lost) * 1000, zero, zero)
        return FlowReport(node, tick, TICK_S, stats, busbw_bps=1e6, deny_version=self.version)

    def _hits(self, crossed, fault):
        links = links_of(self.fabric, fault.target).astype(np.int64)
        ways = {"up": [2 * links], "down": [2 * links + 1], "both": [2 * links, 2 * links + 1]}[fault.direction]
        return np.isin(crossed, np.concatenate(ways)).sum(axis=1)


class SynthWorld:
    """The keeper's world; ends after `ticks`. `jump` moves the clock: tick of the test -> ticks to add from then on."""

    def __init__(self, fabric, events=(), *, ticks=60, seed=1, incurable=None, jumps=None, skip=0):
        self.fabric, self.ticks, self.jumps = fabric, ticks, jumps or {}
        self.probes = World(fabric, list(events), seed=seed)
        self.senders = Senders(fabric, events, incurable)
        self.at, self.shift = skip, 0
        self.denials = []
        self.asks = []

    def next_tick(self):
        if self.at >= self.ticks:
            return None
        tick = FIRST_TICK + self.at
        self.shift += self.jumps.get(self.at, 0)
        self.at += 1
        return self._shifted(self._tick(tick))

    def _tick(self, tick):
        obs = self.probes.tick(tick)
        ports = obs.ports
        lower, downs = ports.lower.copy(), ports.lower_downs.copy()
        lower[: self.fabric.n_ports], downs[: self.fabric.n_ports] = UNREAD, UNREAD
        confirmed = tuple(
            Confirmation(f"sender/n{n}", self.senders.version, 0, 0)
            for n in range(self.fabric.n_nodes)
            if self.denials and self.senders.version >= 0
        )
        return TickInput(
            tick, reports_of(self.fabric, obs), ports=replace(ports, lower=lower, lower_downs=downs),
            flows=self.senders.flows(tick), confirmations=confirmed,
        )  # fmt: skip

    def _shifted(self, given):
        if not self.shift:
            return given
        to = given.tick + self.shift
        return replace(
            given, tick=to, reports=tuple(replace(r, tick=to) for r in given.reports),
            flows=tuple(replace(r, tick=to) for r in given.flows),
        )  # fmt: skip

    def probe(self, ask):
        self.asks.append(ask)

    def deny(self, version, links):
        self.denials.append((version, tuple(links)))
        self.senders.version, self.senders.denied = version, tuple(links)

    def close(self):
        pass
