"""Capacity, path counts and blast radius, against a search through the cables."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import Wiring, fabrics, make_fabric, wire

from railkeeper.fabric.blast import blast_of, blast_radius
from railkeeper.fabric.capacity import (
    both_directions,
    broken_mask,
    capacity,
    least_paths,
    path_counts,
    t0_pair_paths,
)
from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import Component, Kind, directed_name, parse_name

UP, DOWN = 0, 1


@st.composite
def broken_fabrics(draw) -> tuple[Fabric, list[int]]:
    """A fabric and some of its directed links, in no order, some twice."""
    fabric = draw(fabrics())
    return fabric, draw(st.lists(st.integers(0, 2 * fabric.n_links - 1), max_size=2 * fabric.n_links))


def neighbours(wiring: Wiring, broken: set[str]) -> dict[str, list[str]]:
    """Directed cables that are whole; a NIC's port and the NIC itself are one place."""
    out: dict[str, list[str]] = {}
    for lower, upper in wiring.links:
        if f"{lower}--{upper} up" not in broken:
            out.setdefault(lower, []).append(upper)
        if f"{lower}--{upper} down" not in broken:
            out.setdefault(upper, []).append(lower)
    return out


def search(edges: dict[str, list[str]], src: str, dst: str, plane: int) -> int:
    """Count the shortest ways from NIC to NIC in a plane that exist in the whole fabric: by T0, or by T0, T1, T0."""
    start, goal, found = f"{src}/p{plane}", f"{dst}/p{plane}", 0
    for t0 in edges.get(start, []):
        if goal in edges.get(t0, []):
            found += 1
        for t1 in (x for x in edges.get(t0, []) if "/t1-" in x):
            found += sum(goal in edges.get(far, []) for far in edges.get(t1, []) if far != t0)
    return found


@given(broken_fabrics(), st.integers(0, 2**32))
def test_path_counts_are_those_of_a_search(case, seed):
    fabric, broken = case
    wiring = wire(fabric)
    edges = neighbours(wiring, {directed_name(fabric, link) for link in broken})
    src, dst = np.random.default_rng(seed).integers(0, fabric.n_nics, (2, 20))

    counts = path_counts(fabric, src, dst, broken)

    for s, d, row in zip(src, dst, counts, strict=True):
        ways = [search(edges, wiring.nics[s], wiring.nics[d], p) if s != d else 0 for p in range(fabric.planes)]
        home = [wiring.home[wiring.nics[n], 0] for n in (s, d)]
        if home[0] == home[1]:  # packets between NICs of one T0 never go up
            ways = [min(w, 1) for w in ways]
        assert row.tolist() == ways


@given(broken_fabrics())
def test_capacity_is_the_sum_of_whole_cables(case):
    fabric, broken = case
    mask, g = broken_mask(fabric, broken), fabric.link_gbps
    nic, host, uplink, group, plane_host, plane_up = (Counter() for _ in range(6))
    for i, (lower, upper) in enumerate(wire(fabric).links):
        for way in (UP, DOWN):
            if mask[i, way]:
                continue
            domain, _, t0 = (upper if i < fabric.n_ports else lower).partition("/")
            if i < fabric.n_ports:
                nic[lower.rpartition("/")[0], way] += g
                host[upper, way] += g
                plane_host[domain, way] += g
            else:
                uplink[lower, way] += g
                group[domain.partition("p")[0], t0, way] += g
                plane_up[domain, way] += g

    left = capacity(fabric, broken)

    for table, counter in [
        (left.nic, nic), (left.t0_host, host), (left.t0_uplink, uplink), (left.group_uplink, group),
        (left.plane_host, plane_host), (left.plane_uplink, plane_up),
    ]:  # fmt: skip
        assert sorted(table[table > 0].tolist()) == sorted(counter.values())
    for n, name in enumerate(wire(fabric).nics):
        assert left.nic[n].tolist() == [nic[name, UP], nic[name, DOWN]]


@given(broken_fabrics())
def test_paths_between_t0s_agree_with_those_between_their_nics(case):
    fabric, broken = case
    uplinks_only = [link for link in broken if link >= 2 * fabric.n_ports]
    first = {(fabric.nic_rail[n], fabric.nic_t0_index[n]): n for n in reversed(range(fabric.n_nics))}

    least = least_paths(fabric, uplinks_only)

    for domain in range(fabric.n_domains):
        rail, plane = divmod(domain, fabric.planes)
        table = t0_pair_paths(fabric, domain, uplinks_only)
        pairs = list(itertools.permutations(range(fabric.t0_per_plane), 2))
        counts = [path_counts(fabric, first[rail, a], first[rail, b], uplinks_only)[0, plane] for a, b in pairs]
        assert [table[a, b] for a, b in pairs] == counts
        assert least[domain] == min(counts, default=-1)


