"""`railkeeper bench days`: false alarms of every detector on simulated days, and whether it tells its fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba

from railkeeper.health.detect.days.faults import planted
from railkeeper.health.detect.days.score import Alarms, Detected, quiet_days, struck_day
from railkeeper.health.detect.days.world import World
from railkeeper.health.detect.engine import detectors_found

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def measure_days(
    days: float, seeds: Sequence[int], tick_s: float, tell: Callable[[str], None]
) -> dict[str, Any]:  # fmt: skip
    """Return a row a detector: false alarms over `days` a seed, per day and per million entity-hours; time to tell."""
    # Ticks are small: threads would cost more than they give, the more so on a machine that has other work.
    numba.set_num_threads(1)
    quiet: dict[str, Alarms] = {}
    struck: dict[str, list[Detected]] = {}
    for seed in seeds:
        for name, alarms in quiet_days(days, seed, detectors_found(), tell, tick_s=tick_s).items():
            kept = quiet.setdefault(name, Alarms())
            kept.false += alarms.false
            kept.in_maintenance += alarms.in_maintenance
            kept.entity_hours += alarms.entity_hours
            kept.examples += alarms.examples
        world = World(1.0, seed, tick_s)
        for one in struck_day(world, planted(world), detectors_found(), tell):
            struck.setdefault(one.detector, []).append(one)
    total = days * len(seeds)
    rows = [_row(name, alarms, struck.get(name, []), total) for name, alarms in sorted(quiet.items())]
    return {"bench": "days", "days": total, "seeds": list(seeds), "tick_s": tick_s, "figures": rows}


def _row(name: str, alarms: Alarms, struck: list[Detected], days: float) -> dict[str, Any]:
    after = [one.after_s for one in struck if one.after_s is not None]
    return {
        "detector": name, "false_alarms": alarms.false, "per_day": round(alarms.false / days, 2),
        "per_million_entity_hours": round(alarms.false / max(alarms.entity_hours, 1e-9) * 1e6, 2),
        "in_maintenance": alarms.in_maintenance, "entity_hours": round(alarms.entity_hours),
        "told": f"{len(after)} of {len(struck)}", "told_after_s": max(after) if after else None,
        "examples": alarms.examples,
    }  # fmt: skip
