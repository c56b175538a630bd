"""The counter half of the benchmark on a small fabric: every fault is told, and nothing else; its telemetry is sound."""

from __future__ import annotations

import numpy as np
import pytest

from railkeeper.app import bench_tick
from railkeeper.app.bench_fleet import Fleet, values_in
from railkeeper.app.bench_fleet_kernels import ECN, FEC_BITS, PORT_COUNTERS, RX_BITS, RX_BYTES, TX_BYTES
from railkeeper.app.bench_tick_faults import missed, ten_faults, unexplained
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.detect.finding import Finding
from railkeeper.telemetry.frame import ABSENT

SPEC = (
    "[fabric]\nplanes = 4\nt0_per_plane = 16\nt1_per_plane = 16\nnics_per_t0 = 32\nnics_per_node = 4\nlink_gbps = 100\n"
)


@pytest.fixture(scope="module")
def fabric():
    return Fabric(parse_spec(SPEC))


def finding(kind, entity):
    return Finding("d", kind, entity, "degraded", "s", 1.0, 0.0, "", "limit", 0.0, 1.0)


def test_counters_grow_as_links_carry(fabric):
    fleet = Fleet(fabric, 10.0)
    fleet.tick()
    before = fleet.port_counters.copy()
    frame = fleet.tick()
    block = frame.blocks["port"]
    grown = (block.counters - before).astype(np.float64)

    assert block.counter_names == PORT_COUNTERS
    assert (grown[TX_BYTES] <= 100e9 / 8 * 10.5).all()
    assert grown[TX_BYTES].sum() == pytest.approx(grown[RX_BYTES].sum(), rel=0.01)
    assert np.median(grown[FEC_BITS] / grown[RX_BITS]) == pytest.approx(1e-9, rel=0.5)
    assert (block.counters[ECN, ::2][: fabric.n_ports] == ABSENT).all()
    assert values_in(frame) < block.counters.size + frame.blocks["nic"].counters.size + fabric.n_t0 + fabric.n_t1
    assert frame.t_s - 0.3 < block.t_ns.min() * 1e-9 <= frame.t_s


def test_runs_repeat(fabric):
    one, two = Fleet(fabric, 10.0), Fleet(fabric, 10.0)
    for _ in range(2):
        a, b = one.tick(), two.tick()

    assert (a.blocks["port"].counters == b.blocks["port"].counters).all()
    assert (a.blocks["nic"].counters == b.blocks["nic"].counters).all()


def test_findings_are_held_against_what_was_injected(fabric):
    faults = ten_faults(Fleet(fabric, 10.0))
    assert len({f.name for f in faults}) == 10
    assert len(missed(faults, [])) == 10

    every = [finding(*min(f.right)) for f in faults]
    assert missed(faults, every) == []
    assert unexplained(faults, every) == []
    stray = finding("port", 7)
    assert unexplained(faults, [*every, stray]) == [stray]
    assert unexplained([], every) == every


@pytest.mark.slow
def test_all_faults_are_told_and_nothing_else(fabric):
    seen = bench_tick.measure_counters(fabric, 24)

    assert seen.errors == {}
    assert seen.missed == []
    assert seen.false_alarms == {}
