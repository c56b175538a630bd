from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_fabrics import fabric

from railkeeper.fabric.paths import PathKind, links_crossed
from railkeeper.fabric.paths import PathKind as K
from railkeeper.probe.plan import ProbeBudget, make_plan
from railkeeper.probe.wire import fits, make_stamper

SHAPES = st.tuples(
    st.integers(1, 3), st.integers(1, 5), st.integers(1, 9), st.integers(1, 8), st.sampled_from([1, 2])
)  # fmt: skip


def plans(f, **budget):
    return {n: make_plan(f, n, ProbeBudget(**budget)) for n in range(f.n_nodes)}


def probers(f, all_plans, *, kinds=tuple(PathKind)):
    """The NICs that probe each directed link."""
    out = collections.defaultdict(set)
    for plan in all_plans.values():
        paths = plan.paths.take(np.isin(plan.paths.kind, kinds))
        for nic, links in zip(paths.src, links_crossed(f, paths), strict=True):
            for link in links[links >= 0]:
                out[int(link)].add(int(nic))
    return out


def test_small_lab_plan_is_the_intended_one():
    plan = make_plan(fabric(), 5)
    count = collections.Counter(plan.paths.kind.tolist())

    assert count == {K.T0_BOUNCE: 2, K.T1_BOUNCE: 8, K.FAR_BOUNCE: 8, K.ONEWAY: 16}
    assert plan.probes_per_s == pytest.approx(600)
    assert plan.rate[plan.paths.kind == K.T0_BOUNCE] == pytest.approx(50, rel=0.1)
    assert plan.rate[plan.paths.kind == K.T1_BOUNCE] == pytest.approx(34, rel=0.1)
    assert plan.train_rate[plan.paths.kind == K.T1_BOUNCE] == pytest.approx(1)
    assert set(plan.paths.dst[plan.paths.kind == K.ONEWAY]) == {9, 13}


@given(SHAPES)
def test_every_directed_link_has_its_probers(shape):
    planes, t0, t1, nics, rails = shape
    f = fabric(planes, t0, t1, nics, per_node=rails, rails=rails)
    all_plans = plans(f)
    seen = probers(f, all_plans, kinds=(K.T0_BOUNCE, K.T1_BOUNCE))

    for link in range(f.n_links):
        for directed in (2 * link, 2 * link + 1):
            assert len(seen[directed]) >= (1 if link < f.n_ports else min(4, nics))


@given(SHAPES)
def test_far_t0s_uplinks_are_seen_from_other_t0s(shape):
    planes, t0, t1, nics, rails = shape
    f = fabric(planes, t0, t1, nics, per_node=rails, rails=rails)
    seen = probers(f, plans(f), kinds=(K.FAR_BOUNCE,))

    for link in range(f.n_ports, f.n_links):
        t0_index = int(f.link_lower[link]) % f.t0_per_plane
        for directed in (2 * link, 2 * link + 1):
            others = {n for n in seen[directed] if f.nic_t0_index[n] != t0_index}
            assert t0 == 1 or others


@given(SHAPES)
def test_one_way_probes_leave_and_reach_every_nic_equally(shape):
    planes, t0, t1, nics, rails = shape
    f = fabric(planes, t0, t1, nics, per_node=rails, rails=rails)
    pairs = [
        (int(s), int(d))
        for plan in plans(f).values()
        for s, d in {
            (s, d) for k, s, d in zip(plan.paths.kind, plan.paths.src, plan.paths.dst, strict=True) if k == K.ONEWAY
        }
    ]
    out, into = collections.Counter(s for s, _ in pairs), collections.Counter(d for _, d in pairs)

    if t0 * nics > 1:
        assert set(out) == set(into) == set(range(f.n_nics))
        assert len(set(out.values())) == len(set(into.values())) == 1
        assert all(f.nic_rail[s] == f.nic_rail[d] for s, d in pairs)
        assert t0 == 1 or all(f.nic_t0_index[s] != f.nic_t0_index[d] for s, d in pairs)


@given(SHAPES, st.floats(10, 1e5))
def test_the_budget_is_spent_and_not_more_and_paths_are_real(shape, budget):
    planes, t0, t1, nics, rails = shape
    f = fabric(planes, t0, t1, nics, per_node=rails, rails=rails)
    plan = make_plan(f, 0, ProbeBudget(probes_per_s=budget))

    assert plan.probes_per_s == pytest.approx(budget)
    assert (plan.rate > 0).all()
    assert fits(f, plan.paths).all()
    assert len(set(make_stamper(plan.paths).keys.tolist())) == len(plan)


def test_a_large_fabric_spreads_t1s_over_nodes():
    f = fabric(8, 512, 256, 256, per_node=4)
    plan = make_plan(f, 777, ProbeBudget(probes_per_s=64_000))

    assert (plan.paths.kind == K.T0_BOUNCE).sum() == 32
    assert (plan.paths.kind == K.T1_BOUNCE).sum() == 128
    seen = collections.Counter()
    for node in range(64):  # the nodes of one T0
        p = make_plan(f, node).paths
        bounce = p.take((p.kind == K.T1_BOUNCE) & (p.plane == 3))
        seen.update({(node, int(t)) for t in bounce.t1})
    agents = collections.Counter(t for _, t in seen)
    assert set(agents.values()) == {4}  # each T1 from four different nodes
