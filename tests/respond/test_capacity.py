"""Capacity and path arithmetic, against counting path by path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from response_shapes import SMALL, directed, fabric

from railkeeper.fabric.paths import PathKind, links_crossed, make_paths
from railkeeper.respond.capacity import nic_capacity, path_share, plane_capacity, usable, worst_pair


@st.composite
def broken_fabrics(draw):
    rails = draw(st.sampled_from([1, 2]))
    f = fabric(
        planes=draw(st.integers(1, 3)),
        t0=draw(st.integers(1, 3)),
        t1=draw(st.integers(1, 3)),
        nics=draw(st.integers(1, 3)),
        per_node=rails,
        rails=rails,
    )
    denied = draw(st.sets(st.integers(0, 2 * f.n_links - 1), max_size=2 * f.n_links))
    return f, denied


def paths_between(f, denied, a, b, plane):
    """Count usable paths one by one, with the path arithmetic that the probes use."""
    local = f.nic_t0_index[a] == f.nic_t0_index[b]
    t1 = [-1] if local else list(range(f.t1_per_plane))
    crossed = links_crossed(f, make_paths([PathKind.ONEWAY] * len(t1), a, plane, dst=b, t1=t1))
    return sum(not (set(row.tolist()) & denied) for row in crossed)


def pairs(f):
    same = [(a, b) for a in range(f.n_nics) for b in range(f.n_nics) if a != b]
    return [(a, b) for a, b in same if f.nic_rail[a] == f.nic_rail[b]]


@given(broken_fabrics())
def test_path_share_is_the_count_of_paths(case):
    f, denied = case
    left = np.zeros(f.n_domains)
    full = np.zeros(f.n_domains)
    for a, b in pairs(f):
        if f.nic_t0_index[a] != f.nic_t0_index[b]:
            for plane in range(f.planes):
                domain = int(f.nic_rail[a]) * f.planes + plane
                left[domain] += paths_between(f, denied, a, b, plane)
                full[domain] += f.t1_per_plane
    expected = np.divide(left, full, out=np.ones_like(left), where=full > 0)

    assert expected == pytest.approx(path_share(f, usable(f, denied)))


@given(broken_fabrics(), st.integers(1, 3))
def test_worst_pair_is_the_least_over_all_pairs(case, min_paths):
    f, denied = case

    def planes(a, b):
        need = 1 if f.nic_t0_index[a] == f.nic_t0_index[b] else min_paths
        return sum(paths_between(f, denied, a, b, p) >= need for p in range(f.planes))

    every = pairs(f)
    worst = worst_pair(f, usable(f, denied), min_paths)

    assert min((planes(a, b) for a, b in every), default=f.planes) == worst.planes
    if every:
        assert (worst.src, worst.dst) in every
        assert planes(worst.src, worst.dst) == worst.planes


@given(broken_fabrics())
def test_more_denied_never_leaves_more(case):
    f, denied = case
    less, more = usable(f, list(denied)[: len(denied) // 2]), usable(f, denied)
    for share in (plane_capacity, nic_capacity, path_share):
        few, many = share(f, less), share(f, more)
        assert (many <= few + 1e-12).all()
        assert (many >= 0).all()
        assert (few <= 1 + 1e-12).all()


def test_a_whole_fabric_has_all_its_capacity():
    left = usable(SMALL, ())
    assert (plane_capacity(SMALL, left) == 1).all()
    assert (nic_capacity(SMALL, left) == 1).all()


@pytest.mark.parametrize(
    ("target", "direction", "plane_left", "nic_left"),
    [
        ("p0/t1-1", "both", 0.75, 0.875),
        ("p0/t1-1", "up", 0.75, 0.875),
        ("p0/t0-2", "both", 0.75, 0.5),
        ("p0/t0-2--p0/t1-1", "down", 15 / 16, 0.875),
        ("n3/nic0/p0", "up", 15 / 16, 0.5),
        ("n3", "both", 15 / 16, 0.0),
    ],
)
def test_what_a_part_takes_away(target, direction, plane_left, nic_left):
    left = usable(SMALL, directed(target, direction))
    assert plane_left == pytest.approx(plane_capacity(SMALL, left).min())
    assert nic_left == pytest.approx(nic_capacity(SMALL, left).min())


def test_uplinks_do_not_matter_under_a_single_t0():
    f = fabric(t0=1)
    left = usable(f, directed("p0/t0-0--p0/t1-0", f=f))
    assert plane_capacity(f, left).min() == 1
    assert nic_capacity(f, left).min() == 1


def test_an_oversubscribed_plane_loses_by_its_uplinks():
    f = fabric(t1=2, nics=4)
    assert plane_capacity(f, usable(f, directed("p0/t1-0", f=f))).min() == pytest.approx(0.5)
    assert plane_capacity(f, usable(f, directed("n0/nic0/p0", f=f))).min() == 1
