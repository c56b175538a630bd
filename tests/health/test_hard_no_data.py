"""A dead part that came half back: what nobody sees any more is not taken for well."""

from __future__ import annotations

from dataclasses import replace

from health_worlds import Story, fault, small_fabric

from railkeeper.health.fault import Observation
from railkeeper.health.synth import Event, World
from railkeeper.probe.pathstats import empty_stats
from railkeeper.telemetry.ports import unread_ports

LINK = "p0/t0-1--p0/t1-2"


def test_half_back_and_then_unseen_stays_open():
    fabric = small_fabric()
    events = [
        Event(fault(fabric, "down", LINK), 6.0, 10.0),
        Event(fault(fabric, "loss", LINK, "both", rate=0.55), 10.0),
    ]
    s = Story(World(fabric, events, seed=1)).run_until(14.0)
    assert [t.unsure >= 6 for t in s.state.faults if t.kind == "down"] == [True]
    (before,) = [f for f in s.open if f.kind == "down"]
    nothing = Observation(0, empty_stats(s.world.paths.take(slice(0, 0))), unread_ports(fabric), tuple(range(16)))
    for _ in range(60):
        s.observe(replace(nothing, tick=s.tick))
    assert before.key in {f.key for f in s.open}
