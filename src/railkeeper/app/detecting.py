"""Detectors in the keeper: frames in, findings out, told when they open, change or end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.app.levels import PortsSeen
from railkeeper.health.detect import engine
from railkeeper.health.detect.finding import V_NO_DATA
from railkeeper.telemetry.fabric_entities import nic_entities, node_entities, port_entities, switch_entities

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding, Judged
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.frame import Block, Frame

Key = tuple[str, str, int, str]
GRACE_FRAMES = 30


@dataclass
class Detecting:
    """The engine, and what was told last.

    - said: open findings by (detector, kind of entity, entity, signal)
    - judged: the last frame's answers; failing: detector (or `detector/kind`) -> what went wrong in it
    - grace: detector -> frames for which what it once found still stands, since it failed
    """

    entities: dict[str, Entities]
    engine: engine.EngineState
    said: dict[Key, Finding]
    judged: dict[str, Judged]
    t_s: float = 0.0
    failing: dict[str, str] = field(default_factory=dict)
    grace: dict[str, int] = field(default_factory=dict)


def entities_of(fabric: Fabric) -> dict[str, Entities]:
    """Return the entities of a fabric by kind."""
    made = (port_entities, nic_entities, node_entities, switch_entities)
    return {e.kind: e for e in (make(fabric) for make in made)}


def begin_detecting(
    entities: dict[str, Entities], parameters: Mapping[str, Mapping[str, float]], frame_s: float
) -> Detecting:
    """Return the state before the first frame; raises InputError for parameters that no detector has."""
    made = engine.new(engine.detectors_found(), entities, parameters, tick_s=frame_s)
    return Detecting(entities, made, {}, {})


def detect(state: Detecting, frame: Frame) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Take in a frame; return the findings that are new or have changed, and those that have ended."""
    state.engine, state.judged = engine.tick(state.engine, frame)
    now = {key_of(f): f for judged in state.judged.values() for f in judged.findings}
    _count_grace(state)
    now |= {key: f for key, f in state.said.items() if key not in now and not _is_over(state, f)}
    fresh = tuple(f for key, f in now.items() if _changed(state.said.get(key), f))
    ended = tuple(f for key, f in state.said.items() if key not in now)
    state.said, state.t_s = now, frame.t_s
    return fresh, ended


def _count_grace(state: Detecting) -> None:
    """Note who fails: it has not said that anything is well, and what begins anew has to see it all again."""
    left = {name: n - 1 for name, n in state.grace.items() if n > 1}
    failed = {name.partition("/")[0]: GRACE_FRAMES for name, judged in state.judged.items() if judged.error}
    state.grace = left | failed


def _is_over(state: Detecting, f: Finding) -> bool:
    """Return whether a finding that is not there any more has ended: what can't be seen is not well."""
    judged = state.judged.get(f.detector) or state.judged.get(f"{f.detector}/{f.kind}")
    return f.detector not in state.grace and (judged is None or judged.verdicts[f.entity] != V_NO_DATA)


def failures(state: Detecting) -> dict[str, str]:
    """Return the detectors that fail since the last frame, and what went wrong; "" for one that works again."""
    now = {name: judged.error for name, judged in state.judged.items() if judged.error}
    news = {name: error for name, error in now.items() if name not in state.failing}
    news |= {name: "" for name in state.failing if name not in now}
    state.failing = now
    return news


def key_of(finding: Finding) -> Key:
    """Return what makes two findings the same one."""
    return (finding.detector, finding.kind, finding.entity, finding.signal)


def ports_seen(state: Detecting, frame: Frame) -> PortsSeen:
    """Return what a frame that was just judged says of the ports."""
    entities, block = state.entities["port"], frame.blocks.get("port")
    up = np.full(len(entities), np.nan, dtype=np.float32) if block is None else port_up(block)
    return PortsSeen(entities, state.engine.rates["port"].rates, up)


def port_up(block: Block) -> npt.NDArray[np.float32]:
    """Return (n,) of ports: 1 passes packets, 0 does not, NaN unread; one that is switched off says nothing."""
    nothing = np.full(len(block.t_ns), np.nan, dtype=np.float32)
    columns = dict(zip(block.gauge_names, block.gauges, strict=True))
    up = columns.get("oper_up", nothing)
    return np.where(columns.get("admin_up", nothing) == 0, np.float32(np.nan), up)


def _changed(old: Finding | None, new: Finding) -> bool:
    return old is None or (old.verdict, old.others) != (new.verdict, new.others)
