"""Fused evidence: each kind alone, kinds that agree, that contradict, and that split each other's ties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from health_worlds import fault, small_fabric

from railkeeper.base.errors import InputError
from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.paths import PathKind, links_crossed, make_paths
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.detect.finding import Finding
from railkeeper.health.fuse.evidence import FlowTotals, PathTable
from railkeeper.health.fuse.fuse import fuse
from railkeeper.health.synth import Event, World
from railkeeper.probe.pathstats import join_stats
from railkeeper.telemetry.ports import DOWN, UP, PortStates

FABRIC = Fabric(parse_spec("[fabric]\nplanes = 2\nt0_per_plane = 8\nt1_per_plane = 8\nnics_per_t0 = 4\n"))
LINK = "p0/t0-2--p0/t1-5"


def directed(name, way):
    return 2 * int(links_of(FABRIC, parse_name(FABRIC, name))[0]) + way


def table(pairs, rate, bad, n=1600, seed=0, censor=False):
    """Path table of traffic between pairs of NICs over all planes and T1s; directed links `bad` lose `rate`."""
    rng = np.random.default_rng(seed)
    f = FABRIC
    plane, t1 = np.divmod(np.arange(f.planes * f.t1_per_plane), f.t1_per_plane)
    src, dst = (np.repeat([p[i] for p in pairs], len(plane)).astype(np.int32) for i in (0, 1))
    plane, t1 = (np.tile(a, len(pairs)).astype(np.int32) for a in (plane, t1))
    crossed = links_crossed(f, make_paths(PathKind.ONEWAY, src, plane, dst=dst, t1=t1))
    chance = 1 - (1 - 1e-5) * (1 - rate) ** np.isin(crossed, list(bad)).sum(axis=1)
    sent = np.full(len(src), n // (f.planes * f.t1_per_plane), dtype=np.int64) if not censor else None
    if censor:  # a path is left at its first loss
        first = rng.geometric(chance)
        sent = np.minimum(first, 400)
        return PathTable(src, dst, plane, t1, sent.astype(np.int64), (first <= 400).astype(np.int64))
    return PathTable(src, dst, plane, t1, sent, rng.binomial(sent, chance))


def totals(t):
    pairs, of = np.unique(np.stack([t.src, t.dst], axis=1), axis=0, return_inverse=True)
    n = len(pairs)
    sums = [np.bincount(of.ravel(), weights=x, minlength=n).astype(np.int64) for x in (t.sent, t.lost)]
    return FlowTotals(pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32), *sums)


def uniform(count, seed=1):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, FABRIC.n_nics, (count, 2))
    return [p for p in pairs.tolist() if p[0] // 4 != p[1] // 4]


def ring(count, seed=1):
    """Each T0's NICs talk to those of the next one only."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, FABRIC.n_nics, count)
    dst = (src // 4 + 1) % 8 * 4 + rng.integers(0, 4, count)
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def probes(*faults, ticks=40, seed=3):
    world = World(FABRIC, [Event(x, 0.0) for x in faults], seed=seed)
    return join_stats([world.tick(k).stats for k in range(ticks)])


def counted(name, way, confidence=0.95, signal="rx_crc_errors"):
    """A finding of the port that receives a directed link."""
    d = directed(name, way)
    port = 2 * (d // 2) + (1 - d % 2)
    return Finding(
        "link errors", "port", port, "degraded", signal, 30.0, 0.0, "1/s", "peers", 0.0, confidence, ("many",)
    )  # fmt: skip


def ports_with(down=()):
    n = FABRIC.n_links
    state = np.full(n, UP, dtype=np.int8)
    state[list(down)] = DOWN
    zero = np.zeros(n, dtype=np.int64)
    return PortStates(state, state, zero, zero, np.full(FABRIC.n_t0 + FABRIC.n_t1, UP, dtype=np.int8))


def only(faults):
    assert len(faults) == 1, [(f.target, f.direction, f.kind, f.rate, f.evidence) for f in faults]
    return faults[0]


# -- each alone ---------------------------------------------------------------------------------------
def test_nothing_known_is_no_fault_and_quiet_evidence_neither():
    assert fuse(FABRIC) == ()
    t = table(uniform(400), 0.0, ())
    assert fuse(FABRIC, probes=probes(), ev_tables=t, flow_totals=totals(t), ports=ports_with()) == ()


def test_probes_alone():
    f = only(fuse(FABRIC, probes=probes(fault(FABRIC, "loss", LINK, "up", rate=0.05))))
    assert (f.target, f.kind, f.direction) == (LINK, "loss", "up")
    assert 0.035 < f.rate < 0.065
    assert f.evidence[0].startswith("probes: ")


def test_a_switch_and_a_nic_by_probes_are_told_as_such():
    for target in ("p0/t1-3", "n6/nic0"):
        told = fuse(FABRIC, probes=probes(fault(FABRIC, "loss", target, rate=0.1)))
        assert only(told).target == target


@pytest.mark.parametrize("censor", [False, True])
def test_path_tables_alone_name_the_link_and_its_direction(censor):
    t = table(uniform(600), 0.01, {directed(LINK, 0)}, n=6400, censor=censor)
    f = only(fuse(FABRIC, ev_tables=t))
    assert (f.target, f.direction, f.indistinguishable) == (LINK, "up", ())
    assert 0.004 < f.rate < 0.025


def test_bad_flows_alone_name_the_link():
    t = table(uniform(800), 0.03, {directed(LINK, 1)}, n=6400)
    bad = PathTable(*(c[t.lost > 0] for c in (t.src, t.dst, t.plane, t.t1, t.sent, t.lost)))
    f = only(fuse(FABRIC, bad_flows=bad))
    assert (f.target, f.direction) == (LINK, "down")


def test_flow_totals_alone_name_the_class():
    """Evenly spread packets cross each uplink of a T0 alike: whatever the algorithm, the answer is all of them."""
    t = totals(table(uniform(3000), 0.02, {directed(LINK, 0)}, n=16000))
    f = only(fuse(FABRIC, flow_totals=t))
    mine = {f"p{p}/t0-2--p{p}/t1-{j}" for p in (0, 1) for j in range(8)}
    assert set(f.indistinguishable) == mine  # of both planes: their flows are spread over these too
    assert f.direction == "up"


def test_counters_alone_are_told_with_what_they_counted():
    f = only(fuse(FABRIC, findings=[counted(LINK, 0)]))
    assert (f.target, f.kind, f.direction) == (LINK, "corrupt", "up")
    assert math.isnan(f.rate)
    assert fuse(FABRIC, findings=[counted(LINK, 0, confidence=0.6)]) == ()


def test_port_states_alone():
    f = only(fuse(FABRIC, ports=ports_with([directed(LINK, 0) // 2])))
    assert (f.target, f.kind, f.direction, f.evidence) == (LINK, "down", "both", ("no carrier",))


# -- ties ----------------------------------------------------------------------------------------------
def test_ring_traffic_by_path_is_a_class_of_two():
    """Uplink (i, s) and downlink (s, i + 1) are always crossed together."""
    f = only(fuse(FABRIC, ev_tables=table(ring(1500), 0.01, {directed(LINK, 0)}, n=6400)))
    assert {f.target, *f.indistinguishable} == {LINK, "p0/t0-3--p0/t1-5"}
    assert set(f.denied_links) == {directed(LINK, 0), directed("p0/t0-3--p0/t1-5", 1)}


def test_ring_traffic_by_totals_is_a_class_of_both_sides():
    f = only(fuse(FABRIC, flow_totals=totals(table(ring(3000), 0.02, {directed(LINK, 0)}, n=16000))))
    both = {f"p{p}/t0-{i}--p{p}/t1-{j}" for p in (0, 1) for i in (2, 3) for j in range(8)}
    assert set(f.indistinguishable) == both


def test_probes_split_the_ring_s_tie():
    t = table(ring(1500), 0.05, {directed(LINK, 0)}, n=6400)
    f = only(fuse(FABRIC, ev_tables=t, probes=probes(fault(FABRIC, "loss", LINK, "up", rate=0.05))))
    assert (f.target, f.direction, f.indistinguishable) == (LINK, "up", ())
    assert any(x.startswith("probes") for x in f.evidence)
    assert any(x.startswith("path tables") for x in f.evidence)


def test_counters_split_the_ring_s_tie():
    t = table(ring(1500), 0.01, {directed(LINK, 0)}, n=6400)
    f = only(fuse(FABRIC, ev_tables=t, findings=[counted(LINK, 0)]))
    assert (f.target, f.indistinguishable) == (LINK, ())
    assert any("agrees" in x for x in f.evidence)
    other = "p0/t0-3--p0/t1-5"
    f = only(fuse(FABRIC, ev_tables=t, findings=[counted(other, 1)]))
    assert (f.target, f.direction, f.indistinguishable) == (other, "down", ())


# -- agreement and contradiction -----------------------------------------------------------------------
def test_totals_that_bear_a_link_out_agree_and_make_no_class_of_their_own():
    t = table(uniform(3000), 0.02, {directed(LINK, 0)}, n=16000)
    f = only(fuse(FABRIC, probes=probes(fault(FABRIC, "loss", LINK, "up", rate=0.02)), flow_totals=totals(t)))
    assert f.target == LINK
    assert "flow totals of p0/t0-2: agree" in f.evidence


def test_probes_lose_and_traffic_does_not():
    """Something about the probes: the fault is told, with less confidence and the reason."""
    t = table(uniform(3000), 0.0, (), n=16000)
    lossy = probes(fault(FABRIC, "loss", LINK, "up", rate=0.05))
    alone = only(fuse(FABRIC, probes=lossy))
    f = only(fuse(FABRIC, probes=lossy, flow_totals=totals(t)))
    assert any(x.startswith("flow totals") and x.endswith("contradicts") for x in f.evidence)
    assert f.confidence < alone.confidence


def test_a_link_that_loses_and_counts_nothing_is_gray():
    lossy = probes(fault(FABRIC, "loss", LINK, rate=0.05))
    f = only(fuse(FABRIC, probes=lossy, clean=[directed(LINK, 0), directed(LINK, 1)]))
    assert f.target == LINK
    assert "counters clean at both ends: it loses without counting" in f.evidence


def test_counters_that_count_while_paths_lose_nothing():
    f = only(fuse(FABRIC, probes=probes(), findings=[counted(LINK, 0)]))
    assert f.kind == "corrupt"
    assert any(x.startswith("paths over it: 0 of ") for x in f.evidence)


def test_a_port_that_says_down_while_packets_pass_contradicts():
    f = only(fuse(FABRIC, probes=probes(), ports=ports_with([directed(LINK, 0) // 2])))
    assert f.evidence[-1].endswith("contradicts")
    assert f.confidence < 0.6


def test_two_faults_each_seen_by_other_evidence():
    other = "p1/t0-6--p1/t1-1"
    t = table(uniform(800), 0.02, {directed(other, 1)}, n=6400)
    told = fuse(FABRIC, probes=probes(fault(FABRIC, "loss", LINK, "up", rate=0.05)), ev_tables=t)
    assert {f.target for f in told} == {LINK, other}


def test_evidence_of_another_fabric_is_refused():
    t = table(uniform(5), 0.0, ())
    with pytest.raises(InputError, match="plane"):
        fuse(small_fabric(), ev_tables=PathTable(t.src % 16, (t.src + 1) % 16, t.plane + 2, t.t1 % 4, t.sent, t.lost))
    with pytest.raises(InputError, match="only flows that lost"):
        fuse(FABRIC, bad_flows=t)
