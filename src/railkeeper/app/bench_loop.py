"""Measures the keeper's judgement of a tick on synthetic evidence, quiet and with a fault."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.names import t0_name, t1_name
from railkeeper.fabric.paths import links_crossed
from railkeeper.health.fault import LocatorConfig
from railkeeper.health.locate import judge, new_state
from railkeeper.health.synth import Event, World

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric


def measure_ticks(fabric: Fabric, ticks: int) -> list[dict[str, Any]]:
    """Return medians over `ticks` ticks: the baseline (which links each path crosses), then judging."""
    link = f"{t0_name(fabric, 0)}--{t1_name(fabric, 0)}"
    fault = parse_fault(fabric, {"id": "b", "kind": "loss", "target": link, "rate": 0.02}, where="bench")
    runs: dict[str, list[Event]] = {"quiet": [], "a lossy link": [Event(fault, 2.0)]}
    rows: list[dict[str, Any]] = []
    for name, events in runs.items():
        world = World(fabric, events)
        state, walls, bases, paths = new_state(fabric, LocatorConfig()), [], [], 0
        for number in range(ticks):
            seen = world.tick(number)
            paths = len(seen.stats)
            begin = time.perf_counter()
            links_crossed(fabric, seen.stats.paths)
            middle = time.perf_counter()
            state, _ = judge(state, seen)
            walls.append(time.perf_counter() - middle)
            bases.append(middle - begin)
        base, wall = statistics.median(bases), statistics.median(walls)
        rows.append(
            {
                "evidence": name,
                "paths": paths,
                "judge_ms": round(wall * 1e3, 3),
                "judge_max_ms": round(max(walls) * 1e3, 3),
                "links_crossed_ms": round(base * 1e3, 3),
                "ratio": round(wall / base, 1),
            }
        )
    return rows
