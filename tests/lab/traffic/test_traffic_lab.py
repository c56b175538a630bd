"""The traffic on real packets: it flows, routes around what breaks, obeys denials, and outlives its keeper and nodes."""

import os
import signal
import time
from collections import defaultdict

import numpy as np
import pytest
from lab_packets import fabric_of, fault

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name
from railkeeper.lab import names
from railkeeper.lab.crew import Crew
from railkeeper.lab.faults import Injector
from railkeeper.lab.traffic.config import TrafficConfig
from railkeeper.lab.traffic.evstate import State
from railkeeper.lab.traffic.flowstats import decode_flows
from railkeeper.lab.traffic.node import run_sender
from railkeeper.probe.link import Hub

pytestmark = pytest.mark.lab
PATIENCE_S = 20


class Traffic:
    """A lab with traffic, and the keeper's end of its line."""

    def __init__(self, lab, folder, **settings):
        self.lab, self.fabric = lab, lab.fabric
        self.endpoint = f"ipc://{folder}/hub"
        self.hub = Hub(self.endpoint)
        self.crew = Crew(lab, preload=["railkeeper.lab.traffic.node"])
        self.injector = Injector(lab, self.crew)
        self.version = 0
        self.last = {}
        self.seen = []
        self.answers = {}
        width = self.fabric.nics_per_node * self.fabric.planes
        for n in range(self.fabric.n_nodes):
            ports = tuple(names.nic_interface(self.fabric, n * width + p) for p in range(width))
            config = TrafficConfig(self.fabric, n, keeper=self.endpoint, interfaces=ports, **settings)
            self.crew.start("sender", n, run_sender, config)

    def poll(self):
        for m in self.hub.poll(0.05):
            if m.type == "flows":
                report = decode_flows(m.body)
                self.hub.ack(m)
                self.last[report.node] = report
                self.seen.append(report)
            elif m.type == "denied":
                self.answers[m.name] = m.data

    def until(self, condition):
        """Poll until the condition holds; return whether it did."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.poll()
            if len(self.last) == self.fabric.n_nodes and condition():
                return True
        return False

    def watch(self, seconds):
        """Return sums over the reports of the next seconds."""
        self.seen.clear()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.poll()
        sums = defaultdict(int)
        for r in self.seen:
            for column in ("sent", "retransmitted", "lost", "spurious", "delivered_bytes"):
                sums[column] += int(getattr(r.stats, column).sum())
            for count in ("unanswered", "refused", "corrupt", "duplicate", "stray"):
                sums[count] += getattr(r, count)
        return sums

    def steps(self):
        return min(r.steps for r in self.last.values())

    def flows(self, steps=3):
        """Return whether the ring goes round: some steps more at every node."""
        target = self.steps() + steps
        return self.until(lambda: self.steps() >= target)

    def deny(self, *targets):
        self.version += 1
        links = [int(x) for t in targets for x in links_of(self.fabric, parse_name(self.fabric, t))]
        self.hub.deny(self.version, [2 * x + d for x in links for d in (0, 1)])
        return self.until(lambda: all(r.deny_version == self.version for r in self.last.values()))

    def states(self):
        return np.concatenate([r.stats.state for r in self.last.values()])

    def all_good(self):
        return (self.states() == State.GOOD).all()

    def break_it(self, **fields):
        self.injector.inject(fault(self.fabric, **fields))

    def mend(self):
        self.injector.clear("f")

    def close(self):
        self.crew.stop()
        self.hub.close()


@pytest.fixture
def run(make_lab, tmp_path):
    """Start traffic over a fabric of one's own."""
    running = []

    def start(settings=None, **shape):
        fields = {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 3, "nics_per_t0": 2} | shape
        running.append(Traffic(make_lab(fabric_of(**fields)), tmp_path, **(settings or {})))
        assert running[-1].until(lambda: running[-1].steps() >= 1)
        return running[-1]

    yield start
    for traffic in running:
        traffic.close()


def test_a_quiet_ring_loses_nothing_and_loads_planes_alike(run):
    t = run()
    sums = t.watch(3)
    assert sums["sent"] > 500
    assert sums["lost"] - sums["spurious"] == sums["stray"] == sums["corrupt"] == 0
    assert sums["delivered_bytes"] > 500 * 952
    planes = np.concatenate([r.stats.paths.plane for r in t.seen])
    sent = np.bincount(planes, weights=np.concatenate([r.stats.sent for r in t.seen]))
    assert abs(sent[0] - sent[1]) < 0.1 * sent.sum()


