"""A fault from the tick in which it is told to the tick in which it is cleared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.fabric.names import Component, Kind, name_of
from railkeeper.health.fault import CLEARED, OPEN, Fault
from railkeeper.health.parts import BOTH, DIRECTION_NAMES, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railkeeper.fabric.model import Fabric

HARD, LOSS, CORRUPT, DELAY, SLOW, AWAY = "hard", "loss", "corrupt", "delay", "slow", "away"


@dataclass(eq=False)
class Tracked:
    """What is known of one open fault; `family` is the evidence that keeps it, `kind` the name of what it does.

    `good` and `since_good` count well ticks in a row; `spells` are the ticks in which it died (again), `earlier` those
    of faults of this part that were cleared lately; `seen` is the
    last tick with evidence of it; `rate_since` the first tick whose counts have the present rate.
    """

    family: str
    kind: str
    part: Part
    since: int
    opened: int
    direction: int = BOTH
    directions: tuple[int, ...] = (BOTH,)
    target: Component | None = None
    also_kinds: tuple[str, ...] = ()
    ties: tuple[Part, ...] = ()
    confidence: float = 0.99
    rate: float = math.nan
    rate_low: float = math.nan
    rate_high: float = math.nan
    delay_ms: float = math.nan
    gbps: float = math.nan
    status: str = OPEN
    good: int = 0
    unsure: int = 0
    seen: int = 0
    rate_since: int = 0
    spell_base: int = 0
    carriers: bool = False
    spells: list[int] = field(default_factory=list)
    earlier: tuple[int, ...] = ()
    evidence: tuple[str, ...] = ()
    key: str = ""

    def component(self) -> Component:
        return self.part.component if self.target is None else self.target

    def directed(self) -> list[int]:
        """Return the directed links to avoid: all that the fault may touch."""
        sets = [self.part.directed(d) for d in {self.direction, *self.directions}]
        return sorted({int(x) for s in sets for x in s})

    @property
    def live(self) -> bool:
        return self.status != CLEARED


def to_fault(fabric: Fabric, t: Tracked) -> Fault:
    """Return the public face of a tracked fault."""
    target = t.component()
    away = t.kind == "agent-down"
    return Fault(
        key=t.key, target=name_of(fabric, target), kind=t.kind, direction=DIRECTION_NAMES[t.direction],
        since_tick=t.since, status=t.status, confidence=round(t.confidence, 4), rate=t.rate, rate_low=t.rate_low,
        rate_high=t.rate_high, delay_ms=t.delay_ms, gbps=t.gbps, also_kinds=t.also_kinds,
        directions=tuple(DIRECTION_NAMES[d] for d in sorted(set(t.directions))),
        indistinguishable=_others(fabric, t, target), evidence=t.evidence, network=not away,
        denied_links=() if away else tuple(t.directed()),
    )  # fmt: skip


def _others(fabric: Fabric, t: Tracked, target: Component) -> tuple[str, ...]:
    if t.kind in {"agent-down", "node-down"}:
        return ()
    parts: Sequence[Part] = (t.part, *t.ties)
    members = [c for p in parts for c in (p.component, *p.aliases)]
    names = [name_of(fabric, c) for c in members if c != target]
    return tuple(dict.fromkeys(names))


def is_optic(component: Component) -> bool:
    """Whether a component is a transceiver."""
    return component.kind in {Kind.NIC_OPTIC, Kind.T0_OPTIC}
