"""Bounce-back worse: what is compared with what, and for how long."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.bounce_back import BounceBack
from railkeeper.health.detect.finding import V_NO_DATA, V_OK

LINE = 400e9


def world():
    ports = {"link_downs": 0, "fec_corrected_bits": 1e-9 * LINE, "rx_bits": LINE, "rx_crc_errors": 0}
    w = World(BounceBack(), ports=ports, gauges={"oper_up": 1, "speed_gbps": 400})
    assert w.tick(10) == []
    return w


def bounce(w, ports=(6, 7), ticks=2):
    w.ports.total["link_downs"][list(ports)] += 1
    w.ports.gauge["oper_up"][list(ports)] = 0
    w.tick(ticks)
    w.ports.gauge["oper_up"][list(ports)] = 1
    return w.tick()


def test_a_link_that_comes_back_as_it_was_is_well():
    w = world()
    bounce(w)

    assert w.tick(60) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("fec_corrected_bits", 1e-6 * LINE, "wrong bits before FEC: 1e-06 ratio, before 1e-09"),
        ("rx_crc_errors", 1, "errors on arrival"),
    ],
)
def test_worse_is_told_at_the_end_that_sees_it(column, value, words):
    w = world()
    w.ports.per_s[column][7] = value
    bounce(w)
    w.ports.per_s[column][7] = value
    (finding,) = w.tick(14)

    assert (finding.entity, finding.others, finding.against) == (7, (6,), "past")
    assert words in " ".join(finding.evidence)


def test_less_speed_is_told():
    w = world()
    bounce(w)
    w.ports.gauge["speed_gbps"][[6, 7]] = 200
    found = w.tick(14)

    assert {f.entity for f in found} == {6, 7}
    assert found[0].expected == 400


def test_a_fall_and_return_between_two_samples_is_watched():
    w = world()
    w.ports.total["link_downs"][6] += 1
    w.tick()
    w.ports.per_s["fec_corrected_bits"][7] *= 1000

    assert [f.entity for f in w.tick(14)] == [7]


def test_worse_without_a_fall_is_another_detector_s():
    w = world()
    w.ports.per_s["fec_corrected_bits"][7] *= 1000

    assert w.tick(20) == []


def test_worse_and_still_harmless_is_well():
    w = world()
    w.ports.per_s["fec_corrected_bits"][:] = 1e-13 * LINE
    w.tick(100)
    bounce(w)
    w.ports.per_s["fec_corrected_bits"][7] = 1e-11 * LINE

    assert w.tick(30) == []


def test_errors_that_it_had_before_are_not_worse():
    w = world()
    w.ports.per_s["rx_crc_errors"][7] = 5
    w.tick(200)
    bounce(w)

    assert w.tick(30) == []


def test_a_whole_switch_that_comes_back_well_says_nothing_and_silence_is_no_data():
    w = world()
    e = w.ports.entities
    mine = np.flatnonzero((e.owner == e.owner[1]) & (e.role != 0))
    bounce(w, mine.tolist())
    w.ports.silent[20] = True

    assert w.tick(30) == []
    assert w.verdicts()[20] == V_NO_DATA
