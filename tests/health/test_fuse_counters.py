"""What findings of ports say of links: direction, kind, whether it is enough; parts whose links all say the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.paths import join_paths, links_crossed
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.detect.finding import Finding
from railkeeper.health.fleet.space import PartSpace
from railkeeper.health.fuse.alone import counted_faults
from railkeeper.health.fuse.kinds import founds, struck
from railkeeper.health.fuse.near import rows_near, rows_over
from railkeeper.probe.plan import make_plan

FABRIC = Fabric(
    parse_spec(
        "[fabric]\nplanes = 2\nrails = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 2\nnics_per_node = 2\n"
    )
)
SPACE = PartSpace(FABRIC)
LINK = FABRIC.n_ports + 5
TICK, TICK_S = 2000, 0.5


def finding(detector, port, signal, confidence=0.95, verdict="degraded", value=1.0):
    return Finding(detector, "port", port, verdict, signal, value, 0.0, "1/s", "peers", 900.0, confidence, ("so much",))


def told(*findings, covered=()):
    return counted_faults(SPACE, findings, covered, TICK, TICK_S)


@pytest.mark.parametrize(
    ("detector", "signal", "ways"),
    [
        ("error-rates", "rx_crc_errors", {0}),
        ("error-rates", "tx_errors", {1}),
        ("error-rates", "icrc_errors", set()),
        ("error-rates", "link_recoveries", {0, 1}),
        ("fec-codewords", "fec_uncorrected_codewords", {0}),
        ("fec-codewords", "fec_bin_codewords[15]", {0}),
        ("discards", "tx_discards", {1}),
        ("port-down", "oper_up", {0, 1}),
        ("link-flap", "link_downs", {0, 1}),
    ],
)
def test_a_finding_at_the_upper_end_is_of_these_directions(detector, signal, ways):
    assert set(struck(FABRIC, finding(detector, 2 * LINK + 1, signal))) == {2 * LINK + w for w in ways}


def test_what_the_host_drops_the_network_has_delivered():
    assert struck(FABRIC, finding("discards", 2 * 3, "rx_discards")) == ()
    assert struck(FABRIC, finding("discards", 2 * 3 + 1, "rx_discards")) == (2 * 3,)


def test_damage_that_came_from_upstream_is_not_of_this_link():
    assert struck(FABRIC, finding("error-rates", 2 * LINK, "rx_crc_errors", 0.49)) == ()


def test_margins_foretell_and_drops_may_be_congestion():
    assert not founds(finding("fec-margin", 2 * LINK, "fec_corrected_bits"))
    assert not founds(finding("fec-codewords", 2 * LINK, "fec_bin_codewords[15]"))
    assert not founds(finding("discards", 2 * LINK, "tx_discards"))
    assert founds(finding("discards", 2 * LINK, "tx_discards", verdict="failed"))


def test_kinds_and_sizes():
    (slow,) = told(replace(finding("port-speed", 2 * LINK, "speed_gbps", value=50.0), unit="Gb/s"))
    assert (slow.kind, slow.gbps, slow.direction) == ("slow", 50.0, "both")
    both = told(finding("error-rates", 2 * LINK, "rx_crc_errors"), finding("error-rates", 2 * LINK + 1, "rx_errors"))
    assert [(f.kind, f.direction, len(f.denied_links)) for f in both] == [("corrupt", "both", 2)]
    (worst,) = told(finding("error-rates", 2 * LINK, "rx_crc_errors"), finding("link-flap", 2 * LINK, "link_downs"))
    assert worst.kind == "flap"
    assert worst.since_tick == 1800
    assert told(finding("error-rates", 2 * LINK, "rx_crc_errors"), covered=[LINK]) == []


@pytest.mark.parametrize(
    ("name", "kind"), [("r1p0/t0-2", "down"), ("r0p1/t1-3", "down"), ("n1", "node-down"), ("n2/nic1", "down")]
)
def test_a_part_whose_links_are_all_down_is_one_fault(name, kind):
    links = links_of(FABRIC, parse_name(FABRIC, name)).tolist()
    (f,) = told(*(finding("port-down", 2 * x + 1, "oper_up", 0.45) for x in links))
    assert (f.target, f.kind) == (name, kind)
    assert len(f.denied_links) == 2 * len(links)
    assert told(finding("port-down", 2 * links[0] + 1, "oper_up", 0.45)) == []


def test_a_switch_and_a_link_elsewhere_are_two():
    links = links_of(FABRIC, parse_name(FABRIC, "r1p0/t0-2")).tolist()
    other = int(links_of(FABRIC, parse_name(FABRIC, "r0p1/t0-0--r0p1/t1-1"))[0])
    found = told(*(finding("port-down", 2 * x, "oper_up") for x in (*links, other)))
    assert {f.target for f in found} == {"r1p0/t0-2", "r0p1/t0-0--r0p1/t1-1"}


def test_rows_around_links_are_those_that_touch_their_switches():
    paths = join_paths([make_plan(FABRIC, node).paths for node in range(FABRIC.n_nodes)])
    crossed = links_crossed(FABRIC, paths)
    for link in (0, 1, LINK, FABRIC.n_links - 1):
        over = np.flatnonzero(((crossed >> 1 == link) & (crossed >= 0)).any(axis=1))
        assert rows_over(FABRIC, paths, [link]).tolist() == over.tolist()
        near = rows_near(FABRIC, paths, [link])
        assert set(over) <= set(near.tolist())
        ends = {("t1", int(FABRIC.link_upper[link])), ("t0", int(FABRIC.link_lower[link]))}
        if link < FABRIC.n_ports:
            ends = {("t0", int(FABRIC.link_upper[link]))}
        assert set(near.tolist()) == {r for r, row in enumerate(crossed) if ends & touched(row[row >= 0] >> 1)}
    assert len(rows_over(FABRIC, paths, [])) == 0


def touched(links):
    """Switches at the ends of links."""
    out = set()
    for link in links.tolist():
        host = link < FABRIC.n_ports
        out |= {("t0" if host else "t1", int(FABRIC.link_upper[link]))}
        out |= set() if host else {("t0", int(FABRIC.link_lower[link]))}
    return out
