"""Measures a tick of the largest fleet: its counters through rates and all detectors; its paths through the locator."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railkeeper.app import bench_paths
from railkeeper.app.bench_fleet import ENTITIES, Fleet, values_in
from railkeeper.app.bench_tick_faults import Fault, missed, ten_faults, unexplained
from railkeeper.health.detect import engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding, Judged

TICK_S = 15.0
QUIET_TICKS = 6


@dataclass
class Counters:
    """What the counter half of the benchmark saw."""

    values: int = 0
    walls_s: list[float] = field(default_factory=list)
    false_alarms: dict[tuple[str, str, int], Finding] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    located_after_s: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    detectors: int = 0


def measure_counters(fabric: Fabric, ticks: int, say: Callable[[str], None] = lambda _: None) -> Counters:
    """Run quiet ticks, then `ticks` with ten faults, through all detectors that are installed.

    To make the telemetry does not count, nor does the first tick, which has no rates yet.
    """
    fleet, seen = Fleet(fabric, TICK_S), Counters()
    state = engine.new(engine.detectors_found(), fleet.entities, tick_s=TICK_S)
    faults, seen.detectors = ten_faults(fleet), len(state.seats)
    for number in range(QUIET_TICKS + ticks):
        active = number >= QUIET_TICKS
        fleet.harms = [fault.harm for fault in faults] if active else []
        frame = fleet.tick()
        begin = time.perf_counter()
        state, judged = engine.tick(state, frame)
        wall_s = time.perf_counter() - begin
        if number:
            seen.walls_s.append(wall_s)
        seen.values = seen.values or values_in(frame)
        findings = _collect(seen, judged)
        _compare(seen, faults if active else [], findings, (number - QUIET_TICKS + 1) * TICK_S)
        say(f"tick {number + 1}: {wall_s:.3f} s, {len(findings)} findings, {len(seen.missed)} faults not told")
    return seen


def _compare(seen: Counters, faults: list[Fault], findings: list[Finding], after_s: float) -> None:
    seen.false_alarms |= {(f.detector, f.kind, f.entity): f for f in unexplained(faults, findings)}
    seen.missed = [fault.name for fault in missed(faults, findings)]
    for fault in faults:
        if fault.name not in seen.missed:
            seen.located_after_s.setdefault(fault.name, after_s)


def _collect(seen: Counters, judged: dict[str, Judged]) -> list[Finding]:
    seen.errors |= {key: answer.error for key, answer in judged.items() if answer.error}
    return [finding for answer in judged.values() for finding in answer.findings]


def measure(fabric: Fabric, ticks: int, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the figures of both halves, one after the other in this process; `ticks` of counters have faults."""
    begin = time.perf_counter()
    fabric.build()
    build_s = time.perf_counter() - begin
    say("counters")
    counters = _counter_figures(fabric, measure_counters(fabric, ticks, say))
    gc.collect()
    say("paths")
    paths = bench_paths.measure(fabric)
    return {
        "links": fabric.n_links,
        "build_s": round(build_s, 3),
        **{key: paths[key] for key in ("path_rows", "path_tick_s")},
        **{key: counters[key] for key in ("counter_values", "counter_tick_s")},
        "located_right": counters["located_right"] and paths["located_right"],
        "false_alarms": counters["false_alarms"] + paths["false_alarms"],
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "counters": counters,
        "paths": paths,
    }


def _counter_figures(fabric: Fabric, seen: Counters) -> dict[str, Any]:
    alarms = list(seen.false_alarms.values())
    return {
        "counter_values": seen.values,
        "counter_tick_s": round(statistics.median(seen.walls_s), 4),
        "counter_tick_max_s": round(max(seen.walls_s), 4),
        "detectors": seen.detectors,
        "located_right": not seen.missed and not seen.errors,
        "located_after_s": seen.located_after_s,
        "missed": seen.missed,
        "false_alarms": len(alarms),
        "alarms": _alarm_lines(fabric, alarms[:20]),
        "errors": seen.errors,
    }


def _alarm_lines(fabric: Fabric, alarms: list[Finding]) -> list[str]:
    kinds = {alarm.kind for alarm in alarms}
    names = {kind: make(fabric).name_of for kind, make in ENTITIES.items() if kind in kinds}
    return [f"{f.detector}: {names[f.kind](f.entity)} {f.signal} {f.value:g}" for f in alarms]
