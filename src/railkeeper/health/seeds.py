"""Start from faults that an earlier keeper had told: they stay open until fresh evidence clears them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.fabric.names import Kind, parse_name
from railkeeper.health.fault import CLEARED, Fault
from railkeeper.health.parts import DIRECTION_NAMES
from railkeeper.health.track import AWAY, CORRUPT, DELAY, HARD, LOSS, SLOW, Tracked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.health.parts import Parts
    from railkeeper.health.state import LocatorState

_FAMILY = {"loss": LOSS, "corrupt": CORRUPT, "delay": DELAY, "slow": SLOW, "agent-down": AWAY}
CARRIER_KINDS = frozenset({"down", "flap", "reboot", "optic", "node-down"})


def seed_state(state: LocatorState, faults: Iterable[Fault]) -> LocatorState:
    """Return the state with these faults open."""
    for fault in faults:
        if fault.status != CLEARED:
            target = parse_name(state.fabric, fault.target)
            if fault.kind == "agent-down" and target.kind is Kind.NODE:
                state.silent_for[target.id] = max(int(state.silent_for[target.id]), state.config.silent_ticks)
            state.faults.append(tracked_fault(state.parts, fault))
    return state


def tracked_fault(parts: Parts, fault: Fault) -> Tracked:
    """Return a fault as a locator follows it."""
    target = parse_name(parts.fabric, fault.target)
    part = parts.of(target)
    family = HARD if fault.kind == "loss" and fault.rate >= 1.0 else _FAMILY.get(fault.kind, HARD)
    direction = DIRECTION_NAMES.index(fault.direction)
    directions = tuple(DIRECTION_NAMES.index(d) for d in fault.directions) or (direction,)
    return Tracked(
        family, fault.kind, part, fault.since_tick, fault.since_tick, direction=direction, directions=directions,
        target=target if target != part.component else None, also_kinds=fault.also_kinds, confidence=fault.confidence,
        rate=fault.rate, rate_low=fault.rate_low, rate_high=fault.rate_high, delay_ms=fault.delay_ms, gbps=fault.gbps,
        seen=fault.since_tick, spells=[fault.since_tick], evidence=fault.evidence, key=fault.key,
        carriers=fault.kind in CARRIER_KINDS,
    )  # fmt: skip