@settings(max_examples=60)
@given(broken_fabrics())
def test_blast_is_what_all_pairs_and_all_nics_say(case):
    fabric, broken = case
    mask, g = broken_mask(fabric, broken), fabric.link_gbps
    whole, left = capacity(fabric), capacity(fabric, broken)

    blast = blast_of(fabric, broken)

    assert blast.links.tolist() == sorted({link // 2 for link in broken})
    assert blast.nics_hit.tolist() == [
        n for n in range(fabric.n_nics) if mask[n * fabric.planes : (n + 1) * fabric.planes].any()
    ]
    assert blast.nics_cut.tolist() == [n for n in range(fabric.n_nics) if 0 in left.nic[n]]
    assert blast.nic_share == pytest.approx(((whole.nic - left.nic) / whole.nic).max())
    assert blast.nic_gbps == pytest.approx(mask[: fabric.n_ports].sum(axis=0).max() * g)
    assert blast.uplink_gbps == pytest.approx(mask[fabric.n_ports :].sum(axis=0).max() * g)
    assert blast.t0_uplink_share == pytest.approx(((whole.t0_uplink - left.t0_uplink) / whole.t0_uplink).max())
    assert blast.plane_uplink_share == pytest.approx(
        ((whole.plane_uplink - left.plane_uplink) / whole.plane_uplink).max(axis=1)
    )
    assert (blast.paths_lost, blast.paths_lost_local) == most_paths_lost(fabric, broken)


def most_paths_lost(fabric: Fabric, broken) -> tuple[int, int]:
    """By all ordered pairs of NICs."""
    src, dst = (a.reshape(-1) for a in np.meshgrid(*[np.arange(fabric.n_nics)] * 2))
    lost = (path_counts(fabric, src, dst) - path_counts(fabric, src, dst, broken)).sum(axis=1)
    pair = (src != dst) & (fabric.nic_rail[src] == fabric.nic_rail[dst])
    local = fabric.nic_t0_index[src] == fabric.nic_t0_index[dst]
    return tuple(int(lost[pair & rows].max(initial=-1)) for rows in (~local, local))


KINDS = {
    Kind.NODE: lambda f: f.n_nodes, Kind.NIC: lambda f: f.n_nics, Kind.PORT: lambda f: f.n_ports,
    Kind.T0: lambda f: f.n_t0, Kind.T1: lambda f: f.n_t1, Kind.LINK: lambda f: f.n_links,
    Kind.NIC_OPTIC: lambda f: f.n_nics * f.optics_per_nic, Kind.T0_OPTIC: lambda f: f.n_t0 * f.optics_per_t0,
}  # fmt: skip


@settings(max_examples=60)
@given(fabrics(), st.data())
def test_blast_of_any_component(fabric, data):
    kind = data.draw(st.sampled_from([k for k, count in KINDS.items() if count(fabric)]))
    component = Component(kind, data.draw(st.integers(0, KINDS[kind](fabric) - 1)))

    blast = blast_radius(fabric, component)

    links = links_of(fabric, component)
    assert blast.links.tolist() == links.tolist()
    assert (blast.paths_lost, blast.paths_lost_local) == most_paths_lost(fabric, both_directions(links))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("n0/nic0/p0", {"nic_share": 1 / 8, "nic_gbps": 100, "uplink_gbps": 0, "paths_lost": 16, "paths_lost_local": 1}),
        ("n0/nic0/optic0", {"nic_share": 1 / 2, "nic_gbps": 400, "paths_lost": 64, "paths_lost_local": 4}),
        ("n0/nic0", {"nic_share": 1, "nic_gbps": 800, "paths_lost": 128, "paths_lost_local": 8}),
        ("p0/t0-0", {"nic_share": 1 / 8, "nic_gbps": 1600, "t0_uplink_share": 1, "paths_lost": 16, "paths_lost_local": 1}),
        ("p0/t1-0", {"nic_share": 0, "uplink_gbps": 800, "t0_uplink_share": 1 / 16, "paths_lost": 1, "paths_lost_local": 0}),
        ("p0/t0-0--p0/t1-0", {"nic_share": 0, "uplink_gbps": 100, "t0_uplink_share": 1 / 16, "paths_lost": 1}),
        ("p0/t0-0/optic0", {"nic_share": 1 / 8, "nic_gbps": 400, "paths_lost": 16}),
        ("p0/t0-0/optic7", {"nic_share": 0, "uplink_gbps": 400, "t0_uplink_share": 1 / 4, "paths_lost": 4}),
    ],
)  # fmt: skip
def test_blast_of_known_parts(name, expected):
    fabric = make_fabric(8, 8, 16, 16, optics=(4, 4))

    blast = blast_radius(fabric, parse_name(fabric, name))

    assert {key: getattr(blast, key) for key in expected} == expected


def test_the_share_of_a_plane_is_that_of_the_plane_hit():
    fabric = make_fabric(2, 2, 4, 4, per_node=2, rails=2)

    blast = blast_radius(fabric, parse_name(fabric, "r1p0/t1-3"))

    assert blast.plane_uplink_share.tolist() == [0, 0, 0.25, 0]


@pytest.mark.parametrize("ids", [[-1], [2 * 48], [0, 10**12]])
def test_ids_that_are_no_directed_links(ids):
    with pytest.raises(ValueError, match="directed link ids run from 0 to 95"):
        broken_mask(make_fabric(t0=4, t1=2), ids)


def test_many_pairs_are_counted_in_pieces():
    fabric = make_fabric(8, 64, 70, 16)
    src, dst = np.random.default_rng(1).integers(0, fabric.n_nics, (2, 150_000))

    counts = path_counts(fabric, src, dst)

    local = fabric.nic_t0_index[src] == fabric.nic_t0_index[dst]
    assert (counts == np.where(src == dst, 0, np.where(local, 1, 70))[:, None]).all()


def test_no_pairs():
    assert path_counts(make_fabric(), [], []).shape == (0, 2)
