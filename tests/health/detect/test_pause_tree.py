"""Trees of pause on random fabrics, against a walk from port to port that knows nothing of how the trees are made."""

from __future__ import annotations

import numpy as np
from flow_worlds import fabric_of
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.health.detect.pause_tree import EGRESS, HOST, RING, UNKNOWN, pause_trees
from railkeeper.telemetry.entities import NIC_END, Entities
from railkeeper.telemetry.fabric_entities import port_entities


def held(*ports):
    return np.array(sorted(ports), dtype=np.int32)


def walk(ports: Entities, start: int, every: set[int]) -> set[int]:
    """All held ports on the way from one held port to whatever holds it in the end, itself included."""
    seen, todo = set(), [start]
    while todo:
        port = todo.pop()
        if port in seen:
            continue
        seen.add(port)
        holder = int(ports.other[port])
        if ports.role[holder] == NIC_END:
            continue
        todo += [p for p in every if ports.role[p] != NIC_END and ports.owner[p] == ports.owner[holder]]
    return seen


def device(ports: Entities, port: int) -> tuple[bool, int]:
    return bool(ports.role[port] == NIC_END), int(ports.owner[port])


@st.composite
def worlds(draw):
    fabric = fabric_of(
        draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    )
    ports = port_entities(fabric)
    chosen = draw(st.sets(st.integers(0, len(ports) - 1), max_size=min(24, len(ports))))
    return ports, chosen


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_trees_are_what_a_walk_finds(world):
    ports, chosen = world
    trees = pause_trees(ports, held(*chosen))

    reach = {p: walk(ports, p, chosen) for p in chosen}
    ends = {p: {q for q in reach[p] if reach[q] == {q}} for p in chosen}
    expected: dict[tuple[bool, int], set[int]] = {}
    for p in chosen:
        for q in ends[p]:
            expected.setdefault(device(ports, int(ports.other[q])), set()).add(p)
    found = {device(ports, t.holders[0]): set(t.victims) for t in trees if t.kind in {HOST, EGRESS}}
    assert found == expected
    # A ring is where a held port is reached again from what holds it.
    ringed = {p for p in chosen if any(p in reach[q] for q in reach[p] - {p})}
    rings = [t for t in trees if t.kind == RING]
    assert {int(ports.other[h]) for t in rings for h in t.holders} == ringed
    for tree in rings:
        inside = {int(ports.other[h]) for h in tree.holders}
        assert set(tree.victims) == {p for p in chosen if reach[p] & inside}
    assert set().union(*(t.victims for t in trees), set()) == chosen


def test_every_holder_of_a_root_is_told():
    ports = port_entities(fabric_of(planes=2, t0=1, t1=1, nics=2))
    name = ports.id_of
    both = [ports.other[name("n0/nic0/p0")], ports.other[name("n0/nic0/p1")]]

    trees = pause_trees(ports, held(*both))

    assert [(t.kind, t.holders, t.depth) for t in trees] == [(HOST, (name("n0/nic0/p0"), name("n0/nic0/p1")), 1)]


def test_the_way_from_a_slow_host_to_the_senders():
    """Host n0 holds its T0, that holds a T1, that holds another T0, that holds a sender."""
    ports = port_entities(fabric_of(planes=1, t0=2, t1=1, nics=1))
    ids = {ports.name_of(i): i for i in range(len(ports))}
    t0_host = ids["n0/nic0/p0--p0/t0-0@p0/t0-0"]
    t1_down = ids["p0/t0-0--p0/t1-0@p0/t1-0"]
    t0_up = ids["p0/t0-1--p0/t1-0@p0/t0-1"]
    sender = ids["n1/nic0/p0"]

    (tree,) = pause_trees(ports, held(t0_host, t1_down, t0_up, sender))

    assert (tree.kind, tree.holders) == (HOST, (ids["n0/nic0/p0"],))
    assert tree.victims == (t0_host, t1_down, t0_up, sender)
    assert tree.depth == 4


def test_a_nic_that_is_held_and_holds_is_a_root_still():
    ports = port_entities(fabric_of(planes=1, t0=1, t1=1, nics=2))
    ids = {ports.name_of(i): i for i in range(len(ports))}
    nic = ids["n0/nic0/p0"]

    trees = pause_trees(ports, held(nic, ports.other[nic]))

    assert [t.kind for t in trees] == [HOST]
    assert trees[0].victims == (ports.other[nic], nic)


def test_an_unknown_other_end():
    ports = port_entities(fabric_of(planes=1, t0=1, t1=1, nics=1))
    lone = Entities(**{f: getattr(ports, f) for f in ports.__dataclass_fields__} | {"other": ports.other * 0 - 1})

    assert [(t.kind, t.victims) for t in pause_trees(lone, held(1))] == [(UNKNOWN, (1,))]


def test_nobody_held():
    assert pause_trees(port_entities(fabric_of()), held()) == ()


def test_ten_thousand_holds_are_quick_and_the_same_each_time():
    ports = port_entities(fabric_of(planes=4, t0=32, t1=16, nics=32))
    chosen = held(*np.random.default_rng(3).choice(len(ports), 6000, replace=False).tolist())

    assert pause_trees(ports, chosen) == pause_trees(ports, chosen)
