"""When a tick is judged: as soon as all agents have reported, not much later where some do not, whatever the clock does."""

from __future__ import annotations

import pytest
from hub_lines import tick_message
from synthetic_world import FIRST_TICK, TICK_S, make_fabric

from railkeeper.app.world import AGENT_GRACE_S, DEADLINE_S, MAX_BEHIND_TICKS, PORTS_PAUSE_TICKS, HubWorld
from railkeeper.base.errors import OutsideError
from railkeeper.telemetry.ports import unread_ports

FABRIC = make_fabric()


class Lab:
    """Agents that report each tick some time after its end, as the line's clock goes on."""

    def __init__(self, line, reports, *, away=lambda _node, _tick: False, after_s=0.25):
        for n, tick in enumerate(reports):
            end = (FIRST_TICK + n + 1) * TICK_S
            for r in tick:
                if not away(r.node, n):
                    line.say(tick_message(r), at=end + after_s)


def world_of(line, **more):
    said = []
    world = HubWorld(FABRIC, line, None, tick_s=TICK_S, clock=line.clock, complain=said.append, **more)
    world.said = said
    return world


def waits(line, world, n):
    """Return for each of n ticks how long after its end it was given, and how many agents it has."""
    out = []
    for _ in range(n):
        given = world.next_tick()
        out.append((line.now - (given.tick + 1) * TICK_S, len(given.reports)))
    return out


def test_a_tick_waits_for_its_reports_and_no_longer(line, reports):
    Lab(line, reports)
    got = waits(line, world_of(line), 8)

    assert [n for _, n in got] == [FABRIC.n_nodes] * 8
    assert all(AGENT_GRACE_S <= after < DEADLINE_S for after, _ in got[1:])


def test_an_agent_that_vanishes_delays_two_ticks_and_no_more(line, reports):
    Lab(line, reports, away=lambda node, tick: node == 2 and tick >= 5)
    got = waits(line, world_of(line), 12)

    slow = [n for n, (after, _) in enumerate(got) if after >= DEADLINE_S]
    assert slow == [5, 6]
    assert [n for _, n in got] == [4] * 5 + [3] * 7


def test_with_no_agent_at_all_ticks_go_on(line):
    got = waits(line, world_of(line), 5)
    assert [n for _, n in got] == [0] * 5


def test_agents_that_are_slow_for_a_while_are_late(line, reports):
    Lab(line, reports, after_s=1.2)
    world = world_of(line)
    given = [world.next_tick() for _ in range(6)]

    assert not any(g.reports for g in given)
    assert len([r for g in given for r in g.late]) >= 3 * FABRIC.n_nodes


def test_a_clock_that_jumps_back_is_followed_at_once(line, reports):
    Lab(line, reports)
    world = world_of(line)
    waits(line, world, 10)
    line.now -= 5 * TICK_S
    line.queue = []
    Lab(line, reports[6:], after_s=3.25)
    given = [world.next_tick() for _ in range(4)]

    assert given[0].tick in {FIRST_TICK + 5, FIRST_TICK + 6}
    assert len({g.tick for g in given}) == 4
    assert any("set back" in text for text in world.said)
    assert line.now < (FIRST_TICK + 12) * TICK_S


def test_a_keeper_that_slept_for_long_goes_on_with_the_newest_tick(line):
    world = world_of(line)
    waits(line, world, 3)
    line.now += (MAX_BEHIND_TICKS + 100) * TICK_S
    given = world.next_tick()

    assert abs(given.tick - line.now / TICK_S) < 4
    assert any("behind the clock" in text for text in world.said)


def test_a_keeper_that_slept_for_short_judges_every_tick(line, reports):
    Lab(line, reports)
    world = world_of(line)
    waits(line, world, 3)
    line.now += 40 * TICK_S
    given = [world.next_tick() for _ in range(40)]

    assert [g.tick - FIRST_TICK for g in given] == list(range(3, 43))
    assert [len(g.reports) for g in given] == [FABRIC.n_nodes] * 40


def test_switches_that_do_not_answer_are_unread_and_not_asked_in_every_tick(line):
    asked = []

    def ports():
        asked.append(line.now)
        if len(asked) < 3:
            raise OutsideError("no answer", retry=True)
        return unread_ports(FABRIC)

    world = world_of(line, read_ports=ports)
    given = [world.next_tick().ports for _ in range(2 * PORTS_PAUSE_TICKS + 2)]

    assert len(asked) == 4
    assert [p is None for p in given] == [True] * 2 * PORTS_PAUSE_TICKS + [False] * 2


def test_a_lab_that_has_ended_ends_the_keeper(line):
    def ports():
        raise OutsideError("the lab has ended")

    with pytest.raises(OutsideError, match="has ended"):
        world_of(line, read_ports=ports).next_tick()
