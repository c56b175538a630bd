"""From topology and trace to a problem: what is used, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from infer_cases import NETWORK, TREE
from test_trace_reader import parse
from trace_reference import columns

from railkeeper.base.errors import InputError
from railkeeper.health.infer.draw import Scene, as_text, draw
from railkeeper.health.infer.evidence import See, evidence
from railkeeper.health.infer.problem import Kind
from railkeeper.health.infer.topology import devices, parse_topology, tiers

TOPOLOGY = "0 2\n0 3\n1 2\n\n1 3\n10000->0\n10001->1\n"
PATHS = b"FP 0 2 1\nFP 0 3 1\n"
FLOW = b"FID 10000 10001 0 1 9 0\nFPT 0 2 1\nSS 0 100 %d 0\n"


def problem(text, see=See.INT, topology=TOPOLOGY):
    return evidence(parse(text), parse_topology(topology, "net"), see, "t")


def test_a_topology():
    network = parse_topology(TOPOLOGY, "net")

    assert network.n_links == 12
    assert [len(devices(network).row(s)) for s in range(4)] == [6, 6, 4, 4]
    assert len(set(tiers(network).tolist())) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 1\n0 1 2\n", "line 2: neither a cable nor a host"),
        ("0 x\n", "line 1: neither"),
        ("0 1\n1 0\n", "line 2: the cable 0 1 stands twice"),
        ("3 3\n", "line 1: no pair"),
        ("7->1\n7->2\n", "line 2: the host 7 stands twice"),
        ("0 1\n0->1\n", "line 2: 0 is a switch too"),
        ("0 99999999999\n", "line 1: no pair"),
        ("", "no links"),
    ],
)
def test_topologies_that_are_refused(text, said):
    with pytest.raises(InputError, match=said):
        parse_topology(text, "net")


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123 ->\nx\t", max_size=60))
def test_any_topology_is_read_or_refused(text):
    try:
        network = parse_topology(text, "net")
    except InputError:
        return
    assert network.n_links == 2 * sum(bool(line.strip()) for line in text.splitlines())


def test_all_paths_known():
    usable = problem(FLOW % 3)

    assert usable.problem.obs.lost.tolist() == [3]
    assert len(usable.problem.paths.row(0)) == 2
    assert (usable.problem.obs.ends >= 8).all()


def test_lossy_flows_only():
    usable = problem(PATHS + FLOW % 0 + FLOW % 3, See.A2)

    assert usable.problem.obs.lost.tolist() == [3]
    assert usable.problem.obs.kind.tolist() == [Kind.LOSSY_ONLY]
    assert len(usable.problem.sets.row(usable.problem.obs.chosen_from[0])) == 2


@pytest.mark.parametrize(("see", "kinds"), [(See.A1_P, [1, 1]), (See.A1_A2_P, [1, 0]), (See.SPRAYED, [2, 2])])
def test_paths_that_are_not_known(see, kinds):
    probe = b"FID 10000 2 0 0 9 0\nFPT 0\nSS 0 40 1 0\n"
    usable = problem(PATHS + FLOW % 0 + FLOW % 3 + probe, see)

    assert usable.problem.obs.kind.tolist() == [*kinds, Kind.KNOWN]
    assert (usable.problem.obs.ends[2] >= 0).all()


def test_a_path_that_is_listed_twice_counts_once():
    usable = problem(PATHS + PATHS + FLOW % 0, See.A1_P)

    assert [len(usable.problem.sets.row(i)) for i in range(len(usable.problem.sets))] == [2]


def test_what_is_no_evidence_is_counted():
    usable = problem(b"FID 10000 10001 0 1 9 0\nSS 0 5 1 0\nFID 10000 10001 0 1 9 0\n" + FLOW % 0)

    assert (len(usable.problem.obs), usable.without_counts, usable.without_path) == (1, 1, 1)


@pytest.mark.parametrize(
    ("text", "see", "said"),
    [
        (b"FID 10000 10001 0 1 9 0\nFPT 0 9 1\n", See.INT, "line 2: node 9 is not in the topology"),
        (b"FID 10000 10001 0 1 9 0\nFPT 0 1\n", See.INT, "line 2: no cable leads to 1"),
        (b"FID 10000 10001 0 1 9 0\nFPT 0 10000\n", See.INT, "line 2: 10000 is no switch"),
        (b"\nFID 10000 77 0 1 9 0\nFPT 0 2 1\nSS 0 1 0 0\n", See.INT, "line 2: node 77 is not"),
        (b"FID 10000 10000 0 1 9 0\nFPT 0 2 1\nSS 0 1 0 0\n", See.INT, "line 1: host 10000 is at another switch"),
        (FLOW % 0, See.A1_P, "line 1: no FP lines from 0 to 1"),
        (b"FP 0 1\n" + FLOW % 0, See.A1_P, "line 1: no cable"),
    ],
)
def test_what_does_not_fit_the_topology(text, see, said):
    with pytest.raises(InputError, match=said):
        problem(text, see)


def test_a_drawn_window_is_read_as_it_was_drawn():
    trace = draw(TREE, NETWORK, Scene(links=2), 8).trace
    read = parse(as_text(trace).encode())
    flows, listed = columns(trace)
    again, listed_again = columns(read)

    assert [flow[:7] for flow in flows] == [flow[:7] for flow in again]
    assert listed == listed_again


def test_a_drawn_window_loses_what_its_truth_says():
    drawn = draw(TREE, NETWORK, Scene(links=1, low=0.02, high=0.02, flows_per_host=400), 8)
    usable = evidence(drawn.trace, NETWORK, See.INT, "drawn").problem
    across = np.array([drawn.at_fault[0] in usable.paths.row(route) for route in usable.obs.route])
    share = usable.obs.lost[across].sum() / usable.obs.sent[across].sum()

    assert share == pytest.approx(0.02, rel=0.15)
    assert usable.obs.lost[~across].sum() < 1e-3 * usable.obs.sent[~across].sum()
