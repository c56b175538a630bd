"""The plan alone, no kernel: its routes, followed uSID by uSID, must give the paths of the path arithmetic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_packets import fabric_of, small_fabric

from railkeeper.base.errors import InputError
from railkeeper.fabric import address
from railkeeper.fabric.paths import PathKind, links_crossed, make_paths, outer_addresses
from railkeeper.lab import names
from railkeeper.lab.build import build
from railkeeper.lab.plan import LabPlan


@st.composite
def fabrics(draw):
    size = st.integers(1, 4)
    per_node = draw(st.sampled_from([1, 2]))
    rails = draw(st.sampled_from([1, per_node]))
    t0 = draw(size)
    per_t0 = draw(size)
    if rails == 1 and (t0 * per_t0) % per_node:
        per_t0 *= per_node
    return fabric_of(
        planes=draw(size), t0_per_plane=t0, t1_per_plane=draw(size), nics_per_t0=per_t0, nics_per_node=per_node, rails=rails
    )  # fmt: skip


def walk(plan, path):
    """Forward a packet as the namespaces would; returns the directed links crossed and the NIC reached."""
    f = plan.fabric
    to = outer_addresses(f, path)[0].tobytes()
    end = 2 * int(f.port_link(path.src, path.plane)[0])
    crossed = []
    while True:
        crossed.append(end)
        space = plan.space(names.space_of_end(f, end ^ 1))
        if not space.switch:
            assert (end ^ 1, to) in space.addresses
            return crossed, (end ^ 1) // 2 // f.planes
        route = lookup(space, to)
        if route.end < 0:
            to = address.shift(to)
            route = lookup(space, to)
        end = route.end


def lookup(space, to):
    (match,) = [r for r in space.routes if to[: r.bits // 8] == r.prefix[: r.bits // 8]]
    return match


@settings(max_examples=60, deadline=None)
@given(fabrics(), st.data())
def test_routes_followed_step_by_step_cross_the_links_that_path_arithmetic_says(f, data):
    plan = LabPlan(f, "rk")
    src = data.draw(st.integers(0, f.n_nics - 1))
    peers = [n for n in range(f.n_nics) if f.nic_rail[n] == f.nic_rail[src]]
    kind = data.draw(st.sampled_from(PathKind))
    index = st.integers(0, f.t1_per_plane - 1)
    path = make_paths(
        kind, src, data.draw(st.integers(0, f.planes - 1)), t1=data.draw(index), back=data.draw(index),
        dst=data.draw(st.sampled_from(peers)) if kind is PathKind.ONEWAY else src,
        far=data.draw(st.integers(0, f.t0_per_plane - 1)),
    )  # fmt: skip

    crossed, nic = walk(plan, path)

    assert [int(x) for x in links_crossed(f, path)[0] if x >= 0] == crossed
    assert int(path.dst[0]) == nic


@settings(max_examples=30, deadline=None)
@given(fabrics())
def test_every_end_of_every_link_is_in_one_namespace_under_names_that_do_not_collide(f):
    plan = LabPlan(f, "rk")
    spaces = [plan.space(i) for i in range(plan.n_spaces)]

    assert sorted(end for s in spaces for end in s.ends) == list(range(2 * f.n_links))
    for i, s in enumerate(spaces):
        assert all(names.space_of_end(f, end) == i for end in s.ends)
        for of in (names.interface_of_end, names.index_of_end):
            assert len({of(f, end) for end in s.ends}) == len(s.ends)
    assert len(set(plan.space_names)) == plan.n_spaces


def test_names_are_those_that_people_will_type():
    f = small_fabric()

    assert LabPlan(f, "rk").space_names[0] == "rk-n0"
    assert names.t0_ns(f, "rk", 3) == "rk-p1t0-1"
    assert names.t1_ns(f, "rk", 2) == "rk-p1t1-0"
    assert names.nic_interface(f, 1) == "nic0p1"


@pytest.mark.parametrize("prefix", ["", "a-b", "a/b", "x" * 17])
def test_a_bad_prefix_says_what_is_right(prefix):
    with pytest.raises(InputError, match="letters"):
        names.check_prefix(prefix)


def test_a_fabric_that_is_too_large_is_refused_before_anything_is_touched():
    f = fabric_of(planes=8, t0_per_plane=512, t1_per_plane=256, nics_per_t0=256)
    with pytest.raises(InputError, match="a lab holds at most"):
        build(f)
