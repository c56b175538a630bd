"""Detectors that are tables of counters: healthy, fault, the twin of the fault that must not alarm, missing data."""

from __future__ import annotations

import numpy as np
import pytest
from flow_worlds import NAN, Ticks, fabric_of

from railkeeper.health.detect.rdma_integrity import RdmaIntegrity
from railkeeper.health.detect.rdma_loss import RdmaLoss
from railkeeper.health.detect.rdma_receiver import RdmaReceiver
from railkeeper.health.detect.srv6_no_sid import Srv6NoSid
from railkeeper.telemetry.entities import NIC_END

PACKETS = 3e6
# Detector, counter, its packets, a rate that is bad, a rate that is life.
TABLE = [
    (RdmaLoss, "ack_timeouts", "tx_packets", 20.0, 0.5),
    (RdmaLoss, "seq_naks_rx", "tx_packets", 300.0, 5.0),
    (RdmaLoss, "retransmitted_packets", "tx_packets", 3000.0, 50.0),
    (RdmaLoss, "out_of_sequence_rx", "rx_packets", 3000.0, 50.0),
    (RdmaLoss, "implied_naks_rx", "tx_packets", 300.0, 5.0),
    (RdmaLoss, "duplicates_rx", "rx_packets", 3000.0, 50.0),
    (RdmaReceiver, "rnr_naks_rx", "tx_packets", 3000.0, 50.0),
    (RdmaReceiver, "no_receive_buffer", "rx_packets", 3000.0, 50.0),
    (RdmaIntegrity, "icrc_errors", "rx_packets", 2.0, 0.01),
]


def world(detector, **kind):
    return Ticks(detector(), fabric_of(), **kind)


def busy(ticks: Ticks, **columns) -> dict:
    ends = np.where(ticks.entities.role == NIC_END, 1.0, NAN) if ticks.kind == "port" else np.ones(ticks.n)
    every = {"tx_packets": ticks.fill(PACKETS), "rx_packets": ticks.fill(PACKETS)}
    return every | {name: (values * ends).astype(np.float32) for name, values in columns.items()}


@pytest.mark.parametrize(("detector", "signal", "packets", "bad", "life"), TABLE)
@pytest.mark.parametrize("kind", ["port", "nic"])
def test_counter_healthy(detector, signal, packets, bad, life, kind):
    ticks = world(detector, kind=kind)

    judged = ticks.run(busy(ticks, **{signal: ticks.fill(life)}), ticks=30)

    assert judged.findings == ()
    assert ticks.verdict(0) == "ok"


@pytest.mark.parametrize(("detector", "signal", "packets", "bad", "life"), TABLE)
@pytest.mark.parametrize("kind", ["port", "nic"])
def test_counter_fault(detector, signal, packets, bad, life, kind):
    ticks = world(detector, kind=kind)
    values = ticks.fill(life)
    values[8] = bad

    ticks.run(busy(ticks, **{signal: ticks.fill(life)}), ticks=10)
    onset = ticks.now_s + ticks.tick_s
    judged = ticks.run(busy(ticks, **{signal: values}), ticks=20)

    assert [(f.entity, f.signal, f.against) for f in judged.findings] == [(8, signal, "peers")]
    finding = judged.findings[0]
    assert finding.since_s == onset
    assert finding.value == pytest.approx(bad)
    assert finding.expected < finding.value / 5
    assert ticks.verdict(8) in {"degraded", "failed"}
    assert ticks.verdict(0) == "ok"
    assert signal in finding.evidence[0]


@pytest.mark.parametrize(("detector", "signal", "packets", "bad", "life"), TABLE)
@pytest.mark.parametrize("kind", ["port", "nic"])
def test_counter_twin_everyone_has_it(detector, signal, packets, bad, life, kind):
    ticks = world(detector, kind=kind)

    assert ticks.run(busy(ticks, **{signal: ticks.fill(bad)}), ticks=30).findings == ()


@pytest.mark.parametrize(("detector", "signal", "packets", "bad", "life"), TABLE)
@pytest.mark.parametrize("kind", ["port", "nic"])
def test_counter_twin_a_burst(detector, signal, packets, bad, life, kind):
    ticks = world(detector, kind=kind)
    values = ticks.fill(life)
    values[8] = bad
    for _ in range(10):
        ticks.run(busy(ticks, **{signal: values}), ticks=2)
        judged = ticks.run(busy(ticks, **{signal: ticks.fill(life)}), ticks=10)
        assert judged.findings == ()


