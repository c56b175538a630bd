"""Two and three faults at once, drawn at random: each located, nothing else told, in one long run as a drill makes it."""

from __future__ import annotations

import random

import pytest
from health_worlds import Story, is_same, small_fabric

from railkeeper.fabric.components import links_of
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.names import Component, Kind, name_of
from railkeeper.health.synth import Event, World

LARGE = {Kind.NIC: 16, Kind.PORT: 32, Kind.T0: 8, Kind.T1: 8, Kind.LINK: 64}
SIZES = {
    "loss": {"rate": (0.02, 0.1, 0.5)},
    "corrupt": {"rate": (0.03, 0.2)},
    "delay": {"ms": (1.0, 5.0)},
    "slow": {"gbps": (5.0, 50.0)},
    "down": {},
}


def draw(fabric, rng, size):
    """Faults that share no link and no node."""
    out, links, nodes = [], set(), set()
    while len(out) < size:
        kind = rng.choice(list(SIZES))
        part = rng.choice(list(LARGE))
        target = Component(part, rng.randrange(LARGE[part]))
        data = {
            "id": f"f{len(out)}",
            "kind": kind,
            "target": name_of(fabric, target),
            "direction": rng.choice(["up", "down", "both"]),
        }
        if kind == "down" and part is Kind.T1:
            data["direction"] = "both"
        mine = set(links_of(fabric, target).tolist())
        homes = {link // fabric.planes for link in mine if link < fabric.n_ports}
        if mine & links or homes & nodes:
            continue
        links, nodes = links | mine, nodes | homes
        out.append(parse_fault(fabric, data | {k: rng.choice(v) for k, v in SIZES[kind].items()}, where="test"))
    return out


@pytest.mark.parametrize("optics", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_groups_in_one_long_run(optics, size):
    fabric, rng = small_fabric(optics=optics), random.Random(size)
    world = World(fabric, seed=size)
    s = Story(world).run_until(5)
    for _ in range(8):
        start = s.tick * 0.5 + rng.random() * 0.5
        faults = draw(fabric, rng, size)
        world.events[:] = [Event(f, start) for f in faults]
        s.told.clear()
        while s.tick * 0.5 < start + 40 and not all(any(is_same(fabric, t, f) for t in s.open) for f in faults):
            s.run_until((s.tick + 1) * 0.5)
        assert all(any(is_same(fabric, t, f) for t in s.open) for f in faults), (faults, s.told)
        assert len(s.told) == size, (faults, s.told)
        world.events[:] = [Event(f, start, s.tick * 0.5 + 0.3) for f in faults]
        s.run_until(s.tick * 0.5 + 15)
        assert not s.open, (faults, s.told)
