"""Amounts by scope against counting one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.fabric.capacity import path_counts
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.fabric.spec import check_spec
from railkeeper.health.slo import slis
from railkeeper.health.slo.keep import keep, new_slo_state
from railkeeper.health.slo.objectives import Slo
from railkeeper.health.slo.scopes import Job, Scopes
from railkeeper.health.slo.usual import learn, new_usual
from railkeeper.probe.pathstats import HIST_EDGES_NS, empty_stats
from railkeeper.telemetry.fabric_entities import port_entities
from railkeeper.telemetry.frame import Rates

SHAPES = [
    {"planes": 2, "t0_per_plane": 4, "t1_per_plane": 3, "nics_per_t0": 2},
    {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 2, "nics_per_t0": 4, "nics_per_node": 2, "rails": 2},
]
FABRICS = [Fabric(check_spec({"fabric": shape})) for shape in SHAPES]
JOBS = (Job("a", (0, 1)), Job("b", (3,)))


def scopes_of(fabric):
    return Scopes(fabric, 2, JOBS)


@pytest.mark.parametrize("fabric", FABRICS)
def test_names_are_as_many_as_scopes_and_each_its_own(fabric):
    scopes = scopes_of(fabric)
    assert len(scopes.names) == len(scopes) == len(set(scopes.names))
    assert scopes.names[0] == "fabric"
    assert scopes.names[-2:] == ("job/a", "job/b")


@pytest.mark.parametrize("fabric", FABRICS)
def test_rows_count_in_all_their_scopes(fabric):
    scopes = scopes_of(fabric)
    rng = np.random.default_rng(5)
    n = 200
    nic = rng.integers(0, fabric.n_nics, n)
    plane = rng.integers(0, fabric.planes, n)
    good, total = rng.integers(0, 5, n).astype(float), np.full(n, 5.0)
    sums = scopes.of_each_link(nic * fabric.planes + plane, good, total)
    found = dict(zip(scopes.names, sums.tolist(), strict=True))
    rail, t0 = fabric.nic_rail[nic], fabric.nic_t0_index[nic]
    for p in range(fabric.planes):
        assert found[f"plane/p{p}"] == [good[plane == p].sum(), total[plane == p].sum()]
    for r in range(fabric.rails):
        assert found[f"rail/r{r}"][0] == good[rail == r].sum()
        for t in range(fabric.t0_per_plane):
            name = f"t0-group/r{r}-{t}" if fabric.rails > 1 else f"t0-group/{t}"
            assert found[name][0] == good[(rail == r) & (t0 == t)].sum()
    assert found["pod/0"][0] == good[t0 < 2].sum()
    assert found["job/a"][0] == good[np.isin(fabric.node_of(nic), (0, 1))].sum()
    assert found["fabric"] == [good.sum(), total.sum()]


@given(st.sampled_from(FABRICS), st.data())
def test_surviving_paths_are_those_counted_pair_by_pair(fabric, data):
    broken = data.draw(st.lists(st.integers(0, 2 * fabric.n_links - 1), max_size=12, unique=True))
    unseen = data.draw(st.lists(st.integers(0, fabric.n_links - 1), max_size=5, unique=True))
    seen = np.ones(fabric.n_links, dtype=bool)
    seen[unseen] = False
    scopes = scopes_of(fabric)
    sums = slis.path_diversity(fabric, scopes, np.array(broken, dtype=np.int64), seen)
    found = dict(zip(scopes.names, sums, strict=True))
    unknown = {2 * link + way for link in unseen for way in (0, 1)} - set(broken)
    src, dst = (a.reshape(-1) for a in np.meshgrid(np.arange(fabric.n_nics), np.arange(fabric.n_nics)))
    apart = (fabric.nic_t0_index[src] != fabric.nic_t0_index[dst]) & (fabric.nic_rail[src] == fabric.nic_rail[dst])
    src, dst = src[apart], dst[apart]
    left = path_counts(fabric, src, dst, sorted({*broken, *unknown}))
    whole = path_counts(fabric, src, dst, sorted(unknown))
    assert found["fabric"].tolist() == [left.sum(), whole.sum()]
    for p in range(fabric.planes):
        assert found[f"plane/p{p}"].tolist() == [left[:, p].sum(), whole[:, p].sum()]
    mine = np.isin(fabric.node_of(src), (0, 1))
    assert found["job/a"].tolist() == [left[mine].sum(), whole[mine].sum()]


def stats_of(fabric, sent, received):
    n = len(sent)
    paths = make_paths([PathKind.T1_BOUNCE] * n, np.arange(n) % fabric.n_nics, np.arange(n) % fabric.planes, t1=0)
    made = empty_stats(paths)
    return replace(made, sent=np.array(sent), received=np.array(received))


def test_loss_leaves_out_what_nobody_knows():
    fabric = FABRICS[0]
    found = slis.loss(fabric, scopes_of(fabric), stats_of(fabric, [10, 10, -1, 10], [9, -1, 5, 10]))
    assert found[0].tolist() == [19, 20]


def test_latency_counts_whole_bins():
    fabric = FABRICS[0]
    stats = stats_of(fabric, [10], [10])
    stats.delay_hist[0, 3], stats.delay_hist[0, 9] = 7, 3
    limit_us = HIST_EDGES_NS[3] / 1e3
    assert slis.latency(fabric, scopes_of(fabric), stats, limit_us)[0].tolist() == [7, 10]
    assert slis.latency(fabric, scopes_of(fabric), stats, 1e6)[0].tolist() == [10, 10]


def test_bandwidth_leaves_out_what_was_not_measured():
    fabric = FABRICS[0]
    stats = replace(stats_of(fabric, [1, 1, 1], [1, 1, 1]), train_bps=np.array([20e6, 5e6, np.nan]))
    assert slis.bandwidth(fabric, scopes_of(fabric), stats, 18e6)[0].tolist() == [1, 2]


def test_links_that_nobody_saw_are_not_counted():
    fabric = FABRICS[0]
    seen, bad = np.zeros(fabric.n_links, dtype=bool), np.zeros(fabric.n_links, dtype=bool)
    seen[[0, 1, fabric.n_ports]], bad[[1, 2]] = True, True
    found = dict(zip(scopes_of(fabric).names, slis.link_health(scopes_of(fabric), seen, bad), strict=True))
    assert found["fabric"].tolist() == [2, 3]
    assert found["plane/p0"].tolist() == [2, 2]
    assert found["plane/p1"].tolist() == [0, 1]
    assert found["t0-group/0"].tolist() == [2, 3]
    assert found["t0-group/1"].tolist() == [0, 0]


def test_congestion_needs_both_counters():
    fabric = FABRICS[0]
    ports = port_entities(fabric)
    n = len(ports)
    per_s = np.full((2, n), np.nan, dtype=np.float32)
    rates = Rates(("rx_packets", "ecn_marked_rx"), np.full(n, 2, np.float32), per_s, np.zeros((2, n), np.uint8))
    per_s[:, 0], per_s[0, 2] = (100, 10), 100
    assert slis.congestion(scopes_of(fabric), ports, rates)[0].tolist() == [180, 200]
    only = Rates(("rx_packets",), rates.dt_s, per_s[:1], rates.flags[:1])
    assert slis.congestion(scopes_of(fabric), ports, only).sum() == 0


def test_delivery_counts_what_is_lost_at_either_end():
    fabric = FABRICS[0]
    ports = port_entities(fabric)
    n, names = len(ports), ("rx_packets", "tx_packets", "rx_errors", "rx_crc_errors", "tx_discards")
    per_s = np.full((5, n), np.nan, dtype=np.float32)
    rates = Rates(names, np.full(n, 2, np.float32), per_s, np.zeros((5, n), np.uint8))
    per_s[:, 0] = 100, 100, 3, 9, np.nan  # errors as a whole count, not checksums beside them
    per_s[:, 1] = 50, np.nan, np.nan, 4, 1
    per_s[:2, 2] = 1000, 1000  # counts nothing that is lost
    first_up = 2 * fabric.n_ports
    per_s[:, first_up] = 10, 0, 0, 0, 20  # more dropped than passed
    found = dict(zip(scopes_of(fabric).names, slis.delivery(scopes_of(fabric), rates), strict=True))
    assert found["fabric"].tolist() == [2 * (200 - 3 + 50 - 5 + 0), 2 * (200 + 50 + 20)]
    assert found["plane/p0"].tolist() == found["fabric"].tolist()
    assert found["t0-group/0"].tolist() == found["fabric"].tolist()


def test_what_is_usual_is_learnt_and_fades_slowly():
    usual, nodes = new_usual(2), np.array([1])
    assert np.isnan(learn(usual, 0.0, nodes, np.array([5.0])))
    for t in range(1, 200):
        known = learn(usual, float(t), nodes, np.array([10.0]))
    assert known == pytest.approx(10.0)
    for t in range(200, 1200):
        known = learn(usual, float(t), nodes, np.array([2.0]))
    assert 8.5 < known[0] < 10
    assert np.isnan(usual.bps[0])


def test_what_was_reached_before_a_pause_is_older_after_it():
    usual, nodes = new_usual(1), np.array([0])
    for t in range(200):
        learn(usual, float(t), nodes, np.array([10.0]))
    known = learn(usual, 200.0 + 4 * 3600, nodes, np.array([6.0]))
    assert known == pytest.approx(2.5, rel=0.02)  # half in two hours
    for t in range(100):
        known = learn(usual, 210.0 + 4 * 3600 + t, nodes, np.array([6.0]))
    assert known == pytest.approx(6.0)
    assert learn(usual, 5.0, nodes, np.array([6.0])) == pytest.approx(6.0, rel=0.01)  # the clock was set back


def test_collectives_and_what_they_cost():
    fabric = FABRICS[0]
    scopes = scopes_of(fabric)
    nodes = np.array([0, 1, 2])
    busbw, usual = np.array([9.7, 5.0, 5.0]), np.array([10.0, 10.0, np.nan])
    assert slis.collective(scopes, nodes, busbw, usual, 0.8)[0].tolist() == [1, 2]
    lost = dict(
        zip(scopes.names, slis.job_impact(scopes, nodes, busbw, usual, share=0.8, gpu_seconds=8.0), strict=True)
    )
    assert lost["job/a"].tolist() == [12, 16]
    assert lost["job/b"].tolist() == [0, 0]


def test_minutes_are_told_when_they_end_and_only_once():
    fabric = FABRICS[0]
    scopes, state = Scopes(fabric), new_slo_state(fabric.n_nodes)
    slos = (Slo("x", "packet-loss", "fabric", 0.99),)
    bad = np.zeros((len(scopes), 2))
    bad[0] = 50, 100
    told, moved = [], []
    for t in range(0, 600, 10):
        rows, changed = keep(state, scopes, slos, 60_000.0 + t, {"packet-loss": bad})
        told += rows
        moved += changed
    assert [(r.t_s, r.good, r.total) for r in told] == [(60_060.0 + 60 * k, 300, 600) for k in range(9)]
    assert {r.scope for r in told} == {"fabric"}
    assert [(x.slo.name, x.state) for x in moved] == [("x", "page")]
