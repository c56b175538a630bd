"""Agents on real packets: what they report of a sound fabric and of broken ones."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections import defaultdict

import numpy as np
import pytest
from probe_fabrics import fabric

from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.paths import PathKind, links_crossed
from railkeeper.lab import names, netns
from railkeeper.lab.build import build
from railkeeper.lab.capability import check_capability
from railkeeper.lab.crew import Crew
from railkeeper.lab.faults import Injector
from railkeeper.probe import bench
from railkeeper.probe.agent import AgentConfig, run_agent
from railkeeper.probe.join import join_reports
from railkeeper.probe.link import Hub
from railkeeper.probe.pathstats import decode_report, join_stats

pytestmark = pytest.mark.lab

F = fabric(planes=2, t0=2, t1=2, nics=2)


class Watch:
    """A keeper that only listens: ticks joined, in order."""

    def __init__(self, hub):
        self.hub = hub
        self.reports = defaultdict(dict)

    def listen(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for m in self.hub.poll(0.05):
                if m.type == "tick":
                    r = decode_report(m.body)
                    self.reports[r.tick][r.node] = r
                    self.hub.ack(m)

    def ticks(self, n, *, nodes=F.n_nodes, patience_s=20.0):
        """The next n ticks that begin from now on and of which `nodes` agents report."""
        first = int(time.time() / 0.5) + 1
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            self.listen(0.1)
            whole = [t for t in sorted(self.reports) if t >= first and len(self.reports[t]) >= nodes]
            if len(whole) >= n:
                return [join_reports(F, list(self.reports[t].values())) for t in whole[:n]]
        raise AssertionError(f"no {n} ticks of {nodes} agents")


@pytest.fixture(scope="module")
def lab():
    try:
        check_capability()
    except CapabilityError as e:
        pytest.skip(str(e))
    with build(F, f"p{os.getpid()}") as lab:
        yield lab


@pytest.fixture(scope="module")
def watch(lab, tmp_path_factory):
    endpoint = f"ipc://{tmp_path_factory.mktemp('hub')}/k"
    hub = Hub(endpoint)
    lab.crew = crew = Crew(lab, preload=["railkeeper.probe.agent"])
    for n in range(F.n_nodes):
        ports = range(n * F.planes, (n + 1) * F.planes)
        config = AgentConfig(F, n, endpoint, tuple(names.nic_interface(F, p) for p in ports))
        crew.start("agent", n, run_agent, config)
    watch = Watch(hub)
    watch.ticks(1)
    yield watch
    crew.stop()
    watch.hub.close()


@pytest.fixture
def inject(lab):
    injector = Injector(lab, lab.crew)

    def do(kind, target, direction="both", **numbers):
        data = {"id": "f", "kind": kind, "target": target, "direction": direction, **numbers}
        injector.inject(parse_fault(F, data, where="test"))

    yield do
    injector.close()


def evidence(watch, n=4, **how):
    return join_stats([j.stats for j in watch.ticks(n, **how)])


def crossing(stats, target, directions=(0, 1)):
    link = parse_name(F, target).id
    return np.isin(links_crossed(F, stats.paths), [2 * link + d for d in directions]).any(axis=1)


def lost(stats):
    return stats.sent - stats.received


def test_a_sound_fabric_loses_nothing_and_every_link_is_seen(watch):
    stats = evidence(watch)

    assert lost(stats).sum() == 0
    assert stats.corrupt.sum() == stats.duplicate.sum() == 0
    assert (stats.received[stats.paths.kind == PathKind.T0_BOUNCE] > 10).all()
    assert set(np.unique(links_crossed(F, stats.paths))) == set(range(-1, 2 * F.n_links))
    assert (stats.paths.kind == PathKind.ONEWAY).any()
    assert np.nanmedian(stats.train_bps) > 50e6


def test_ports_are_reported(watch):
    watch.ticks(1)
    newest = watch.reports[max(watch.reports)]

    assert all(r.port_state == (1, 1) and min(r.port_downs) >= 0 for r in newest.values())


@pytest.mark.parametrize(("direction", "side"), [("up", 0), ("down", 1)])
def test_loss_in_one_direction_is_seen_on_exactly_the_paths_that_cross_it(watch, inject, direction, side):
    target = "p0/t0-0--p0/t1-1"
    inject("loss", target, direction, rate=0.5)
    stats = evidence(watch)
    hit = crossing(stats, target, (side,))

    assert lost(stats)[~hit].sum() == 0
    assert 0.3 < lost(stats)[hit].sum() / stats.sent[hit].sum() < 0.7
    oneway = stats.paths.kind == PathKind.ONEWAY
    assert lost(stats)[oneway & crossing(stats, target, (1 - side,)) & ~hit].sum() == 0


def test_damage_is_put_to_its_paths(watch, inject):
    target = "n1/nic0/p1--p1/t0-0"
    inject("corrupt", target, "up", rate=0.3)
    stats = evidence(watch)
    hit = crossing(stats, target, (0,))

    assert stats.corrupt[~hit].sum() == 0
    assert stats.corrupt[hit].sum() > 50
    assert (stats.corrupt + stats.received == stats.sent).all()


def test_delay_moves_the_least_delay(watch, inject):
    target = "p1/t0-1--p1/t1-0"
    inject("delay", target, "down", ms=20)
    stats = evidence(watch)
    hit = crossing(stats, target, (1,))

    assert (stats.delay_min_ns[hit & (stats.received > 0)] > 19e6).all()
    assert (stats.delay_min_ns[~hit] < 15e6).mean() > 0.95  # the rest: few probes and a busy machine


def test_a_delay_beyond_the_grace_is_told_by_late_arrivals(watch, inject):
    target = "p1/t0-1--p1/t1-0"
    inject("delay", target, "up", ms=900)
    watch.ticks(4)
    stats = evidence(watch, 3)
    hit = crossing(stats, target, (0,)) & (stats.paths.kind == PathKind.T1_BOUNCE)

    assert stats.received[hit].sum() == 0
    assert (stats.delay_min_ns[hit] > 890e6).all()
    assert (stats.delay_min_ns[hit] < 10e9).mean() > 0.8


def test_a_slow_link_shows_in_trains(watch, inject):
    target = "p0/t0-1--p0/t1-0"
    inject("slow", target, "up", gbps=50)  # 10 Mbit/s in the lab
    watch.ticks(1)
    stats = evidence(watch, 6)
    hit = crossing(stats, target, (0,))

    assert 8e6 < np.nanmax(stats.train_bps[hit]) < 10.6e6
    rest = stats.train_bps[~hit]
    assert np.nanmedian(rest) > 50e6


def test_a_port_that_is_down_is_no_loss_of_its_path_but_a_port_state(watch, inject):
    target = "n0/nic0/p0--p0/t0-0"
    inject("down", target)
    watch.ticks(1)
    stats = evidence(watch, 2)
    mine = (stats.paths.src == 0) & (stats.paths.plane == 0)
    newest = max(t for t in watch.reports if 0 in watch.reports[t])

    assert stats.sent[mine].sum() == 0
    assert watch.reports[newest][0].port_state == (0, 1)
    assert watch.reports[newest][0].unsent == 0
    to_it = (stats.paths.dst == 0) & (stats.paths.plane == 0) & ~mine
    assert stats.received[to_it].sum() == 0 < stats.sent[to_it].sum()
    assert lost(stats)[~mine & ~to_it].sum() == 0


def test_a_killed_agent_is_silence_and_no_loss_and_comes_back(lab, watch):
    lab.crew.kill("agent", 2)
    watch.listen(1.5)
    joined = watch.ticks(2, nodes=F.n_nodes - 1)

    assert all(j.silent == (2,) for j in joined)
    assert all(lost(j.stats).sum() == 0 for j in joined)
    lab.crew.restart("agent", 2)
    joined = watch.ticks(3)
    assert all(j.silent == () and lost(j.stats).sum() == 0 for j in joined)


def test_a_stopped_agent_loses_nothing_that_its_socket_holds(lab, watch):
    pid = lab.crew.alive()["agent", 1]
    os.kill(pid, signal.SIGSTOP)
    watch.listen(1.2)
    os.kill(pid, signal.SIGCONT)
    watch.listen(1.0)
    last = max(watch.reports)
    joined = [join_reports(F, list(watch.reports[t].values())) for t in range(last - 4, last)]

    assert sum(lost(j.stats).sum() for j in joined) == 0


def test_a_keeper_that_was_away_gets_what_it_missed(lab, watch):
    endpoint = watch.hub.endpoint
    before = max(watch.reports)
    watch.hub.close()
    time.sleep(2.0)
    watch.hub = Hub(endpoint)
    watch.ticks(2)

    assert all(len(watch.reports[t]) == F.n_nodes for t in range(before - 1, max(watch.reports) - 2))
    assert all(r.ticks_dropped == 0 for t in watch.reports for r in watch.reports[t].values())


@pytest.mark.parametrize("method", bench.METHODS)
def test_benchmark_judges_all_that_it_sends(lab, method):
    interfaces = [names.nic_interface(F, p) for p in range(F.planes)]
    enter = functools.partial(netns.enter, names.node_ns(lab.prefix, 0))
    figures = bench.run(F, enter, interfaces, methods=[method], seconds=0.2, batch=96)

    assert [f.route.count("T") for f in figures] == [1, 3, 5, 4]
    assert all(f.sent > 0 and f.judged == f.sent and f.lost == 0 for f in figures)


def test_benchmark_says_what_failed(lab):
    with pytest.raises(OutsideError, match="nowhere"):
        bench.run(F, functools.partial(netns.enter, "nowhere"), ["a", "b"], seconds=0.1)


def test_wrong_settings_are_named():
    with pytest.raises(InputError, match="interfaces"):
        AgentConfig(F, 0, "ipc:///nowhere", ("a",))
    with pytest.raises(InputError, match="node"):
        AgentConfig(F, 99, "ipc:///nowhere", ("a", "b"))
