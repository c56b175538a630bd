"""The fleet locator on small fabrics: every kind of fault, the same answers as the dense locator, and silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from health_worlds import START_S, fault, is_same, small_fabric
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.fabric.faults import parse_fault
from railkeeper.health.fault import LocatorConfig
from railkeeper.health.fleet.locate import judge_fleet, new_fleet
from railkeeper.health.locate import judge, new_state
from railkeeper.health.synth import Event, Noise, World

FABRIC = small_fabric()
CASES = [
    {"kind": "loss", "target": "p0/t0-1--p0/t1-2", "direction": "up", "rate": 0.01},
    {"kind": "loss", "target": "n6/nic0/p1--p1/t0-1", "direction": "both", "rate": 0.01},
    {"kind": "loss", "target": "n6", "direction": "down", "rate": 0.01},
    {"kind": "loss", "target": "p0/t1-3", "direction": "up", "rate": 0.01},
    {"kind": "loss", "target": "p1/t0-2/optic0", "direction": "both", "rate": 0.01},
    {"kind": "corrupt", "target": "p1/t0-2/optic1", "direction": "up", "rate": 0.03},
    {"kind": "slow", "target": "p0/t0-1--p0/t1-2", "direction": "up", "gbps": 5.0},
    {"kind": "slow", "target": "n6/nic0", "direction": "up", "gbps": 50.0},
    {"kind": "slow", "target": "p1/t0-2", "direction": "both", "gbps": 50.0},
    {"kind": "delay", "target": "n6/nic0/p1--p1/t0-1", "direction": "up", "ms": 1.0},
    {"kind": "delay", "target": "p0/t1-3", "direction": "down", "ms": 1.0},
    {"kind": "down", "target": "n6/nic0/p1--p1/t0-1"},
    {"kind": "down", "target": "p1/t0-2"},
    {"kind": "blackhole", "target": "p0/t1-3"},
]


def _watch(world, seconds, state=None, until=None):
    """Run a world; returns the state, all faults by key as last told, and the seconds at `until`."""
    state, told, tick = state or new_fleet(world.fabric), {}, 0
    while tick * world.tick_s < seconds:
        state, faults = judge_fleet(state, world.tick(tick))
        told |= {f.key: f for f in faults}
        if until and any(until(f) for f in faults if f.status != "cleared"):
            break
        tick += 1
    return state, told, tick * world.tick_s


@pytest.mark.parametrize("data", CASES, ids=lambda d: "-".join(map(str, d.values())))
def test_fault_is_located_alone_and_cleared(data):
    injected = parse_fault(FABRIC, {"id": "f", **data}, where="test")
    world = World(FABRIC, [Event(injected, START_S)], seed=len(str(data)))
    state, told, at = _watch(world, START_S + 20, until=lambda f: is_same(FABRIC, f, injected))
    assert [is_same(FABRIC, f, injected) for f in told.values()] == [True], told
    world.events[0] = Event(injected, START_S, at + 0.2)
    tick, last = round(at / world.tick_s), ()
    for k in range(tick + 1, tick + 90):
        state, last = judge_fleet(state, world.tick(k))
        told |= {f.key: f for f in last}
    assert [f.status for f in told.values()] == ["cleared"], told
    assert not last


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_both_locators_say_the_same_of_random_faults(seed):
    rng = np.random.default_rng(seed)
    f = FABRIC
    links = [f"p{p}/t0-{i}--p{p}/t1-{j}" for p in range(2) for i in range(4) for j in range(4)]
    targets = [*links, *(f"n{n}/nic0" for n in range(16)), "p0/t0-1", "p1/t1-2", "p1/t0-3/optic0"]
    kind, numbers = [("loss", {"rate": 0.05}), ("corrupt", {"rate": 0.05}), ("delay", {"ms": 3.0}), ("down", {})][
        int(rng.integers(4))
    ]
    injected = fault(f, kind, targets[int(rng.integers(len(targets)))], **numbers)
    answers = []
    for begin, step in ((new_state, judge), (new_fleet, judge_fleet)):
        world, state = World(f, [Event(injected, 3.1)], seed=seed, ports=False), begin(f)
        for k in range(50):
            state, faults = step(state, world.tick(k))
        answers.append([(x.target, x.kind, is_same(f, x, injected)) for x in faults if x.status != "cleared"])
    dense, fleet = answers
    assert [x[2] for x in dense] == [True]
    assert fleet == dense


def test_several_faults_at_once():
    faults = [
        fault(FABRIC, "loss", "p0/t0-0--p0/t1-0", rate=0.03),
        fault(FABRIC, "down", "p1/t0-2--p1/t1-1"),
        fault(FABRIC, "corrupt", "n13/nic0/p1--p1/t0-3", rate=0.05),
        fault(FABRIC, "delay", "p0/t0-3--p0/t1-3", ms=4.0),
    ]
    _, told, _ = _watch(World(FABRIC, [Event(x, 2.1) for x in faults], seed=5), 25)
    assert len(told) == 4, [(t.kind, t.target, t.direction, t.status, t.since_tick) for t in told.values()]
    assert all(any(is_same(FABRIC, t, x) for t in told.values()) for x in faults), told


def test_a_quiet_quarter_of_an_hour_with_noise_is_quiet():
    world = World(FABRIC, seed=11, noise=Noise(loss=2e-4, slowed=3.0, hiccup=0.002))
    _, told, _ = _watch(world, 900)
    assert not told, [(t.kind, t.target, t.direction, t.status, t.since_tick, t.evidence) for t in told.values()]


def test_low_loss_is_found_in_time_and_its_rate_is_right():
    injected = fault(FABRIC, "loss", "p0/t0-1--p0/t1-2", rate=0.002)
    _state, told, at = _watch(
        World(FABRIC, [Event(injected, 2.0)], seed=4), 240, until=lambda f: is_same(FABRIC, f, injected)
    )
    assert [is_same(FABRIC, f, injected) for f in told.values()] == [True]
    assert at < 120


def test_rows_that_are_missing_are_no_loss_and_an_agent_away_is_no_fault_of_the_network():
    away = fault(FABRIC, "agent-down", "n6")
    _, told, _ = _watch(World(FABRIC, [Event(away, 4.0, 12.0)], seed=2), 20)
    assert [(f.kind, f.target, f.network, f.status) for f in told.values()] == [("agent-down", "n6", False, "cleared")]


def test_losses_of_an_unclean_agent_are_its_own():
    world = World(FABRIC, [Event(fault(FABRIC, "loss", "n6/nic0", rate=0.3), 2.0)], seed=2)
    state, told = new_fleet(FABRIC), {}
    for k in range(40):
        state, faults = judge_fleet(state, replace(world.tick(k), unclean=(6,)))
        told |= {f.key: f for f in faults}
    assert not told, [(t.kind, t.target, t.direction, t.status, t.since_tick, t.evidence) for t in told.values()]


def test_an_empty_tick_says_nothing_and_the_open_fault_stays():
    injected = fault(FABRIC, "loss", "p0/t0-1--p0/t1-2", rate=0.1)
    world = World(FABRIC, [Event(injected, 1.0)], seed=2)
    state = new_fleet(FABRIC)
    for k in range(20):
        state, faults = judge_fleet(state, world.tick(k))
    assert [f.status for f in faults] == ["open"]
    for k in range(20, 60):
        seen = world.tick(k)
        state, faults = judge_fleet(state, replace(seen, stats=seen.stats.take(slice(0, 0))))
    assert [f.status for f in faults] == ["open"]


def test_clocks_that_do_not_agree_are_no_delay():
    world = World(FABRIC, seed=3, clocks_ms=50.0)
    _, told, _ = _watch(world, 20, state=new_fleet(FABRIC, LocatorConfig(common_clock=False)))
    assert not told, [(t.kind, t.target, t.direction, t.status, t.since_tick, t.evidence) for t in told.values()]


def test_the_same_observations_give_the_same_faults():
    injected = [fault(FABRIC, "loss", "p0/t0-1", rate=0.02), fault(FABRIC, "slow", "n3/nic0/p1", gbps=10.0)]
    runs = []
    for _ in range(2):
        world = World(FABRIC, [Event(x, 2.0) for x in injected], seed=9)
        state, out = new_fleet(FABRIC), []
        for k in range(40):
            state, faults = judge_fleet(state, world.tick(k))
            out.append(repr(faults))
        runs.append(out)
    assert runs[0] == runs[1]
