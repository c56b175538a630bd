"""The keeper's JSON Lines: one dictionary an event, made of plain values, the same for every world."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.app.traffic import TrafficTick
    from railkeeper.health.detect.finding import Finding
    from railkeeper.health.fault import Fault
    from railkeeper.health.slo.objectives import Level
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.respond.actions import Action
    from railkeeper.respond.incidents import Incident

SCHEMA = 1
# Of the victims of one cause, so many are named.
MAX_OTHERS = 20


def _line(t: float, type_: str, /, **values: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "t": round(t, 3), "type": type_, **values}


def number(value: float, digits: int = 6) -> float | None:
    """Return a number that JSON can hold; None where it is not known."""
    return round(float(value), digits) if math.isfinite(value) else None


@dataclass(frozen=True)
class TickFacts:
    """What the line of a tick is made of.

    `traffic` is the newest sum of the senders, None where none reports; `away` are the silent nodes that should report.
    """

    tick: int
    tick_s: float
    stats: PathStats
    agents: int
    silent: tuple[int, ...]
    unclean: tuple[int, ...]
    denied_links: int
    traffic: TrafficTick | None
    away: tuple[int, ...]

    @property
    def now(self) -> float:
        """Unix time of the tick's end."""
        return (self.tick + 1) * self.tick_s


def tick_event(facts: TickFacts) -> dict[str, Any]:
    """Return the line of a tick: how much was seen, and how the traffic fares."""
    sent = int(facts.stats.sent.sum())
    return _line(
        facts.now, "tick", tick=facts.tick, agents=facts.agents, silent=len(facts.silent),
        unclean=len(facts.unclean), paths=len(facts.stats), probes_sent=sent,
        probes_lost=sent - int(facts.stats.received.sum()), denied_links=facts.denied_links,
        traffic=None if facts.traffic is None else _traffic(facts.traffic, facts.tick_s),
    )  # fmt: skip


def _traffic(t: TrafficTick, tick_s: float) -> dict[str, Any]:
    return {
        "tick": t.tick,
        "senders": t.senders,
        "sent": t.sent,
        "lost": t.lost,
        "retransmitted": t.retransmitted,
        "goodput_bps": number(8 * t.delivered_bytes / tick_s),
        "busbw_bps": number(t.busbw_bps),
    }


def finding_events(facts: TickFacts) -> list[dict[str, Any]]:
    """Return a line for each node whose evidence is missing or can't be used in this tick."""
    silent = [_finding(facts, node, "the agent sent no report of this tick") for node in facts.away]
    own = [_finding(facts, node, "the agent lost probes by its own doing: not used") for node in facts.unclean]
    return silent + own


def _finding(facts: TickFacts, node: int, what: str) -> dict[str, Any]:
    return _line(facts.now, "finding", tick=facts.tick, entity=f"n{node}", what=what, verdict="no data")


def detector_event(tick: int, now: float, f: Finding, name_of: Callable[[int], str]) -> dict[str, Any]:
    """Return the line of what a detector says of an entity: new, or with another verdict."""
    return _line(
        now, "finding", tick=tick, entity=name_of(f.entity), what=f"{f.detector}: {f.signal}", verdict=f.verdict,
        detector=f.detector, signal=f.signal, value=number(f.value), expected=number(f.expected), unit=f.unit,
        against=f.against, since_s=round(f.since_s, 3), confidence=number(f.confidence, 4),
        evidence=list(f.evidence), others=[name_of(i) for i in f.others[:MAX_OTHERS]], n_others=len(f.others),
    )  # fmt: skip


def ended_event(tick: int, now: float, f: Finding, name_of: Callable[[int], str]) -> dict[str, Any]:
    """Return the line of a finding that has ended: the entity is well again, as far as this detector sees."""
    return _line(
        now, "finding", tick=tick, entity=name_of(f.entity), what=f"{f.detector}: {f.signal}", verdict="ok",
        detector=f.detector, signal=f.signal, since_s=round(f.since_s, 3),
    )  # fmt: skip


def failure_event(tick: int, now: float, detector: str, error: str) -> dict[str, Any]:
    """Return the line of a detector that begins to fail; without an error, of one that works again."""
    what = f"{detector}: {error}" if error else f"{detector}: works again"
    return _line(now, "finding", tick=tick, entity=detector, what=what, verdict="error" if error else "ok")


def level_event(now: float, level: Level) -> dict[str, Any]:
    """Return the line of a service level objective whose state has changed."""
    return _line(now, "slo", **level_view(level))


def level_view(level: Level) -> dict[str, Any]:
    """Return how an objective stands in one scope, as plain values."""
    return {
        "name": level.slo.name,
        "sli": level.slo.sli,
        "scope": level.scope,
        "objective": level.slo.objective,
        "state": level.state,
        "ratio": _maybe(level.ratio, 9),
        "good": number(level.good, 3),
        "total": number(level.total, 3),
        "budget_left": _maybe(level.budget_left, 6),
        "burn_rates": {f"{int(window)}s": _maybe(rate, 4) for window, rate in level.burns.items()},
    }


def _maybe(value: float | None, digits: int) -> float | None:
    return None if value is None else number(value, digits)


def fault_view(fault: Fault) -> dict[str, Any]:
    """Return a located fault as plain values."""
    # Without counters' word it is as it always was: recordings of any age replay to the same.
    counters = {"counters": fault.counters} if fault.counters else {}
    return {
        "key": fault.key,
        "target": fault.target,
        "kind": fault.kind,
        "direction": fault.direction,
        "rate": number(fault.rate),
        "rate_low": number(fault.rate_low),
        "rate_high": number(fault.rate_high),
        "delay_ms": number(fault.delay_ms, 3),
        "gbps": number(fault.gbps, 3),
        "confidence": number(fault.confidence, 4),
        "indistinguishable": list(fault.indistinguishable),
        "also_kinds": list(fault.also_kinds),
        "directions": list(fault.directions),
        "status": fault.status,
        "network": fault.network,
        "since_tick": fault.since_tick,
        **counters,
    }


def fault_event(now: float, fault: Fault) -> dict[str, Any]:
    """Return the line of a fault that is new or has changed."""
    return _line(now, "fault", **fault_view(fault), evidence=list(fault.evidence))


def impact_event(now: float, incident: Incident) -> dict[str, Any]:
    """Return the line of what a fault costs."""
    i = incident.impact
    return _line(
        now, "impact", incident=incident.id, target=incident.fault.target, severity=str(i.severity), plane=i.plane,
        plane_left=i.plane_left, nic=i.nic, nic_left=i.nic_left,
    )  # fmt: skip


def incident_event(now: float, incident: Incident) -> dict[str, Any]:
    """Return the line of an incident that has changed."""
    f = incident.fault
    return _line(
        now, "incident", id=incident.id, revision=incident.revision, status=str(incident.status), target=f.target,
        kind=f.kind, direction=f.direction, severity=str(incident.impact.severity),
        note=incident.timeline[-1].text if incident.timeline else "",
    )  # fmt: skip


def action_event(now: float, action: Action) -> dict[str, Any]:
    """Return the line of an action that has changed."""
    return _line(
        now, "action", key=action.key, revision=action.revision, incident=action.incident, intent=action.intent,
        target=action.target, status=str(action.status), links=len(action.links), reason=action.reason,
        refusals=[v.reason for v in action.refusals], confirmed=len(action.confirmed), asked=len(action.asked),
        kept_by_floor=action.kept_by_floor, verification=action.verification, note=action.note,
    )  # fmt: skip
