"""Names both ways, and names that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import fabrics, make_fabric, wire

from railkeeper.base.errors import InputError
from railkeeper.fabric.names import Component, Kind, directed_name, link_name, name_of, parse_name

SMALL = make_fabric(optics=(2, 4))
RAILS = make_fabric(2, 2, 3, 4, per_node=2, rails=2)
PLAIN = make_fabric()


def counts(fabric) -> dict[Kind, int]:
    return {
        Kind.NODE: fabric.n_nodes, Kind.NIC: fabric.n_nics, Kind.PORT: fabric.n_ports,
        Kind.T0: fabric.n_t0, Kind.T1: fabric.n_t1, Kind.LINK: fabric.n_links,
        Kind.NIC_OPTIC: fabric.n_nics * fabric.optics_per_nic, Kind.T0_OPTIC: fabric.n_t0 * fabric.optics_per_t0,
    }  # fmt: skip


@given(fabrics())
def test_every_name_parses_to_its_component_and_no_two_are_equal(fabric):
    parts = [Component(kind, i) for kind, n in counts(fabric).items() for i in range(n)]

    names = [name_of(fabric, part) for part in parts]

    assert [parse_name(fabric, name) for name in names] == parts
    assert len(set(names)) == len(names)


@given(fabrics())
def test_links_are_named_in_the_order_of_the_cables(fabric):
    assert [link_name(fabric, i) for i in range(fabric.n_links)] == wire(fabric).link_names()


@pytest.mark.parametrize(
    ("fabric", "name", "component"),
    [
        (SMALL, "n12", Component(Kind.NODE, 12)),
        (SMALL, "n12/nic0", Component(Kind.NIC, 12)),
        (SMALL, "n12/nic0/p1", Component(Kind.PORT, 25)),
        (SMALL, "p1/t0-3", Component(Kind.T0, 7)),
        (SMALL, "p1/t1-0", Component(Kind.T1, 4)),
        (SMALL, "n12/nic0/p1--p1/t0-3", Component(Kind.LINK, 25)),
        (SMALL, "p1/t0-3--p1/t1-2", Component(Kind.LINK, 32 + 7 * 4 + 2)),
        (SMALL, "n12/nic0/optic0", Component(Kind.NIC_OPTIC, 12)),
        (SMALL, "p1/t0-3/optic1", Component(Kind.T0_OPTIC, 15)),
        (RAILS, "r1p0/t0-1", Component(Kind.T0, 5)),
        (RAILS, "n3/nic1/p0--r1p0/t0-0", Component(Kind.LINK, 14)),
    ],
)
def test_names_of_the_contract(fabric, name, component):
    assert parse_name(fabric, name) == component
    assert name_of(fabric, component) == name


@pytest.mark.parametrize(
    ("fabric", "name", "problem", "right"),
    [
        (SMALL, "", "is not a component name", "n12"),
        (SMALL, "leaf7", "is not a component name", "p3/t0-7"),
        (SMALL, "n01", "is not a component name", "n12"),
        (SMALL, "n1/", "is not a component name", "n12"),
        (SMALL, "n1\n", "is not a component name", "n12"),
        (SMALL, "n1٢", "is not a component name", "n12"),
        (SMALL, "p0/t2-0", "is not a component name", "p3/t1-11"),
        (SMALL, "n16", "node 16 does not exist", "0 to 15"),
        (SMALL, "n1/nic1", "nic 1 does not exist", "0 to 0"),
        (SMALL, "n1/nic0/p2", "plane 2 does not exist", "0 to 1"),
        (SMALL, "p2/t0-0", "plane 2 does not exist", "0 to 1"),
        (SMALL, "p0/t0-4", "t0 4 does not exist", "0 to 3"),
        (SMALL, "p0/t1-4", "t1 4 does not exist", "0 to 3"),
        (SMALL, "n1/nic0/optic1", "optic 1 does not exist", "0 to 0"),
        (SMALL, "p0/t0-0/optic2", "optic 2 does not exist", "0 to 1"),
        (SMALL, "p0/t1-0/optic0", "optics of a T1", "T0 side"),
        (SMALL, "n" + "9" * 5000, "does not exist", "0 to 15"),
        (PLAIN, "n1/nic0/optic0", "has no [optics]", "add the table"),
        (PLAIN, "p0/t0-0/optic0", "has no [optics]", "add the table"),
        (SMALL, "r0p0/t0-0", "wrong plane name", "p3/..."),
        (RAILS, "p0/t0-0", "wrong plane name", "r2p3/..."),
        (RAILS, "r2p0/t0-0", "rail 2 does not exist", "0 to 1"),
        (SMALL, "p0/t0-0--n0/nic0/p0", "has no link", "lower end first"),
        (SMALL, "n0/nic0/p0--p0/t0-1", "has no link", "lower end first"),
        (SMALL, "n0/nic0/p0--p1/t0-0", "has no link", "lower end first"),
        (SMALL, "p0/t0-0--p1/t1-0", "has no link", "of one plane"),
        (SMALL, "n0--p0/t0-0", "has no link", "PORT--T0"),
        (SMALL, "n0/nic0/p0--", "is not a component name", "n12"),
        (SMALL, "--", "is not a component name", "n12"),
        (SMALL, "n0/nic0/p0--p0/t0-0--p0/t1-0", "more than two ends", "lower end first"),
        (SMALL, "n0/nic0/p0--" * 5000, "more than two ends", "lower end first"),
    ],
)
def test_what_is_no_name(fabric, name, problem, right):
    with pytest.raises(InputError) as e:
        parse_name(fabric, name, where="here")

    assert e.value.where == "here"
    assert problem in e.value.problem
    assert right in e.value.right


ALPHABET = st.sampled_from(["n", "nic", "p", "r", "t0", "t1", "optic", "/", "-", "--", "0", "1", "7", "99", " ", "٣"])


@given(st.lists(ALPHABET, max_size=14).map("".join) | st.text(), st.sampled_from([SMALL, RAILS, PLAIN]))
def test_any_text_is_a_name_or_an_input_error(text, fabric):
    try:
        component = parse_name(fabric, text)
    except InputError:
        return
    assert name_of(fabric, component) == text


def test_directions_are_away_from_the_nic_and_back():
    assert directed_name(SMALL, 0) == "n0/nic0/p0--p0/t0-0 up"
    assert directed_name(SMALL, 2 * SMALL.n_ports + 1) == "p0/t0-0--p0/t1-0 down"
