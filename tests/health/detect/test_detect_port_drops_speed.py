"""Discards by reason, and ports that run too slowly."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.discards import Discards
from railkeeper.health.detect.finding import V_NO_DATA, V_OK
from railkeeper.health.detect.port_speed import PortSpeed

DROPS = {"rx_discards": 0, "tx_discards": 0, "rx_length_errors": 0, "rx_unknown_protocol": 0}


def drops(**more):
    return World(Discards(), ports=DROPS, gauges={"oper_up": 1, "admin_up": 1}, **more)


# ---- discards -------------------------------------------------------------------------------------------------------
def test_discards_healthy():
    w = drops()
    w.ports.per_s["tx_discards"][:] = 20

    assert w.tick(50) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(
    ("signal", "port", "rate", "words"),
    [
        ("rx_discards", 0, 5000, "the host or its PCIe"),
        ("rx_discards", 1, 5000, "the switch had no buffer"),
        ("tx_discards", 1, 5000, "congestion"),
        ("rx_length_errors", 0, 20, "the MTU here differs"),
        ("rx_unknown_protocol", 1, 20, "a wrong configuration"),
    ],
)
def test_the_reason_is_told(signal, port, rate, words):
    w = drops()
    w.tick(3)
    w.ports.per_s[signal][port] = rate
    (finding,) = w.tick(5)

    assert (finding.entity, finding.signal) == (port, signal)
    assert words in " ".join(finding.evidence)


def test_pcie_of_the_nic_is_named():
    w = drops(nics={"pcie_stalled_seconds": 0.4, "pcie_buffer_overflows": 30})
    w.tick(3)
    w.ports.per_s["rx_discards"][0] = 5000
    (finding,) = w.tick(5)

    assert "PCIe stalled 40% of the time, 30 overflows/s" in " ".join(finding.evidence)


def test_a_short_incast_is_not_told():
    w = drops()
    w.tick(3)
    for _ in range(10):
        w.ports.per_s["tx_discards"][5] = 1e5
        assert w.tick(2) == []
        w.ports.per_s["tx_discards"][5] = 0
        assert w.tick(8) == []


def test_packets_for_a_port_that_is_switched_off_are_meant():
    w = drops()
    w.ports.gauge["admin_up"][5] = 0
    w.ports.per_s["tx_discards"][5] = 1e5

    assert w.tick(10) == []


def test_congestion_everywhere_blames_no_port():
    w = drops()
    w.ports.per_s["tx_discards"][:] = 1e4

    assert w.tick(10) == []


def test_discards_unread_is_no_data():
    w = drops()
    for name in DROPS:
        w.ports.absent[name] = [8]
    w.tick(3)

    assert w.verdicts()[8] == V_NO_DATA
    assert w.verdicts()[9] == V_OK


# ---- speed ----------------------------------------------------------------------------------------------------------
def speeds(**more):
    return World(PortSpeed(), gauges={"speed_gbps": 400, "oper_up": 1, "admin_up": 1}, **more)


def test_speed_healthy_and_no_data():
    w = speeds()
    w.ports.absent["speed_gbps"] = [2]

    assert w.tick(10) == []
    assert w.verdicts()[2] == V_NO_DATA


@pytest.mark.parametrize(("speed", "verdict"), [(200, "degraded"), (100, "failed")])
def test_a_slow_link_is_one_finding_against_peers(speed, verdict):
    w = speeds()
    w.ports.gauge["speed_gbps"][[6, 7]] = speed
    (finding,) = w.tick(4)

    assert (finding.entity, finding.others) == (6, (7,))
    assert (finding.value, finding.against, finding.verdict) == (speed, "peers", verdict)
    assert finding.expected == pytest.approx(400, rel=0.02)


def test_ends_that_disagree_are_told():
    w = speeds()
    w.ports.gauge["speed_gbps"][7] = 200
    (finding,) = w.tick(4)

    assert finding.entity == 7
    assert "disagree" in finding.evidence[1]


def test_mixed_fleets_are_judged_by_their_own_past():
    w = speeds()
    half = np.arange(len(w.ports.entities)) % 8 < 4
    w.ports.gauge["speed_gbps"][half] = 200
    assert w.tick(10) == []
    w.ports.gauge["speed_gbps"][[8, 9]] = 100
    (finding,) = w.tick(4)

    assert (finding.entity, finding.against, finding.expected) == (8, "past", 200)


def test_a_link_that_is_down_is_not_slow():
    w = speeds()
    w.tick(3)
    w.ports.gauge["oper_up"][[6, 7]] = 0
    w.ports.gauge["speed_gbps"][[6, 7]] = 10

    assert w.tick(6) == []
