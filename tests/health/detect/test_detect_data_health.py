"""Data that can't be trusted: standing, missing and silent counters, clocks that are off."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.clock import ClockOffset
from railkeeper.health.detect.finding import V_NO_DATA, V_OK
from railkeeper.health.detect.missing import MissingCounters
from railkeeper.health.detect.silent import SilentAgents
from railkeeper.health.detect.stuck import TRAFFIC, StuckCounters


# ---- stuck ----------------------------------------------------------------------------------------------------------
def test_nothing_stands_on_a_healthy_or_idle_fleet():
    w = World(StuckCounters())
    assert w.tick(10) == []
    for name in TRAFFIC:
        w.ports.per_s[name][:] = 0

    assert w.tick(10) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(("still", "words"), [("rx_packets", "rx_bytes"), ("tx_bytes", "tx_packets")])
def test_a_counter_that_stands_among_its_siblings(still, words):
    w = World(StuckCounters())
    w.tick(2)
    w.ports.per_s[still][5] = 0
    (finding,) = w.tick(4)

    assert (finding.entity, finding.signal) == (5, still)
    assert words in finding.evidence[0]


def test_a_frozen_agent_is_seen_by_the_other_end():
    w = World(StuckCounters())
    w.tick(2)
    for name in TRAFFIC:
        w.ports.per_s[name][5] = 0
    (finding,) = w.tick(4)

    assert (finding.entity, finding.others) == (5, (4,))
    assert "every counter" in " ".join(finding.evidence)


def test_what_is_sent_and_does_not_arrive_is_named():
    w = World(StuckCounters())
    w.tick(2)
    w.ports.per_s["rx_bytes"][5] = w.ports.per_s["rx_packets"][5] = 0
    (finding,) = w.tick(4)

    assert "the link swallows it" in " ".join(finding.evidence)


def test_traffic_that_starts_between_the_samples_of_two_ends_is_no_fault():
    w = World(StuckCounters())
    for _ in range(8):
        for name in TRAFFIC:
            w.ports.per_s[name][4] = 0
        assert w.tick() == []
        for name in TRAFFIC:
            w.ports.per_s[name][4] = 1e9
        assert w.tick() == []


# ---- missing --------------------------------------------------------------------------------------------------------
def missing(**more):
    return World(MissingCounters(), ports={"rx_crc_errors": 0}, gauges={"oper_up": 1, "rx_power_dbm[0]": -2}, **more)


def test_all_there():
    w = missing()

    assert w.tick(20) == []
    assert (w.verdicts("missing-counters/port") == V_OK).all()


def test_one_that_peers_have_is_missed():
    w = missing()
    w.ports.absent["rx_crc_errors"] = [3]
    (finding,) = w.tick(12)

    assert (finding.entity, finding.signal, finding.against) == (3, "rx_crc_errors", "peers")
    assert "never read" in finding.evidence[1]


def test_one_that_was_there_is_missed():
    w = missing()
    w.tick(3)
    w.ports.absent["rx_crc_errors"] = list(range(40))
    found = w.tick(12)

    assert {f.against for f in found} == {"past"}
    assert {i for f in found for i in (f.entity, *f.others)} == set(range(40))


@pytest.mark.parametrize(("name", "who"), [("rx_crc_errors", range(64)), ("rx_power_dbm[0]", [7])])
def test_other_makers_and_copper_are_no_fault(name, who):
    w = missing()
    w.ports.absent[name] = list(who)

    assert w.tick(15) == []


def test_a_counter_that_is_read_every_fourth_tick_is_not_missing():
    w = missing()
    for turn in range(24):
        w.ports.absent["rx_crc_errors"] = [] if turn % 4 == 0 else list(range(len(w.ports.entities)))
        assert w.tick() == []


def test_silence_is_not_absence():
    w = missing()
    w.tick(3)
    w.ports.silent[3] = True

    assert w.tick(15) == []
    assert w.verdicts("missing-counters/port")[3] == V_NO_DATA


# ---- silent ---------------------------------------------------------------------------------------------------------
def test_all_heard():
    w = World(SilentAgents())

    assert w.tick(20) == []


def test_an_agent_that_goes_silent_is_told_after_a_while_and_no_more_when_it_speaks():
    w = World(SilentAgents())
    w.tick(5)
    w.nodes.silent[4] = True
    assert w.tick(10) == []
    (finding,) = w.tick(4)
    assert (finding.kind, finding.entity, finding.verdict) == ("node", 4, "no data")
    assert finding.since_s == pytest.approx(w.t_s - 13 * 15, abs=16)
    assert w.verdicts("silent-agents/node")[4] == V_NO_DATA
    w.nodes.silent[4] = False

    assert w.tick() == []


def test_a_silent_switch_is_one_finding():
    w = World(SilentAgents())
    w.tick(5)
    e = w.ports.entities
    mine = np.flatnonzero((e.owner == e.owner[1]) & (e.role != 0))
    w.ports.silent[mine] = True
    found = w.tick(15)

    assert len(found) == 1
    assert {found[0].entity, *found[0].others} == set(mine.tolist())


def test_never_heard_is_told_only_where_peers_are():
    w = World(SilentAgents())
    w.nodes.silent[4] = True
    w.nics.silent[:] = True
    (finding,) = w.tick(15)

    assert (finding.kind, finding.against) == ("node", "peers")
    assert (w.verdicts("silent-agents/nic") == V_NO_DATA).all()


# ---- clock ----------------------------------------------------------------------------------------------------------
def clocks():
    w = World(ClockOffset(), node_gauges={"clock_offset_s": 0})
    w.nodes.gauge["clock_offset_s"] += (
        np.random.default_rng(5).normal(0, 0.003, len(w.nodes.entities)).astype(np.float32)
    )
    return w


def test_clocks_that_agree():
    w = clocks()

    assert w.tick(10) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(("offset", "verdict"), [(0.5, "degraded"), (-30, "failed")])
def test_a_clock_that_is_off(offset, verdict):
    w = clocks()
    w.nodes.gauge["clock_offset_s"][7] = offset
    (finding,) = w.tick(6)

    assert (finding.entity, finding.value, finding.verdict) == (7, pytest.approx(offset), verdict)


def test_the_keeper_s_own_clock_is_told_once():
    w = clocks()
    w.nodes.gauge["clock_offset_s"] += 2
    (finding,) = w.tick(6)

    assert "the keeper's clock is off" in finding.evidence[0]


def test_a_slow_answer_is_no_offset_and_no_answer_is_no_data():
    w = clocks()
    w.nodes.absent["clock_offset_s"] = [3]
    for turn in range(10):
        w.nodes.gauge["clock_offset_s"][7] = 0.4 if turn % 3 == 0 else 0
        assert w.tick() == []

    assert w.verdicts()[3] == V_NO_DATA
