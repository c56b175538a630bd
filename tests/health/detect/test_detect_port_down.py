"""Port down: what the other end says decides the story; switched off is no fault."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.finding import V_NO_DATA, V_SKIPPED
from railkeeper.health.detect.port_down import PortDown


def world():
    return World(PortDown(), gauges={"oper_up": 1, "admin_up": 1})


def test_healthy():
    assert world().tick(20) == []


def test_down_at_both_ends_is_one_finding_after_four_minutes():
    w = world()
    w.tick(2)
    w.ports.gauge["oper_up"][[8, 9]] = 0
    assert w.tick(15) == []
    (finding,) = w.tick(3)

    assert (finding.entity, finding.others, finding.verdict) == (8, (9,), "failed")
    assert "down too" in finding.evidence[1]


def test_ends_that_disagree_are_told_sooner():
    w = world()
    w.tick(2)
    w.ports.gauge["oper_up"][9] = 0
    (finding,) = w.tick(6)

    assert finding.entity == 9
    assert "disagree" in finding.evidence[1]


@pytest.mark.parametrize("end", [8, 9])
def test_switched_off_at_either_end_is_skipped(end):
    w = world()
    w.ports.gauge["oper_up"][[8, 9]] = 0
    w.ports.gauge["admin_up"][end] = 0

    assert w.tick(50) == []
    assert (w.verdicts()[[8, 9]] == V_SKIPPED).all()


def test_a_host_that_is_silent_is_named_as_such():
    w = world()
    w.tick(2)
    w.ports.silent[8] = True
    w.ports.gauge["oper_up"][9] = 0
    (finding,) = w.tick(20)

    assert finding.entity == 9
    assert finding.verdict == "degraded"
    assert "host" in finding.evidence[1]
    assert w.verdicts()[8] == V_NO_DATA


def test_it_closes_at_once_and_silence_does_not_close_it():
    w = world()
    w.tick(2)
    w.ports.gauge["oper_up"][[8, 9]] = 0
    assert w.tick(20)
    w.ports.silent[[8, 9]] = True
    assert w.tick(50)
    w.ports.silent[[8, 9]] = False
    w.ports.gauge["oper_up"][[8, 9]] = 1
    assert w.tick(2) == []


def test_a_switch_that_is_gone_is_one_finding():
    w = world()
    w.tick(2)
    e = w.ports.entities
    mine = np.flatnonzero((e.owner == e.owner[1]) & (e.role != 0))
    w.ports.silent[mine] = True
    w.ports.gauge["oper_up"][e.other[mine]] = 0
    (finding,) = w.tick(25)

    assert "one part" in finding.evidence[0]
    assert "switch there may be off" in " ".join(finding.evidence)
