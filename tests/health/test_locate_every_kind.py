"""Every kind of fault on every kind of part in every direction: located, nothing else told, cleared."""

from __future__ import annotations

import pytest
from health_worlds import START_S, is_same, small_fabric, story

from railkeeper.fabric.faults import parse_fault

PARTS = ["p0/t0-1--p0/t1-2", "n6/nic0/p1", "n6/nic0/p1--p1/t0-1", "n6/nic0", "n6", "p1/t0-2", "p0/t1-3"]
OPTIC_PARTS = ["n6/nic0/optic0", "p1/t0-2/optic0", "p1/t0-2/optic1"]
SIZES = {
    "loss": [{"rate": 0.01}, {"rate": 0.2}],
    "corrupt": [{"rate": 0.03}],
    "slow": [{"gbps": 5.0}, {"gbps": 50.0}],
    "delay": [{"ms": 1.0}, {"ms": 20.0}],
    "down": [{}],
    "flap": [{"down_s": 1.0, "up_s": 2.0}],
}
PATIENCE_S = 20.0


def _cases():
    for optics in (True, False):
        parts = PARTS + (OPTIC_PARTS if optics else [])
        for kind, sizes in SIZES.items():
            for i, part in enumerate(parts):
                direction = ("both", "up", "down")[(i + len(kind)) % 3]
                yield optics, {"kind": kind, "target": part, "direction": direction, **sizes[i % len(sizes)]}
        for kind, target, numbers in (
            ("blackhole", "p1/t0-2", {}),
            ("blackhole", "p0/t1-3", {}),
            ("reboot", "p1/t0-2", {"seconds": 8.0}),
            ("reboot", "p0/t1-3", {"seconds": 8.0}),
            ("agent-down", "n6", {}),
            ("node-down", "n6", {}),
        ):
            yield optics, {"kind": kind, "target": target, **numbers}
    yield True, {"kind": "optic", "target": "n6/nic0/optic0", "seconds": 3.0}
    yield True, {"kind": "optic", "target": "p1/t0-2/optic0", "seconds": 3.0}
    yield True, {"kind": "optic", "target": "p1/t0-2/optic1", "seconds": 3.0}


def _told_by_no_path(data) -> bool:
    """Every path through a T1 enters and leaves it: one dead direction of a T1 is a black hole to any prober."""
    return (
        data["kind"] == "down"
        and "/t1-" in data["target"]
        and "--" not in data["target"]
        and data["direction"] != "both"
    )


@pytest.mark.parametrize(
    ("optics", "data"), list(_cases()), ids=lambda x: str(x) if isinstance(x, bool) else "-".join(map(str, x.values()))
)
def test_fault_is_located_alone_and_cleared(optics, data):
    fabric = small_fabric(optics=optics)
    injected = parse_fault(fabric, {"id": "f", **data}, where="test")
    s = story(fabric, injected, seed=len(str(data)))
    while s.tick * 0.5 < START_S + PATIENCE_S:
        s.run_until((s.tick + 1) * 0.5)
        if any(is_same(fabric, f, injected) for f in s.open):
            break
    if _told_by_no_path(data):
        assert [(f.kind, f.target, "down" in f.also_kinds) for f in s.open] == [("blackhole", data["target"], True)]
    else:
        assert [is_same(fabric, f, injected) for f in s.open] == [True], s.told
    s.world.events[0] = type(s.world.events[0])(injected, START_S, s.tick * 0.5 + 0.2)
    s.run_until(s.tick * 0.5 + 40)
    assert not s.open
    assert len(s.told) == 1
