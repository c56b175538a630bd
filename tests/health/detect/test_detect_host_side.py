"""PCIe and slow NICs: what is the host's, and what is mere idleness or design."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.finding import V_NO_DATA, V_OK
from railkeeper.health.detect.pcie import COUNTED, Pcie
from railkeeper.health.detect.slow_nic import SlowNic

GAUGES = {"pcie_width": 16, "pcie_width_max": 16, "pcie_speed_gts": 32, "pcie_speed_max_gts": 32}


def pcie(**more):
    return World(Pcie(), nics=dict.fromkeys(COUNTED, 0), nic_gauges=GAUGES, **more)


# ---- PCIe -----------------------------------------------------------------------------------------------------------
def test_pcie_healthy():
    w = pcie()
    w.nics.per_s["pcie_correctable_errors"][:] = 0.01

    assert w.tick(40) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(
    ("signal", "value", "verdict"),
    [("pcie_width", 8, "degraded"), ("pcie_width", 4, "failed"), ("pcie_speed_gts", 16, "degraded")],
)
def test_a_step_down_is_told(signal, value, verdict):
    w = pcie()
    w.nics.gauge[signal][3] = value
    (finding,) = w.tick(3)

    assert (finding.entity, finding.signal, finding.value, finding.verdict) == (3, signal, value, verdict)
    assert finding.expected == pytest.approx(16 if signal == "pcie_width" else 32, rel=0.02)


def test_a_design_that_all_share_is_no_fault():
    w = pcie()
    w.nics.gauge["pcie_width"][:] = 8

    assert w.tick(5) == []


def test_a_step_below_a_narrow_design_is_told():
    w = pcie()
    w.nics.gauge["pcie_width"][:] = 8
    w.nics.gauge["pcie_width"][3] = 4
    (finding,) = w.tick(5)

    assert (finding.entity, finding.against) == (3, "peers")


@pytest.mark.parametrize(
    ("signal", "rate", "verdict", "words"),
    [
        ("pcie_replays", 50, "degraded", "signal integrity"),
        ("pcie_correctable_errors", 50, "degraded", "repaired so far"),
        ("pcie_nonfatal_errors", 0.2, "degraded", "transactions are lost"),
        ("pcie_fatal_errors", 0.2, "failed", "reset"),
        ("pcie_buffer_overflows", 5000, "degraded", "the host, not the network"),
        ("pcie_stalled_seconds", 0.9, "degraded", "waits for the host"),
    ],
)
def test_counters_of_pcie(signal, rate, verdict, words):
    w = pcie()
    w.tick(3)
    w.nics.per_s[signal][5] = rate
    found = w.tick(25)

    assert [(f.entity, f.signal, f.verdict) for f in found] == [(5, signal, verdict)]
    assert words in " ".join(found[0].evidence)


def test_a_host_that_stalls_for_two_minutes_is_not_told():
    w = pcie()
    w.tick(3)
    for _ in range(4):
        w.nics.per_s["pcie_stalled_seconds"][5] = 0.9
        assert w.tick(8) == []
        w.nics.per_s["pcie_stalled_seconds"][5] = 0
        assert w.tick(12) == []


def test_pcie_no_data():
    w = pcie()
    w.nics.silent[2] = True
    w.tick(3)

    assert w.verdicts()[2] == V_NO_DATA
    assert w.verdicts()[3] == V_OK


# ---- slow NIC -------------------------------------------------------------------------------------------------------
def slow(**more):
    return World(SlowNic(), ports={"pfc_tx_paused_us[3]": 0, "rx_discards": 0}, **more)


def test_slow_and_holding_the_network_is_told():
    w = slow()
    w.tick(2)
    port, _ = w.link_end("n3/nic0/p1")
    for name in ("rx_bytes", "tx_bytes"):
        w.ports.per_s[name][port] = 8e9
    w.ports.per_s["pfc_tx_paused_us[3]"][port] = 0.4e6
    (finding,) = w.tick(18)

    assert finding.entity == port
    assert finding.value == pytest.approx(8e9, rel=0.01)
    assert finding.expected == pytest.approx(2e10, rel=0.01)
    assert "holds its switch 40% of the time" in finding.evidence[1]


@pytest.mark.parametrize(
    ("rate", "paused"),
    [(8e9, 0), (1e8, 0.4e6), (2e10, 0.4e6)],
    ids=["slow, but holds nobody: no work", "idle", "as fast as its mates"],
)
def test_what_is_not_slow_for_its_host(rate, paused):
    w = slow()
    port, _ = w.link_end("n3/nic0/p1")
    for name in ("rx_bytes", "tx_bytes"):
        w.ports.per_s[name][port] = rate
    w.ports.per_s["pfc_tx_paused_us[3]"][port] = paused

    assert w.tick(20) == []


def test_mates_that_are_idle_prove_nothing():
    w = slow()
    port, _ = w.link_end("n3/nic0/p1")
    for name in ("rx_bytes", "tx_bytes"):
        w.ports.per_s[name][:] = 1e6
        w.ports.per_s[name][port] = 5e5
    w.ports.per_s["pfc_tx_paused_us[3]"][port] = 0.4e6

    assert w.tick(20) == []


def test_a_nic_among_those_of_its_node():
    w = World(
        SlowNic(), nics={"tx_bytes": 4e10, "rx_bytes": 4e10, "pcie_stalled_seconds": 0}, nics_per_node=8, nics_per_t0=32
    )
    w.tick(2)
    w.nics.per_s["tx_bytes"][2] = w.nics.per_s["rx_bytes"][2] = 1e10
    w.nics.per_s["pcie_stalled_seconds"][2] = 0.8
    (finding,) = w.tick(18)

    assert (finding.kind, finding.entity) == ("nic", 2)
    assert "waits for PCIe 80% of the time" in finding.evidence


def test_slow_nic_no_data():
    w = slow()
    w.ports.silent[0] = True
    w.tick(3)
    verdicts = w.verdicts("slow-nic/port")

    assert verdicts[0] == V_NO_DATA
    assert (np.delete(verdicts, 0) == V_OK).all()
