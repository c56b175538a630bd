"""One fault of the commonest kinds from injection to all clear."""

from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.locate import judge, new_state
from railkeeper.health.synth import Event, World

SPEC = """
[fabric]
planes = 2
t0_per_plane = 4
t1_per_plane = 4
nics_per_t0 = 4
"""


def follow(fault: dict, seconds: float = 35.0) -> list[tuple[str, str, str, str]]:
    """Distinct (kind, target, direction, status) in the order in which they are told; the fault holds from 10.1 to 20 s."""
    fabric = Fabric(parse_spec(SPEC))
    world = World(fabric, [Event(parse_fault(fabric, {"id": "f", **fault}, where="test"), 10.1, 20.0)])
    state, told = new_state(fabric), []
    for tick in range(int(seconds / world.tick_s)):
        state, faults = judge(state, world.tick(tick))
        for f in faults:
            row = (f.kind, f.target, f.direction, f.status)
            if row not in told:
                told.append(row)
    return told


def test_loss_is_located_and_cleared():
    told = follow({"kind": "loss", "target": "p0/t0-1--p0/t1-2", "rate": 0.05, "direction": "up"})
    assert told[0] == ("loss", "p0/t0-1--p0/t1-2", "up", "open")
    assert told[-1] == ("loss", "p0/t0-1--p0/t1-2", "up", "cleared")


def test_down_switch_is_located_and_cleared():
    told = follow({"kind": "down", "target": "p0/t1-1"})
    assert told == [("down", "p0/t1-1", "both", s) for s in ("open", "clearing", "cleared")]
