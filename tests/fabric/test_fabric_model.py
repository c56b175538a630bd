"""Columns, components and sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from shapes import fabrics, make_fabric, wire

from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import Component, Kind, link_name, name_of, parse_name
from railkeeper.fabric.spec import read_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


@given(fabrics())
def test_counts_are_those_of_the_cables(fabric):
    wiring = wire(fabric)

    assert fabric.counts() == {
        "nodes": len({nic.partition("/")[0] for nic in wiring.nics}),
        "nics": len(wiring.nics),
        "nic_ports": len(wiring.home),
        "t0": sum("/t0-" in s for s in wiring.switches),
        "t1": sum("/t1-" in s for s in wiring.switches),
        "links_nic_t0": sum("/t0-" in upper for _, upper in wiring.links),
        "links_t0_t1": sum("/t1-" in upper for _, upper in wiring.links),
        "paths_per_nic_pair": fabric.planes * fabric.t1_per_plane,
    }
    assert fabric.n_links == len(wiring.links)


@given(fabrics())
def test_scalar_arithmetic_agrees_with_the_columns(fabric):
    nics, planes = np.repeat(np.arange(fabric.n_nics), fabric.planes), np.tile(np.arange(fabric.planes), fabric.n_nics)

    assert (fabric.link_upper[fabric.port_link(nics, planes)] == fabric.t0_of(nics, planes)).all()
    for t0 in range(fabric.n_t0):
        links = fabric.fabric_link(t0, np.arange(fabric.t1_per_plane))
        assert (fabric.link_lower[links] == t0).all()
        assert (fabric.link_upper[links] // fabric.t1_per_plane == fabric.domain_of_t0(t0)).all()
    assert fabric.t1_of(0, 0, 0) == 0
    assert fabric.node_of(fabric.n_nics - 1) == fabric.n_nodes - 1


@given(fabrics())
def test_a_component_carries_the_links_that_touch_it(fabric):
    wiring = wire(fabric)
    expected: dict[str, list[str]] = {}
    for link in wiring.links:
        node, *rest = link[0].split("/")
        nic = f"{node}/{rest[0]}"
        owners = [node, nic] if rest[0].startswith("nic") else []
        for owner in [*owners, *link, *wiring.optic[link], "--".join(link)]:
            expected.setdefault(owner, []).append("--".join(link))

    for name, links in expected.items():
        found = links_of(fabric, parse_name(fabric, name))
        assert [link_name(fabric, i) for i in found] == links, name
        assert found.dtype == np.int32


@given(fabrics())
def test_optics_columns_agree_with_the_links_of_each_optic(fabric):
    if fabric.spec.optics is None:
        assert fabric.nic_optic_of_port is None
        assert fabric.t0_optic_of_link is None
        return
    for kind, column in ((Kind.NIC_OPTIC, fabric.nic_optic_of_port), (Kind.T0_OPTIC, fabric.t0_optic_of_link)):
        for optic in range(int(column.max()) + 1):
            assert np.array_equal(links_of(fabric, Component(kind, optic)), np.flatnonzero(column == optic))


def test_columns_can_not_be_written():
    fabric = make_fabric()

    with pytest.raises(ValueError, match="read-only"):
        fabric.link_upper[0] = 1


def test_build_computes_every_column_once():
    fabric = make_fabric(optics=(2, 4))

    fabric.build()

    columns = [name for name, value in vars(fabric).items() if isinstance(value, np.ndarray)]
    assert {"link_lower", "link_upper", "nic_optic_of_port", "t0_optic_of_link", "nic_rail"} <= set(columns)
    assert fabric.link_lower is fabric.link_lower


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_examples_are_good_specs(path):
    assert read_spec(path).fabric.name == path.stem


def test_the_largest_fabric_within_the_limits_of_time_and_memory():
    command = [sys.executable, "-c", "from railkeeper.cli.main import main; main()", "fabric", "build"]
    done = subprocess.run([*command, EXAMPLES / "largest.toml", "--json"], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)

    assert answer.pop("build_s") <= 5
    assert answer.pop("peak_rss_bytes") <= 1.5e9
    assert answer == {
        "schema": 1, "nodes": 32_768, "nics": 131_072, "nic_ports": 1_048_576, "t0": 4_096, "t1": 2_048,
        "links_nic_t0": 1_048_576, "links_t0_t1": 1_048_576, "paths_per_nic_pair": 2_048,
    }  # fmt: skip


def test_ids_at_the_far_end_of_the_largest_fabric():
    fabric = Fabric(read_spec(EXAMPLES / "largest.toml"))
    link = fabric.n_links - 1

    assert link_name(fabric, link) == "p7/t0-511--p7/t1-255"
    assert parse_name(fabric, "n32767/nic3/p7--p7/t0-511") == (Kind.LINK, fabric.n_ports - 1)
    assert name_of(fabric, Component(Kind.T0_OPTIC, int(fabric.t0_optic_of_link[link]))) == "p7/t0-511/optic127"
    assert fabric.nic_optic_of_port[-1] == 2 * fabric.n_nics - 1
