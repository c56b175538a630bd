"""The score of detectors on simulated days: false alarms where nothing is wrong, time to tell what is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect import engine
from railkeeper.health.detect.days.world import START_S, World
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, V_OK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.days.faults import Planted
    from railkeeper.health.detect.detector import Detector
    from railkeeper.health.detect.finding import Finding, Judged

_EXAMPLES = 3


@dataclass
class Alarms:
    """Alarms of one detector on days without faults.

    - false: findings that opened; in_maintenance: those on parts that were down, or just had been, which is so
    - entity_hours: hours of entities that it judged; examples: the first few, in words
    """

    false: int = 0
    in_maintenance: int = 0
    entity_hours: float = 0.0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Detected:
    """One planted fault: seconds until its detector told it, None if it never did."""

    detector: str
    target: str
    after_s: float | None
    words: str


def quiet_days(
    days: float, seed: int, detectors: Iterable[Detector], tell: Callable[[str], None],
    *, tick_s: float = 30.0, fabric: Fabric | None = None,
) -> dict[str, Alarms]:  # fmt: skip
    """Run all detectors over days on which nothing is wrong, on a fabric of 2,560 ports or one that is given.

    Raises RuntimeError if a detector fails: a detector that says nothing has no false alarms.
    """
    world = World(days, seed, tick_s, fabric)
    state = engine.new(detectors, world.entities, tick_s=world.tick_s)
    score = {seat.detector.about.name: Alarms() for seat in state.seats.values()}
    open_before: set[tuple[str, str, int]] = set()
    for i in range(world.ticks):
        state, judged = engine.tick(state, world.frame(i))
        touched = world.touched((i + 1) * world.tick_s)
        found = {_key(f): f for one in judged.values() for f in one.findings}
        for key in found.keys() - open_before:
            _count(score[key[0]], world, found[key], touched)
        _hours(score, judged, world.tick_s)
        open_before = set(found)
        if (i + 1) % (world.ticks // max(int(days * 4), 1)) == 0:
            tell(f"seed {seed}: {(i + 1) * world.tick_s / 3600:.0f} of {days * 24:.0f} hours")
    return score


def _key(finding: Finding) -> tuple[str, str, int]:
    return finding.detector, finding.kind, finding.entity


def _count(alarms: Alarms, world: World, finding: Finding, touched: npt.NDArray[np.bool_]) -> None:
    if _in_maintenance(world, finding, touched):
        alarms.in_maintenance += 1
        return
    alarms.false += 1
    if len(alarms.examples) < _EXAMPLES:
        name = world.entities[finding.kind].name_of(finding.entity)
        hour = (finding.since_s - START_S) / 3600
        alarms.examples.append(f"{hour:.2f} h {name}: {'; '.join(finding.evidence[:2])}")


def _in_maintenance(world: World, finding: Finding, touched: npt.NDArray[np.bool_]) -> bool:
    """Return whether the finding is about a part that is down, or has just come back."""
    ports = world.entities["port"]
    if finding.kind == "port":
        return bool(touched[[finding.entity, *finding.others]].any())
    host = ports.role == 0
    owner = {"nic": ports.owner, "node": ports.owner // world.fabric.nics_per_node, "switch": ports.owner}[finding.kind]
    mine = (owner == finding.entity) & (host if finding.kind != "switch" else ~host)
    return bool(touched[mine].any())


def _hours(score: dict[str, Alarms], judged: dict[str, Judged], tick_s: float) -> None:
    for key, one in judged.items():
        if one.error:
            raise RuntimeError(f"detector {key}: {one.error}")
        said = np.count_nonzero(np.isin(one.verdicts, (V_OK, V_DEGRADED, V_FAILED)))
        score[key.partition("/")[0]].entity_hours += said * tick_s / 3600


def struck_day(
    world: World, faults: tuple[Planted, ...], detectors: Iterable[Detector], tell: Callable[[str], None],
    *, ticks: int | None = None,
) -> list[Detected]:  # fmt: skip
    """Run all detectors over a new world (its first ticks only, if so said) with faults, and see who tells them."""
    state = engine.new(detectors, world.entities, tick_s=world.tick_s)
    told: dict[str, tuple[float, str]] = {}
    for i in range(ticks or world.ticks):
        state, judged = engine.tick(state, world.frame(i, faults))
        now_s = (i + 1) * world.tick_s
        for fault in faults:
            finding = _told(fault, judged, now_s)
            if finding and fault.detector not in told:
                told[fault.detector] = (now_s - fault.start_s + world.tick_s, finding.evidence[0])
                tell(f"{fault.detector} after {told[fault.detector][0]:.0f} s: {finding.evidence[0]}")
    return [
        Detected(f.detector, _target(world, f.kind, f.entities[0]), *told.get(f.detector, (None, "not told")))
        for f in faults
    ]


def _told(fault: Planted, judged: dict[str, Judged], now_s: float) -> Finding | None:
    """Return a finding of the fault's own detector about one of its entities, while the fault lasts."""
    if not fault.start_s <= now_s < fault.end_s:
        return None
    mine = [f for key, one in judged.items() if key.partition("/")[0] == fault.detector for f in one.findings]
    about = [f for f in mine if {f.entity, *f.others} & set(fault.entities) and fault.kind in {f.kind, "any"}]
    return about[0] if about else None


def _target(world: World, kind: str, entity: int) -> str:
    return world.entities["port" if kind == "any" else kind].name_of(entity)
