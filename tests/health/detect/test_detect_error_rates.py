"""Error rates: who has them, which end, how surprising, and what is no error."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.cases import needed
from railkeeper.health.detect.errors import ErrorRates
from railkeeper.health.detect.finding import V_NO_DATA, V_OK

COUNTERS = {
    "rx_crc_errors": 0,
    "rx_symbol_errors": 0,
    "rx_errors": 0,
    "tx_errors": 0,
    "link_recoveries": 0,
    "fec_uncorrected_codewords": 0,
}


def world(**more):
    return World(ErrorRates(), ports=COUNTERS, **more)


def test_a_healthy_fleet_is_ok_and_silent():
    w = world()

    assert w.tick(20) == []
    assert (w.verdicts() == V_OK).all()


def test_the_first_tick_is_no_data():
    w = world()
    w.tick()

    assert (w.verdicts() == V_NO_DATA).all()


@pytest.mark.parametrize(
    ("signal", "rate", "words"),
    [
        ("rx_crc_errors", 2, "on arrival"),
        ("rx_errors", 2, "on arrival"),
        ("rx_symbol_errors", 100, "on arrival"),
        ("tx_errors", 2, "on sending"),
        ("link_recoveries", 1, "on arrival"),
    ],
)
def test_one_bad_port_is_told_with_direction(signal, rate, words):
    w = world()
    w.tick(3)
    port, _ = w.link_end()
    w.ports.per_s[signal][port] = rate
    (finding,) = w.tick(3)

    assert finding.entity == port
    assert finding.signal == signal
    assert finding.value == pytest.approx(rate, rel=0.1)
    assert words in " ".join(finding.evidence)
    assert finding.since_s == w.t_s - 2 * 15


@pytest.mark.parametrize(
    ("signal", "rate"), [("rx_crc_errors", 1e-4), ("rx_symbol_errors", 5), ("link_recoveries", 0.01)]
)
def test_what_every_port_may_have_is_no_error(signal, rate):
    w = world()
    w.ports.per_s[signal][:] = rate

    assert w.tick(300) == []


def test_a_single_burst_is_not_told():
    w = world()
    w.tick(3)
    w.ports.per_s["rx_crc_errors"][0] = 1e5
    w.tick()
    w.ports.per_s["rx_crc_errors"][0] = 0

    assert w.tick(40) == []


def test_a_slow_leak_is_seen_over_the_hour():
    w = world()
    w.ports.per_s["rx_crc_errors"][7] = 0.04  # one in a tick or two
    (finding,) = w.tick(240)

    assert finding.entity == 7
    assert finding.value == pytest.approx(0.04, rel=0.3)


def test_errors_that_all_peers_have_blame_nobody():
    w = world()
    w.ports.per_s["rx_symbol_errors"][:] = 1000

    assert w.tick(10) == []


def test_both_ends_point_to_the_cable():
    w = world()
    w.tick(3)
    port, other = w.link_end()
    w.ports.per_s["rx_crc_errors"][[port, other]] = 50
    found = w.tick(3)

    assert {f.entity for f in found} == {port, other}
    assert all("both ends" in " ".join(f.evidence) for f in found)


def test_damage_that_a_switch_passes_on_is_not_blamed_on_the_next_link():
    w = world()
    w.tick(3)
    e = w.ports.entities
    nic, t0 = w.link_end("n0/nic0/p0")
    switch = e.owner[t0]
    uplink = int(np.flatnonzero((e.owner == switch) & (e.role == 2))[0])
    w.ports.per_s["rx_crc_errors"][uplink] = 100
    w.ports.per_s["rx_crc_errors"][nic] = 40
    by_port = {f.entity: f for f in w.tick(3)}

    assert "passed on from there" in " ".join(by_port[nic].evidence)
    assert by_port[nic].others == (uplink,)
    assert by_port[nic].confidence < by_port[uplink].confidence
    assert "on arrival" in " ".join(by_port[uplink].evidence)


def test_damage_with_codewords_lost_on_the_same_link_is_its_own():
    w = world()
    w.tick(3)
    e = w.ports.entities
    nic, t0 = w.link_end("n0/nic0/p0")
    uplink = int(np.flatnonzero((e.owner == e.owner[t0]) & (e.role == 2))[0])
    w.ports.per_s["rx_crc_errors"][[uplink, nic]] = 100, 40
    w.ports.per_s["fec_uncorrected_codewords"][nic] = 40
    by_port = {f.entity: f for f in w.tick(3)}

    assert "on arrival" in " ".join(by_port[nic].evidence)


def test_silence_is_no_data_and_heals_nothing():
    w = world()
    w.tick(3)
    w.ports.per_s["rx_crc_errors"][0] = 50
    w.tick(3)
    w.ports.silent[0] = True
    (finding,) = w.tick(100)

    assert finding.entity == 0
    assert w.verdicts()[0] == V_NO_DATA
    assert w.verdicts()[2] == V_OK


def test_a_restart_of_the_counters_is_no_error():
    w = world()
    w.ports.total["rx_crc_errors"][:] = 9e9
    w.tick(3)
    w.ports.total["rx_crc_errors"][4] = 5
    w.tick()

    assert w.findings == []


def test_it_heals_after_the_hold():
    w = world()
    w.tick(3)
    w.ports.per_s["rx_crc_errors"][0] = 50
    assert w.tick(3)
    w.ports.per_s["rx_crc_errors"][0] = 0

    assert w.tick(5)
    assert w.tick(400) == []


def test_all_ports_of_a_switch_are_one_finding():
    w = world()
    w.tick(3)
    e = w.ports.entities
    switch = e.owner[w.link_end()[1]]
    bad = np.flatnonzero((e.owner == switch) & (e.role != 0))
    w.ports.per_s["rx_crc_errors"][bad] = 50
    found = w.tick(3)

    assert len(found) == 1
    assert {found[0].entity, *found[0].others} == set(bad.tolist())
    assert "one part" in found[0].evidence[0]


def test_same_frames_same_answers():
    def run():
        w = world()
        w.tick(3)
        w.ports.per_s["rx_crc_errors"][[0, 9, 30]] = 50, 3, 700
        return w.tick(5)

    assert run() == run()


@pytest.mark.parametrize(
    ("tick_s", "want"), [(30, (2, 3)), (15, (2, 3)), (10, (3, 5)), (5, (6, 9)), (1, (21, 32)), (0.5, (21, 32))]
)
def test_persistence_is_in_seconds_as_far_as_ticks_are_held(tick_s, want):
    assert needed({"need_ticks": 2, "of_ticks": 3, "persist_s": 30}, tick_s) == want
