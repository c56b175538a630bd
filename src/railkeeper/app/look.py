"""A look at whatever there is: sources in, levels by plane and the worst parts out, with or without a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.app.detecting import entities_of, port_up
from railkeeper.health.detect import engine
from railkeeper.health.detect.finding import V_FAILED, V_NO_DATA
from railkeeper.health.slo.slis import delivered, uncongested

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding, Judged
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.frame import Block, Frame

WEIGHTS = {"failed": 3.0, "degraded": 1.0}


@dataclass(frozen=True)
class Part:
    """One part that is not well: its name, how bad it is, and what was found of it, the worst first."""

    name: str
    score: float
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Report:
    """What one frame shows.

    - seen: kind of entity -> how many were read; levels: indicator -> plane -> (good, total) amounts of this frame
    - parts: those that are not well, the worst first
    - judged: verdicts that were reached, over all detectors and entities; blind: detector -> entities without data
    - errors: detector -> what went wrong in it
    """

    t_s: float
    seen: dict[str, int]
    levels: dict[str, dict[str, tuple[float, float]]]
    parts: tuple[Part, ...]
    judged: int
    blind: dict[str, int]
    errors: dict[str, str]


class Look:
    """Judges frame after frame. Without a fabric there are no planes: everything is one."""

    def __init__(self, fabric: Fabric | None, parameters: Mapping[str, Mapping[str, float]], frame_s: float) -> None:
        self._fabric, self._parameters, self._frame_s = fabric, parameters, frame_s
        self._known = entities_of(fabric) if fabric is not None else {}
        self._engine: engine.EngineState | None = None

    def report(self, frame: Frame) -> Report:
        """Take in a frame and say what it shows."""
        entities = self._known | {kind: block.entities for kind, block in frame.blocks.items()}
        self._engine, judged = engine.tick(self._engine_of(entities), frame)
        return Report(
            frame.t_s,
            seen={kind: int((block.t_ns > 0).sum()) for kind, block in frame.blocks.items()},
            levels=self._levels(frame.blocks.get("port"), self._engine),
            parts=worst(judged, entities),
            judged=sum(int((j.verdicts <= V_FAILED).sum()) for j in judged.values()),
            blind={name: int((j.verdicts == V_NO_DATA).sum()) for name, j in judged.items()},
            errors={name: j.error for name, j in judged.items() if j.error},
        )

    def _engine_of(self, entities: dict[str, Entities]) -> engine.EngineState:
        """Return the engine for these entities; with new ones, what was learnt of their kind begins anew."""
        old = self._engine
        if old is not None and _sizes(old.entities) == _sizes(entities):
            return old
        made = engine.new(engine.detectors_found(), entities, self._parameters, tick_s=self._frame_s)
        if old is not None:
            same = {kind for kind, e in entities.items() if kind in old.entities and len(old.entities[kind]) == len(e)}
            made.rates |= {kind: known for kind, known in old.rates.items() if kind in same}
            made.seats |= {key: seat for key, seat in old.seats.items() if seat.kind in same}
        return made

    def _levels(self, block: Block | None, known: engine.EngineState) -> dict[str, dict[str, tuple[float, float]]]:
        if block is None:
            return {}
        rates, up = known.rates["port"].rates, port_up(block)
        read = np.flatnonzero(~np.isnan(up))
        amounts = {
            "delivery": delivered(rates),
            "congestion": uncongested(block.entities, rates),
            "link-health": (read, (up[read] > 0).astype(np.float64), np.ones(len(read))),
        }
        planes, plane_of = self._planes(block.entities)
        return {name: _by_plane(planes, plane_of, *found) for name, found in amounts.items()}

    def _planes(self, ports: Entities) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
        if self._fabric is None:
            return ("all",), np.zeros(len(ports), dtype=np.int64)
        names = tuple(f"p{p}" for p in range(self._fabric.planes))
        return names, ports.domain.astype(np.int64) % self._fabric.planes


def _sizes(entities: Mapping[str, Entities]) -> dict[str, int]:
    return {kind: len(e) for kind, e in entities.items()}


def _by_plane(
    planes: Sequence[str],
    plane_of: npt.NDArray[np.int64],
    ids: npt.NDArray[np.intp],
    good: npt.NDArray[np.float64],
    total: npt.NDArray[np.float64],
) -> dict[str, tuple[float, float]]:
    sums = [np.bincount(plane_of[ids], weights=x, minlength=len(planes)) for x in (good, total)]
    return {name: (float(sums[0][k]), float(sums[1][k])) for k, name in enumerate(planes) if sums[1][k] > 0}


def worst(judged: Mapping[str, Judged], entities: Mapping[str, Entities]) -> tuple[Part, ...]:
    """Return the parts that are not well, the worst first: by verdicts, and how sure these are.

    What the two ends of a link say stands together, under the end that looks worse.
    """
    groups: dict[tuple[str, int], list[Finding]] = {}
    for one in judged.values():
        for f in one.findings:
            groups.setdefault((f.kind, _pair(entities[f.kind], f.entity)), []).append(f)
    parts = [_part(entities[kind], findings) for (kind, _), findings in groups.items()]
    return tuple(sorted(parts, key=lambda p: (-p.score, p.name)))


def _pair(entities: Entities, entity: int) -> int:
    other = int(entities.other[entity]) if len(entities.other) else -1
    return min(entity, other) if other >= 0 else entity


def _part(entities: Entities, findings: list[Finding]) -> Part:
    ordered = sorted(findings, key=lambda f: (-_weight(f), f.detector, f.entity))
    return Part(entities.name_of(ordered[0].entity), sum(map(_weight, ordered)), tuple(ordered))


def _weight(f: Finding) -> float:
    return WEIGHTS.get(f.verdict, 0.0) * f.confidence
