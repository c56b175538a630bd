"""Link flap: falls of links counted once over both ends, and what is not a flap."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.finding import V_NO_DATA, V_OK
from railkeeper.health.detect.link_flap import LinkFlap


def world(**more):
    return World(LinkFlap(), ports={"link_downs": 0}, gauges={"oper_up": 1, "admin_up": 1}, **more)


def fall(w, *ports, times=1):
    """One fall between two samples, seen by the counters of these ports."""
    w.ports.total["link_downs"][list(ports)] += times
    return w.tick()


def test_healthy_and_without_data():
    w = world()
    w.ports.silent[:2] = True

    assert w.tick(3) == []
    assert (w.verdicts()[:2] == V_NO_DATA).all()
    assert (w.verdicts()[2:] == V_OK).all()


@pytest.mark.parametrize("ends", [(0,), (1,), (0, 1)])
def test_three_falls_in_an_hour_are_a_flap_whichever_end_counts(ends):
    w = world()
    w.tick(3)
    assert fall(w, *ends) == []
    w.tick(10)
    assert fall(w, *ends) == []
    w.tick(10)
    (finding,) = fall(w, *ends)

    assert finding.entity == 0
    assert finding.others == (1,)
    assert finding.value == 3
    assert finding.verdict == "degraded"


def test_falls_seen_as_states_alone_count():
    w = world()
    w.tick(2)
    for _ in range(3):
        w.ports.gauge["oper_up"][[4, 5]] = 0
        w.tick(2)
        w.ports.gauge["oper_up"][[4, 5]] = 1
        w.tick(5)

    (finding,) = w.findings
    assert finding.entity == 4


def test_falls_that_are_far_apart_are_no_flap():
    w = world()
    w.tick(2)
    for _ in range(4):
        assert fall(w, 0, 1) == []
        assert w.tick(150) == []


def test_a_link_that_is_switched_off_and_on_again_is_no_flap():
    w = world()
    w.tick(2)
    for _ in range(5):
        w.ports.gauge["admin_up"][1] = 0
        w.ports.gauge["oper_up"][[0, 1]] = 0
        fall(w, 0, 1)
        w.tick(2)
        w.ports.gauge["admin_up"][1] = 1
        w.tick()
        w.ports.gauge["oper_up"][[0, 1]] = 1
        assert w.tick(4) == []


def test_the_other_end_may_tell_the_same_fall_a_tick_later():
    w = world()
    w.tick(2)
    for _ in range(2):
        fall(w, 0)
        assert fall(w, 1) == []
        w.tick(4)


def test_a_switch_that_restarts_once_is_no_flap_and_thrice_is_one_finding():
    w = world()
    w.tick(2)
    e = w.ports.entities
    mine = np.flatnonzero((e.owner == e.owner[1]) & (e.role != 0))
    for turn in range(3):
        w.ports.total["link_downs"][e.other[mine]] += 1
        w.ports.silent[mine] = True
        w.ports.gauge["oper_up"][e.other[mine]] = 0
        w.tick(8)
        w.ports.total["link_downs"][mine] = 0
        w.ports.silent[mine] = False
        w.ports.gauge["oper_up"][e.other[mine]] = 1
        found = w.tick(8)
        assert len(found) == (turn == 2)

    assert len(found[0].others) == 2 * len(mine) - 1 or len(found[0].others) >= len(mine) - 1
    assert "one part" in found[0].evidence[0]


def test_many_falls_are_a_failure_and_it_closes_after_window_and_hold():
    w = world()
    w.tick(3)
    (finding,) = fall(w, 6, times=12)
    assert finding.verdict == "failed"

    assert w.tick(200)
    assert w.tick(150) == []


def test_a_fleet_that_falls_alike_blames_no_link():
    w = world()
    w.tick(2)
    for _ in range(3):
        w.ports.total["link_downs"][:] += 1
        found = w.tick(5)

    assert found == []
