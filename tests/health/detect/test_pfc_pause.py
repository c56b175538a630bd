"""Pause: healthy, a slow host with its tree, a storm, a deadlock, incast that passes, and what was not read."""

from __future__ import annotations

import numpy as np
import pytest
from flow_worlds import NAN, Ticks, fabric_of

from railkeeper.health.detect.pfc_pause import PfcPause

RX, TX = "pfc_rx_paused_us[3]", "pfc_tx_paused_us[3]"


def world(**parameters) -> Ticks:
    return Ticks(PfcPause(), fabric_of(planes=1, t0=2, t1=2, nics=8), parameters=parameters)


def paused(ticks: Ticks, shares: dict[str, float], *, frames=False) -> dict:
    """Pause as both ends count it: name of the held port -> share of time."""
    here, there = ticks.fill(0.0), ticks.fill(0.0)
    for name, share in shares.items():
        port = ticks.id(name)
        here[port] = there[ticks.entities.other[port]] = share
    if frames:
        return {"pfc_rx_frames[3]": here * 2980, "pfc_tx_frames[3]": there * 2980}
    return {RX: here * 1e6, TX: there * 1e6}


def to_host(nic: int) -> str:
    return f"n{nic}/nic0/p0--p0/t0-{nic // 8}@p0/t0-{nic // 8}"


TREE = {
    to_host(0): 0.3, "p0/t0-0--p0/t1-0@p0/t1-0": 0.2, "p0/t0-0--p0/t1-1@p0/t1-1": 0.2,
    "p0/t0-1--p0/t1-0@p0/t0-1": 0.15, "n9/nic0/p0": 0.1,
}  # fmt: skip


def test_healthy():
    ticks = world()

    judged = ticks.run(paused(ticks, {to_host(n): 0.01 for n in range(16)}), ticks=40)

    assert judged.findings == ()
    assert set(judged.verdicts) == {0}


def test_a_slow_host_is_the_root_of_its_tree():
    ticks = world()
    onset = ticks.now_s + ticks.tick_s
    columns = paused(ticks, TREE) | {"rx_discards": ticks.fill(0.0)}
    columns["rx_discards"][ticks.id("n0/nic0/p0")] = 120.0
    stalls = np.zeros(16, dtype=np.float32)
    stalls[0] = 0.8

    judged = ticks.run(columns, ticks=15, beside={"nic": ({"pcie_stalled_seconds": stalls}, {})})

    assert ticks.found() == ["n0/nic0/p0"]
    (finding,) = judged.findings
    assert (finding.verdict, finding.since_s, finding.value) == ("degraded", onset, pytest.approx(0.3))
    assert {ticks.entities.name_of(p) for p in finding.others} == set(TREE)
    assert "does not take what arrives" in finding.evidence[0]
    assert "rx_discards 120/s" in finding.evidence[2]
    assert "pcie_stalled_seconds 0.8/s" in finding.evidence[2]
    assert ticks.verdict(ticks.id("n9/nic0/p0")) == "degraded"
    assert ticks.verdict(ticks.id("n5/nic0/p0")) == "ok"


def test_storm_is_told_at_once_and_has_failed():
    ticks = world()

    judged = ticks.run(paused(ticks, {to_host(0): 0.9}), ticks=3)

    assert [(f.verdict, f.against) for f in judged.findings] == [("failed", "limit")]


def test_a_congested_egress():
    """Two uplinks of the other T0 are held by the T1s, that are not held: an egress of each is congested."""
    ticks = world()
    columns = paused(ticks, {"p0/t0-1--p0/t1-0@p0/t0-1": 0.2})
    fill = ticks.fill(0.0)
    fill[ticks.id("p0/t0-0--p0/t1-0@p0/t1-0")] = 8e6

    judged = ticks.run(columns, {"queue_watermark_bytes[3]": fill}, ticks=15)

    (finding,) = judged.findings
    assert ticks.found() == ["p0/t0-1--p0/t1-0@p0/t1-0"]
    assert "an egress of it is congested" in finding.evidence[0]
    assert "p0/t0-0--p0/t1-0@p0/t1-0, queue_watermark_bytes 8M" in finding.evidence[2]


def test_deadlock():
    ticks = world()
    ring = [
        "p0/t0-0--p0/t1-0@p0/t0-0", "p0/t0-1--p0/t1-0@p0/t1-0", "p0/t0-1--p0/t1-1@p0/t0-1", "p0/t0-0--p0/t1-1@p0/t1-1"
    ]  # fmt: skip

    judged = ticks.run(paused(ticks, dict.fromkeys(ring, 1.0)), ticks=4)

    (finding,) = judged.findings
    assert finding.verdict == "failed"
    assert finding.evidence[0] == "deadlock: p0/t0-0, p0/t0-1, p0/t1-0, p0/t1-1 hold each other in a ring (priority 3)"


def test_twin_incast_that_passes():
    ticks = world()
    for _ in range(10):
        ticks.run(paused(ticks, TREE), ticks=3)
        assert ticks.run(paused(ticks, {}), ticks=9).findings == ()


def test_twin_everyone_is_held_alike():
    """All hosts hold a little more than the limit: no outlier, a matter of how the fabric is tuned."""
    ticks = world()

    assert ticks.run(paused(ticks, {to_host(n): 0.08 for n in range(16)}), ticks=40).findings == ()


def test_one_end_is_enough_and_both_are_named():
    for dark in (RX, TX):
        ticks = world()
        columns = paused(ticks, TREE)
        columns[dark] = ticks.fill(NAN)

        judged = ticks.run(columns, ticks=15)

        assert ticks.found() == ["n0/nic0/p0"]
        assert "was not read" in judged.findings[0].evidence[1]
        assert judged.findings[0].confidence < 0.95


def test_frames_bound_the_time_and_make_no_storm():
    ticks = world()

    judged = ticks.run(paused(ticks, {to_host(0): 1.0}, frames=True), ticks=15)

    (finding,) = judged.findings
    assert (finding.verdict, finding.signal) == ("degraded", "pfc_tx_frames[3]")
    assert "at most 100%" in finding.evidence[1]
    assert finding.confidence <= 0.6


def test_the_watchdog_is_believed():
    ticks = world()
    columns = paused(ticks, {}) | {"pfc_storms[3]": ticks.fill(0.0)}
    columns["pfc_storms[3]"][ticks.id(to_host(3))] = 0.1

    judged = ticks.run(columns, ticks=2)

    assert ticks.found() == ["n3/nic0/p0"]
    assert judged.findings[0].verdict == "failed"


def test_nothing_read():
    ticks = world()

    assert set(ticks.run({}).verdicts) == {3}
    columns = paused(ticks, {})
    columns[RX][4] = columns[TX][4] = NAN
    ticks.run(columns)
    assert (ticks.verdict(4), ticks.verdict(5)) == ("no data", "ok")


def test_a_tree_stays_while_nothing_is_read():
    ticks = world()
    ticks.run(paused(ticks, TREE), ticks=15)

    judged = ticks.run({RX: ticks.fill(NAN), TX: ticks.fill(NAN)}, ticks=60)

    assert ticks.found() == ["n0/nic0/p0"]
    assert "was not read" in judged.findings[0].evidence[1]


def test_the_same_twice():
    first, second = world(), world()

    assert first.run(paused(first, TREE), ticks=15).findings == second.run(paused(second, TREE), ticks=15).findings
