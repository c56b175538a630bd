"""What agents are asked to probe: for ambiguous faults only, late enough, seldom enough, and the same in a replay."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from synthetic_world import SynthWorld, event, make_fabric

from railkeeper.app.asking import AGAIN_S, MOST_AT_ONCE, MOST_TIMES, SETTLE_S, ask_for
from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.health.fault import Fault
from railkeeper.probe.plan import ProbeBudget

FABRIC = make_fabric()
LINK = "p0/t0-1--p0/t1-2"


def told(key="f", target=LINK, directions=("up", "down", "both"), **other):
    f = Fault(
        key=key, target=target, kind="loss", direction="both", since_tick=0, status="open", confidence=0.5, rate=0.1,
        rate_low=0.1, rate_high=0.1, delay_ms=math.nan, gbps=math.nan, also_kinds=(), directions=directions,
        indistinguishable=(), evidence=(), network=True, denied_links=(),
    )  # fmt: skip
    return replace(f, **other)


def asked_over(faults, ticks, tick_s=0.5):
    asked, out = {}, []
    for tick in range(ticks):
        asked, asks = ask_for(FABRIC, faults, asked, tick, tick_s)
        out += [(tick, a) for a in asks]
    return asked, out


def test_a_clear_fault_and_one_that_is_over_ask_nothing():
    clear = told(directions=("up",))
    for f in (clear, told(status="clearing"), told(network=False)):
        assert asked_over([f], 20) == ({}, [])


def test_it_is_asked_after_a_while_again_after_longer_and_not_for_ever():
    _, out = asked_over([told()], 1000)
    first, again = round(SETTLE_S / 0.5), round(AGAIN_S / 0.5)
    assert sorted({t for t, _ in out}) == [first + i * again for i in range(MOST_TIMES)]
    assert all((FABRIC.node_of(a.paths.src) == a.node).all() for _, a in out)
    assert sum(len(a.paths) for t, a in out if t == first) == 2
    assert all(a.rate <= 50 for _, a in out)


def test_many_faults_are_asked_for_a_few_at_a_time():
    many = [told(key=str(i), target=f"p0/t0-{i % 2}--p0/t1-{i // 2 % 4}") for i in range(10)]
    _, out = asked_over(many, 7)
    per_tick = np.bincount([t for t, _ in out])
    assert per_tick.max() <= MOST_AT_ONCE * 4
    assert len({t for t, _ in out}) == 3


def test_a_fault_that_is_gone_is_forgotten():
    asked, _ = asked_over([told()], 5)
    assert ask_for(FABRIC, [], asked, 5, 0.5) == ({}, ())


def test_the_keeper_asks_the_world():
    """Bounces alone leave the direction open; the same inputs ask the same."""
    fabric = make_fabric()
    runs = []
    for _ in range(2):
        world = SynthWorld(fabric, [event(fabric, 6, 60, kind="loss", target=LINK, direction="up", rate=0.1)], ticks=40)
        world.probes.budget = ProbeBudget(peers=0)
        world.probes.__post_init__()
        world.probes.rate[world.probes.paths.kind == 2] = 1e-9
        keeper = Keeper(Setup(fabric, "lab"), world)
        keeper.run(lambda *_: True)
        assert len(keeper.state.faults[0].directions) > 1
        runs.append([(a.node, a.paths.key().tolist(), a.rate, a.seconds) for a in world.asks])
    assert runs[0] == runs[1]
    assert runs[0]