def test_several_nics_a_node_each_use_their_own_ports(run):
    t = run(nics_per_node=2)
    sources = np.concatenate([r.stats.paths.src for r in t.last.values()])
    assert set(sources) == {0, 1, 2, 3}
    assert t.flows()


def test_rails_have_a_ring_each(run):
    t = run(nics_per_node=2, rails=2, nics_per_t0=1)
    assert t.flows()
    assert t.watch(1)["stray"] == 0


def test_a_black_hole_is_left_by_the_transport_alone_and_comes_back(run):
    t = run()
    t.break_it(kind="blackhole", target="p1/t1-0")
    assert t.until(lambda: (t.states() == State.ASSUMED_BAD).sum() >= 4)
    t.watch(1)
    assert t.watch(2)["lost"] <= 2
    assert t.flows()
    t.mend()
    assert t.until(t.all_good)


def test_a_denial_takes_the_loss_away_and_lifting_gives_the_paths_back(run):
    t = run()
    t.break_it(kind="loss", target="p0/t0-0--p0/t1-1", rate=0.3)
    before = t.watch(3)
    assert before["lost"] > before["spurious"]
    assert t.deny("p0/t0-0--p0/t1-1")
    assert all(a["paths"] == 1 and not a["refused"] for a in t.answers.values())
    t.watch(1)  # what was on its way
    after = t.watch(3)
    assert after["lost"] - after["spurious"] == 0
    t.mend()
    assert t.deny()
    assert not (t.states() == State.DENIED).any()


def test_a_denial_of_everything_stops_at_the_floor(run):
    t = run()
    assert t.deny("p0/t1-0", "p0/t1-1", "p0/t1-2", "p1/t1-0", "p1/t1-1", "p1/t1-2")
    assert all(a["refused"] == 1 for a in t.answers.values())
    assert all((r.stats.state == State.GOOD).sum() == 1 for r in t.last.values())
    assert t.flows()


def test_a_dead_port_moves_its_nics_traffic_to_the_other_plane(run):
    t = run()
    t.break_it(kind="down", target="n1/nic0/p0")
    assert t.until(lambda: set(t.last[1].stats.state[:3]) == {State.ASSUMED_BAD})
    assert t.flows()
    t.mend()
    assert t.until(t.all_good)


def test_damaged_data_counts_as_corrupt_and_is_sent_again(run):
    t = run()
    t.break_it(kind="corrupt", target="p0/t1-0", rate=0.5)
    sums = t.watch(3)
    assert sums["corrupt"] > 0
    assert sums["retransmitted"] > 0
    assert t.flows()


def test_a_dead_node_halts_the_ring_without_path_loss_and_the_ring_goes_on_after(run):
    t = run()
    t.break_it(kind="node-down", target="n2")
    nodes = [0, 1, 3]
    assert t.until(lambda: sum(t.last[n].silent_peers for n in nodes) == 1)
    assert (np.concatenate([t.last[n].stats.state for n in nodes]) == State.GOOD).all()
    steps = t.steps()
    t.mend()
    assert t.until(lambda: t.steps() >= steps + 3)


def test_a_killed_sender_goes_on_where_it_was(run):
    t = run()
    assert t.flows()
    steps = t.steps()
    t.crew.kill("sender", 1)
    t.crew.restart("sender", 1)
    assert t.until(lambda: steps + 3 <= t.steps() < steps + 3000)


def test_the_keeper_may_go_and_come_back(run):
    t = run()
    assert t.deny("p0/t1-0")
    t.hub.close()
    steps = t.steps()
    time.sleep(2)
    t.hub = Hub(t.endpoint)
    t.hub.deny(77, [])
    assert t.until(lambda: all(r.deny_version == 77 for r in t.last.values()))
    assert t.steps() > steps  # it went on meanwhile
    ticks = sorted(r.tick for r in t.seen if r.node == 0)
    assert set(np.diff(sorted(set(ticks)))) == {1}  # and nothing of that time is missing


def test_it_stops_when_told(run):
    t = run()
    pids = t.crew.alive()
    os.kill(pids["sender", 0], signal.SIGTERM)
    assert t.until(lambda: ("sender", 0) not in t.crew.alive())
