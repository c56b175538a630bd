"""What an operator is told while faults begin, change, overlap, heal, and while agents and keepers come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from health_worlds import START_S, Story, fault, is_same, small_fabric, story

from railkeeper.health.fault import LocatorConfig, Observation
from railkeeper.health.locate import judge, new_state, seed_state
from railkeeper.health.synth import Event, Noise, World
from railkeeper.probe.pathstats import empty_stats
from railkeeper.telemetry.ports import unread_ports

LINK = "p0/t0-1--p0/t1-2"


@pytest.mark.parametrize("offset_s", [0.0, 0.05, 0.2, 0.35, 0.49])
@pytest.mark.parametrize("direction", ["up", "both"])
def test_death_in_the_middle_of_a_tick_is_never_told_as_loss(offset_s, direction):
    fabric = small_fabric()
    down = fault(fabric, "down", LINK, direction)
    s = Story(World(fabric, [Event(down, 6.0 + offset_s)], seed=3)).run_until(14)
    assert s.rows == [("down", LINK, direction, "open")]
    assert next(iter(s.first_s.values())) - 6.0 - offset_s <= 2.0


@pytest.mark.parametrize("target", ["p0/t0-2", "n5/nic0", "p0/t1-1"])
def test_heavy_loss_on_a_large_part_is_not_told_as_many_dead_links(target):
    fabric = small_fabric()
    lossy = fault(fabric, "loss", target, "both", rate=0.8)
    s = story(fabric, lossy, seed=5).run_until(20)
    assert [is_same(fabric, f, lossy) for f in s.open] == [True]
    assert len(s.told) == 1


def test_rate_follows_a_change():
    fabric = small_fabric()
    events = [Event(fault(fabric, "loss", LINK, "up", rate=0.02), 6.1, 20.0)]
    events.append(Event(fault(fabric, "loss", LINK, "up", rate=0.3), 20.0))
    s = Story(World(fabric, events, seed=2)).run_until(18)
    (before,) = s.open
    assert before.rate_low <= 0.02 <= before.rate_high
    (after,) = s.run_until(30).open
    assert after.key == before.key
    assert after.rate_low <= 0.3 <= after.rate_high


def test_rate_interval_covers_the_truth():
    fabric = small_fabric()
    covered = 0
    for seed in range(20):
        s = story(fabric, fault(fabric, "loss", "p0/t0-1", "both", rate=0.03), seed=seed).run_until(12)
        (f,) = s.open
        covered += f.rate_low <= 0.03 <= f.rate_high
    assert covered >= 16


def test_flap_keeps_one_key_and_is_told_as_down_first():
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "flap", LINK, "both", down_s=1.0, up_s=2.0)).run_until(25)
    assert len(s.told) == 1
    kinds = [row[0] for row in s.rows]
    assert kinds[0] == "down"
    assert kinds[-1] == "flap"


@pytest.mark.parametrize("ports", [True, False])
def test_flap_with_long_pauses_is_one_fault(ports):
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "flap", LINK, "up", down_s=1.0, up_s=4.0), ports=ports).run_until(30)
    assert len(s.told) == 1
    assert [f.kind for f in s.open] == ["flap"]


def test_optic_that_stays_dark_becomes_down():
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "down", "p1/t0-2/optic1", "both"))
    assert [(f.kind, f.also_kinds) for f in s.run_until(START_S + 3).open] == [("optic", ("down",))]
    assert [(f.kind, f.also_kinds) for f in s.run_until(START_S + 12).open] == [("down", ("optic",))]
    assert len(s.told) == 1


def test_second_fault_begins_while_the_first_is_open():
    fabric = small_fabric()
    first, second = fault(fabric, "loss", "p0/t1-2", "both", rate=0.05), fault(fabric, "down", LINK, "both")
    s = Story(World(fabric, [Event(first, 6.1), Event(second, 20.3, 40.0)], seed=4)).run_until(30)
    assert sorted(is_same(fabric, f, first) or is_same(fabric, f, second) for f in s.open) == [True, True]
    assert [is_same(fabric, f, first) for f in s.run_until(60).open] == [True]
    assert len(s.told) == 2


def test_switch_dies_while_one_of_its_links_is_down():
    fabric = small_fabric()
    link, switch = fault(fabric, "down", LINK, "both"), fault(fabric, "blackhole", "p0/t1-2")
    s = Story(World(fabric, [Event(link, 6.1), Event(switch, 20.3, 40.0)], seed=4)).run_until(30)
    assert {(f.kind, f.target) for f in s.open} == {("down", LINK), ("blackhole", "p0/t1-2")}
    assert [(f.kind, f.target) for f in s.run_until(60).open] == [("down", LINK)]


def test_lossy_switch_heals_but_one_link_stays_lossy():
    fabric = small_fabric()
    events = [Event(fault(fabric, "loss", "p0/t1-2", "both", rate=0.1), 6.1, 25.0)]
    events.append(Event(fault(fabric, "loss", LINK, "both", rate=0.1), 25.0))
    s = Story(World(fabric, events, seed=4)).run_until(50)
    assert [(f.kind, f.target) for f in s.open] == [("loss", LINK)]


def test_healed_fault_is_not_told_again_from_old_evidence():
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "loss", "p0/t0-2", "up", rate=0.3), end_s=16.2).run_until(90)
    assert not s.open
    assert len(s.told) == 1


# -- agents --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
def test_agents_that_restart_are_no_fault(seed):
    """A receiver that began to listen in the middle of a tick has missed probes that were sent to it."""
    fabric = small_fabric()
    world, s = World(fabric, seed=seed), Story(World(fabric, seed=seed))
    for tick in range(60):
        seen = world.tick(tick)
        if tick in {20, 21, 30, 40, 41, 42}:
            node = 3 + tick // 10
            mine = (world.src[: len(seen.stats)] != node) & (world.dst[: len(seen.stats)] != node)
            seen = replace(seen, stats=seen.stats.take(mine), silent=(node,))
        if tick in {22, 31, 43}:
            node = 3 + tick // 10
            received = seen.stats.received.copy()
            received[world.dst == node] //= 3
            seen = replace(seen, stats=replace(seen.stats, received=received))
        s.observe(seen)
    assert not s.told


def test_agent_away_is_no_fault_of_the_network():
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "agent-down", "n6"), end_s=15.0).run_until(12)
    (away,) = s.open
    assert (away.kind, away.network, away.denied_links) == ("agent-down", False, ())
    assert not s.run_until(20).open


def test_all_agents_silent_is_told_late():
    fabric = small_fabric()
    s = Story(World(fabric, seed=1)).run_until(6)
    nothing = Observation(0, empty_stats(s.world.paths.take(slice(0, 0))), unread_ports(fabric), tuple(range(16)))
    for _ in range(10):
        assert not s.observe(replace(nothing, tick=s.tick))
    for _ in range(15):
        s.observe(replace(nothing, tick=s.tick))
    assert {f.kind for f in s.open} == {"agent-down"}


def test_no_data_is_not_health():
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "loss", LINK, "up", rate=0.1), end_s=12.0).run_until(12)
    (before,) = s.open
    nothing = Observation(0, empty_stats(s.world.paths.take(slice(0, 0))), unread_ports(fabric), tuple(range(16)))
    for _ in range(200):
        s.observe(replace(nothing, tick=s.tick))
    assert before.key in {f.key for f in s.open}


# -- without port states ---------------------------------------------------------------------------------
def test_without_port_states_the_part_is_right_and_the_kinds_are_listed():
    fabric = small_fabric()
    for kind, target in (("down", "p0/t1-2"), ("blackhole", "p1/t0-2"), ("down", "n6/nic0"), ("down", LINK)):
        s = story(fabric, fault(fabric, kind, target), ports=False).run_until(12)
        (f,) = s.open
        assert target in {f.target, *f.indistinguishable}
        assert kind in {f.kind, *f.also_kinds}


# -- keeper restarts ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "target", "numbers"),
    [
        ("loss", LINK, {"rate": 0.05}),
        ("down", "p0/t1-2", {}),
        ("blackhole", "p1/t0-2", {}),
        ("delay", "n6/nic0/p1", {"ms": 5.0}),
        ("slow", LINK, {"gbps": 10.0}),
        ("agent-down", "n6", {}),
        ("node-down", "n6", {}),
        ("flap", LINK, {"down_s": 1.0, "up_s": 2.0}),
    ],
)
def test_restarted_keeper_goes_on_with_open_faults(kind, target, numbers):
    fabric = small_fabric()
    injected = fault(fabric, kind, target, **numbers)
    s = story(fabric, injected, end_s=40.0).run_until(16)
    (before,) = s.open
    s.state = seed_state(new_state(fabric, s.config), [before])
    s.run_until(30)
    assert [f.key for f in s.open] == [before.key]
    assert not s.run_until(75).open
    assert list(s.told) == [before.key]


def test_restarted_keeper_clears_what_has_healed_meanwhile():
    fabric = small_fabric()
    s = story(fabric, fault(fabric, "blackhole", "p0/t1-2"), end_s=16.0).run_until(16)
    s.state = seed_state(new_state(fabric, s.config), s.open)
    s.tick = 60
    assert not s.run_until(40).open
    assert s.rows[-1] == ("blackhole", "p0/t1-2", "both", "cleared")


def test_same_observations_give_the_same_faults():
    fabric = small_fabric()
    events = [Event(fault(fabric, "loss", "p0/t0-2", "up", rate=0.05), 6.1), Event(fault(fabric, "down", LINK), 8.3)]
    seen = [World(fabric, events, seed=7).tick(t) for t in range(1)] and World(fabric, events, seed=7)
    observations = [seen.tick(t) for t in range(40)]
    first, second = (Story(World(fabric)) for _ in range(2))
    assert [repr(first.observe(o)) for o in observations] == [repr(second.observe(o)) for o in observations]


# -- clocks and hosts ------------------------------------------------------------------------------------
def test_clocks_far_apart_do_not_hide_a_delay():
    fabric = small_fabric()
    world = World(fabric, [Event(fault(fabric, "delay", LINK, "down", ms=1.0), START_S)], clocks_ms=500.0)
    s = Story(world, LocatorConfig(common_clock=False)).run_until(12)
    assert [(f.kind, f.target, f.direction) for f in s.open] == [("delay", LINK, "down")]


@pytest.mark.parametrize(
    "noise", [Noise(slowed=50.0), Noise(loss=1e-3), Noise(hiccup=0.002), Noise(slowed=20.0, loss=1e-4)]
)
def test_ten_quiet_minutes_of_a_troubled_host_raise_nothing(noise):
    s = Story(World(small_fabric(), noise=noise, seed=11)).run_until(600)
    assert not s.told


@pytest.mark.slow
def test_quiet_hours_raise_nothing():
    s = Story(World(small_fabric(), noise=Noise(loss=1e-5), seed=12)).run_until(2 * 3600)
    assert not s.told


def test_link_that_stays_down_when_its_switch_comes_back_is_told_alone():
    fabric = small_fabric()
    events = [Event(fault(fabric, "down", "p0/t1-2"), 6.1, 20.0), Event(fault(fabric, "down", LINK), 12.0)]
    s = Story(World(fabric, events, seed=4)).run_until(30)
    assert [(f.kind, f.target) for f in s.open] == [("down", LINK)]


def test_an_agent_that_was_never_heard_may_be_starting():
    """Agents start one after another: for the first ten seconds silence of some is no news."""
    fabric = small_fabric()
    world = World(fabric, [])
    state = new_state(fabric)
    late = (3, 7)
    for number in range(18):
        seen = world.tick(number)
        rows = ~np.isin(fabric.node_of(seen.stats.paths.src), late)
        state, faults = judge(state, replace(seen, stats=seen.stats.take(rows), silent=late))
        assert not faults
    for number in range(18, 25):
        state, faults = judge(state, replace(world.tick(number), silent=late))
    assert {f.target for f in faults} == {"n3", "n7"}
    assert not any(f.network for f in faults)


def test_agents_that_nobody_expects_are_no_fault_before_they_were_heard():
    fabric = small_fabric()
    world = World(fabric, [])
    state = new_state(fabric, LocatorConfig(expect_agents=False))
    never, heard = (3, 7), 5
    for number in range(60):
        seen = world.tick(number)
        silent = never if number < 30 else (*never, heard)
        rows = ~np.isin(fabric.node_of(seen.stats.paths.src), silent)
        state, faults = judge(state, replace(seen, stats=seen.stats.take(rows), silent=silent))
    assert [(f.kind, f.target) for f in faults] == [("agent-down", "n5")]


@pytest.mark.parametrize("heals_s", [9.1, 9.3, 9.6, 9.9])
def test_a_slow_part_that_heals_is_never_told_as_fast(heals_s):
    fabric = small_fabric()
    slow = fault(fabric, "slow", "n6/nic0/p0--p0/t0-1", "down", gbps=10.0)
    world = World(fabric, [Event(slow, 3.0, heals_s)])
    state, told = new_state(fabric), []
    for number in range(60):
        state, faults = judge(state, world.tick(number))
        told += [f for f in faults if f.kind == "slow"]
    assert told
    assert told[-1].status == "cleared"
    assert max(f.gbps for f in told) < 15


def test_a_part_that_dies_three_times_a_minute_flaps_however_long_it_is_well_between():
    fabric = small_fabric()
    flap = fault(fabric, "flap", "n1/nic0/p0--p0/t0-0", down_s=5.0, up_s=8.0)
    world = World(fabric, [Event(flap, 3.0, 60.0)])
    state, kinds = new_state(fabric), []
    for number in range(84):
        state, faults = judge(state, world.tick(number))
        kinds += [f.kind for f in faults if f.status == "open"]
    assert set(kinds) == {"down", "flap"}
    assert kinds[0] == "down"
    assert kinds[-1] == "flap"


def test_two_deaths_of_a_part_that_was_well_for_long_are_no_flap():
    fabric = small_fabric()
    deaths = [Event(fault(fabric, "down", "n1/nic0/p0--p0/t0-0"), t, t + 4.0) for t in (3.0, 20.0)]
    world = World(fabric, deaths)
    state, kinds = new_state(fabric), set()
    for number in range(70):
        state, faults = judge(state, world.tick(number))
        kinds |= {f.kind for f in faults}
    assert kinds == {"down"}
