"""Proposed probes: they split what is asked, no other path would split it better, and what none can split is said."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from health_worlds import fault, small_fabric

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import PathKind, join_paths, links_crossed
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.fault import Fault
from railkeeper.health.fleet.locate import judge_fleet, new_fleet
from railkeeper.health.locate import judge, new_state
from railkeeper.health.propose import propose_probes
from railkeeper.health.synth import Event, World
from railkeeper.probe.plan import ProbeBudget

FABRIC = small_fabric()
SPARSE = ProbeBudget(agents_per_link=1, peers=0)


def told(target, *others, kind="loss", directions=("both",), rate=0.05, denied=()):
    return Fault(
        key="f", target=target, kind=kind, direction=directions[-1], since_tick=0, status="open", confidence=0.5,
        rate=rate, rate_low=rate, rate_high=rate, delay_ms=math.nan, gbps=math.nan, also_kinds=(),
        directions=directions, indistinguishable=others, evidence=(), network=True, denied_links=denied,
    )  # fmt: skip


def directed(fabric, name, way):
    return 2 * int(fabric.fabric_link(*name)) + way


def test_what_is_clear_needs_no_probes():
    assert len(propose_probes(FABRIC, told("p0/t0-1--p0/t1-2", directions=("up",))).paths) == 0


def test_the_two_directions_of_a_link_are_split_by_one_way_probes():
    p = propose_probes(FABRIC, told("p0/t0-1--p0/t1-2", directions=("up", "down", "both")))
    assert set(p.paths.kind.tolist()) == {PathKind.ONEWAY}
    assert [len(g) for g in p.alike] == [1, 1, 1]
    assert len(p.paths) == 2
    assert (p.packets == 300).all()  # 15 losses at 5%


def test_a_port_and_its_link_are_one_to_any_probe():
    p = propose_probes(FABRIC, told("n6/nic0/p1--p1/t0-1", "n6/nic0/p1"))
    assert len(p.paths) == 0
    assert p.alike == (("n6/nic0/p1--p1/t0-1 both", "n6/nic0/p1"),)


def test_the_pair_that_ring_traffic_can_t_split_is_split_by_one_path():
    up, down = directed(FABRIC, (1, 2), 0), directed(FABRIC, (2, 2), 1)
    f = told("p0/t0-1--p0/t1-2", "p0/t0-2--p0/t1-2", directions=("up",), denied=(up, down))
    p = propose_probes(FABRIC, f)
    assert len(p.paths) == 1
    crossed = links_crossed(FABRIC, p.paths)[0]
    assert (up in crossed) != (down in crossed)


def test_a_class_of_all_uplinks_of_a_t0_is_split_into_single_links():
    names = [f"p0/t0-1--p0/t1-{j}" for j in range(4)]
    denied = tuple(directed(FABRIC, (1, j), 0) for j in range(4))
    p = propose_probes(FABRIC, told(names[0], *names[1:], directions=("up",), denied=denied))
    assert [len(g) for g in p.alike] == [1, 1, 1, 1]
    assert len(p.paths) == 3  # the fourth follows from the others' silence


def test_the_budget_is_kept_and_the_best_go_first():
    fabric = Fabric(parse_spec("[fabric]\nplanes = 1\nt0_per_plane = 4\nt1_per_plane = 16\nnics_per_t0 = 4\n"))
    names = [f"p0/t0-1--p0/t1-{j}" for j in range(16)]
    p = propose_probes(fabric, told(names[0], *names[1:]), budget=5)
    assert len(p.paths) == 5
    assert sum(map(len, p.alike)) == 16


def test_all_planes_of_a_nic_or_one_port():
    p = propose_probes(FABRIC, told("n6/nic0", "n6/nic0/p0", kind="down", rate=math.nan))
    assert len(p.paths) == 1
    assert p.paths.src.tolist() == [6]
    assert p.paths.plane.tolist() == [1]
    assert p.packets.tolist() == [20]


@pytest.mark.parametrize(("begin", "step"), [(new_state, judge), (new_fleet, judge_fleet)])
def test_a_sparse_plan_s_tie_is_split_by_what_is_proposed(begin, step):
    """Bounces alone can't tell the directions of a link apart."""
    injected = fault(FABRIC, "loss", "p0/t0-1--p0/t1-2", "up", rate=0.1)
    world = World(FABRIC, [Event(injected, 2.0)], seed=3, budget=SPARSE)
    far = world.paths.kind == PathKind.FAR_BOUNCE
    world.rate[far] = 1e-9  # far bounces cross each direction on its own: without them it is a tie
    state, faults = begin(FABRIC), ()
    for k in range(40):
        state, faults = step(state, world.tick(k))
    (f,) = faults
    assert len(f.directions) > 1
    p = propose_probes(FABRIC, f)
    n = len(p.paths)
    assert n
    grown = World(FABRIC, world.events, seed=4, budget=SPARSE)
    grown.rate[far] = 1e-9
    _extend(grown, p.paths, rate=20.0)
    for k in range(40, 110):
        state, faults = step(state, grown.tick(k))
    (f,) = faults
    assert (f.target, f.direction, f.directions) == ("p0/t0-1--p0/t1-2", "up", ("up",))


def _extend(world, paths, rate):
    n = len(paths)
    world.paths = join_paths([world.paths, paths])
    world.rate = np.concatenate([world.rate, np.full(n, rate)])
    world.train_rate = np.concatenate([world.train_rate, np.full(n, 1e-9)])
    world.__dict__.update(
        crossed=links_crossed(world.fabric, world.paths), src=world.fabric.node_of(world.paths.src),
        dst=world.fabric.node_of(world.paths.dst),
    )  # fmt: skip
    world.phase = np.concatenate([world.phase, world.rng.random(n)])
    world.train_phase = np.concatenate([world.train_phase, world.rng.random(n)])


def test_a_fault_that_is_not_of_paths_is_not_asked_for():
    f = replace(told("n6", "n6/nic0"), kind="agent-down")
    assert len(propose_probes(FABRIC, f).paths) == 0