@pytest.mark.parametrize(("detector", "signal", "packets", "bad", "life"), TABLE)
@pytest.mark.parametrize("kind", ["port", "nic"])
def test_counter_missing(detector, signal, packets, bad, life, kind):
    ticks = world(detector, kind=kind)
    values = ticks.fill(life)
    values[8] = NAN

    ticks.run(busy(ticks, **{signal: values}), ticks=3)

    assert (ticks.verdict(8), ticks.verdict(0)) == ("no data", "ok")
    ticks.run({}, ticks=1)
    assert ticks.verdict(0) == "no data"


@pytest.mark.parametrize(("detector", "signal", "packets", "bad", "life"), TABLE)
@pytest.mark.parametrize("kind", ["port", "nic"])
def test_counter_silence_neither_heals_nor_harms(detector, signal, packets, bad, life, kind):
    ticks = world(detector, kind=kind)
    values, dark = ticks.fill(life), ticks.fill(life)
    values[8], dark[8] = bad, NAN

    ticks.run(busy(ticks, **{signal: values}), ticks=20)
    assert ticks.last.findings
    assert ticks.run(busy(ticks, **{signal: dark}), ticks=60).findings
    assert ticks.run(busy(ticks, **{signal: ticks.fill(life)}), ticks=20).findings == ()


def test_idle_peers_say_nothing():
    """A hundred idle NICs without losses do not make the few that work outliers."""
    ticks = world(RdmaLoss)
    columns = busy(ticks, seq_naks_rx=ticks.fill(0.0))
    working = np.flatnonzero(ticks.entities.role == NIC_END)[::3]
    for name in ("tx_packets", "rx_packets"):
        columns[name][:] = 0
        columns[name][working] = PACKETS
    columns["seq_naks_rx"][working] = 300.0

    assert ticks.run(columns, ticks=30).findings == ()


def test_retries_exceeded_has_failed():
    ticks = world(RdmaLoss)
    values = ticks.fill(0.0)
    values[4] = 2.0

    judged = ticks.run(busy(ticks, retries_exceeded=values), ticks=20)

    assert [(f.entity, f.verdict) for f in judged.findings] == [(4, "failed")]


def test_rnr_is_not_the_networks():
    ticks = world(RdmaReceiver)
    values = ticks.fill(0.0)
    values[4] = 3000.0

    finding = ticks.run(busy(ticks, rnr_naks_rx=values), ticks=30).findings[0]

    assert "not the network" in finding.evidence[0]


def test_both_ends_are_shown():
    ticks = world(RdmaLoss)
    values, crc = ticks.fill(0.0), ticks.fill(0.0)
    values[4], crc[5] = 300.0, 40.0

    finding = ticks.run(busy(ticks, seq_naks_rx=values) | {"rx_crc_errors": crc}, ticks=20).findings[0]

    assert any("other end" in line and "rx_crc_errors 40/s" in line for line in finding.evidence)
    assert finding.others == (5,)


@pytest.mark.parametrize(("struck", "words"), [([2], "its own table"), ([0, 1, 2, 3], "senders use addresses")])
def test_no_sid(struck, words):
    ticks = world(Srv6NoSid, kind="switch")
    values = ticks.fill(0.0)
    values[struck] = 50.0

    ticks.run({"srv6_no_sid_drops": values}, ticks=2)
    assert ticks.last.findings == ()
    judged = ticks.run({"srv6_no_sid_drops": values}, ticks=6)

    assert {f.entity for f in judged.findings} <= set(struck)
    assert judged.findings
    assert any(words in line for line in judged.findings[0].evidence)


def test_no_sid_healthy_and_missing():
    ticks = world(Srv6NoSid, kind="switch")
    values = ticks.fill(0.0)
    values[1] = NAN

    assert ticks.run({"srv6_no_sid_drops": values}, ticks=5).findings == ()
    assert (ticks.verdict(0), ticks.verdict(1)) == ("ok", "no data")
