"""An incident: one cause, from the first evidence of it to the end of what was done about it.

An incident is a value; each step returns a new one with a higher revision. Severity comes from the capacity that is
left when the faulty part is not used, never from "a port is down".
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from railkeeper.fabric.names import domain_name, nic_name
from railkeeper.health.fault import AGREE, ALONE, CLEAN, DISAGREE
from railkeeper.respond import capacity
from railkeeper.respond.faultview import CLEARED, FaultRecord, describe
from railkeeper.respond.records import known_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railkeeper.fabric.model import Fabric

MAX_TIMELINE = 200
# What the counters of ports add, for people.
COUNTERS = {
    AGREE: "counters of its ports agree",
    DISAGREE: "counters of its ports contradict",
    CLEAN: "counters of its ports are clean",
    ALONE: "known by counters alone, so nothing is denied for it: no path was seen to suffer",
}
# A change of a rate by less than this factor is the same news.
NEWS_FACTOR = 1.5


class IncidentStatus(enum.StrEnum):
    """Open: the fault is there; recovering: it is gone, its denial still stands; closed: nothing is left of it."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"


class Severity(enum.StrEnum):
    """How much is lost: see `weigh`."""

    INFO = "info"
    MINOR = "minor"
    MAJOR = "major"
    CRITICAL = "critical"


@dataclass(frozen=True)
class Impact:
    """Shares of capacity that are left without the faulty part: of the worst plane, and of the worst NIC."""

    severity: Severity
    plane: str = ""
    plane_left: float = 1.0
    nic: str = ""
    nic_left: float = 1.0


@dataclass(frozen=True)
class Entry:
    """One line of a timeline."""

    t: float
    text: str


@dataclass(frozen=True)
class Incident:
    """One cause on record; times are unix seconds. `fault` is the newest word on it, `former` earlier keys."""

    id: str
    fault: FaultRecord
    impact: Impact
    opened_at: float
    updated_at: float
    status: IncidentStatus = IncidentStatus.OPEN
    revision: int = 1
    cleared_at: float | None = None
    closed_at: float | None = None
    former: tuple[str, ...] = ()
    owner: str = ""
    ending: str = ""
    denials: int = 0
    timeline: tuple[Entry, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.status is not IncidentStatus.CLOSED

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Incident:
        """Read what `to_dict` wrote; fields of later releases are ignored."""
        values = known_fields(cls, data)
        impact = dict(data["impact"])
        values |= {
            "fault": FaultRecord.from_dict(data["fault"]),
            "status": IncidentStatus(data["status"]),
            "impact": Impact(**{**impact, "severity": Severity(impact["severity"])}),
            "timeline": tuple(Entry(**e) for e in data.get("timeline", ())),
        }
        return cls(**values)


def weigh(fabric: Fabric, fault: FaultRecord) -> Impact:
    """Return what a fault costs when its part is avoided.

    critical: a NIC is cut off, or a plane is left with less than half; major: a NIC has lost a whole plane, or a plane
    more than a tenth; minor: less than that, which the transport rides out; info: no fault of the network.
    """
    if not fault.network or not fault.denied_links:
        return Impact(Severity.INFO)
    left = capacity.usable(fabric, fault.denied_links)
    planes, nics = capacity.plane_capacity(fabric, left), capacity.nic_capacity(fabric, left)
    plane, nic = int(planes.argmin()), int(nics.argmin())
    plane_left, nic_left = float(planes[plane]), float(nics[nic])
    return Impact(
        _severity(plane_left, nic_left, fabric.planes),
        domain_name(fabric, plane), round(plane_left, 6), nic_name(fabric, nic), round(nic_left, 6),
    )  # fmt: skip


def _severity(plane_left: float, nic_left: float, planes: int) -> Severity:
    if nic_left <= 0 or plane_left < 0.5:
        return Severity.CRITICAL
    if nic_left <= 1 - 1 / planes + 1e-9 or plane_left < 0.9:
        return Severity.MAJOR
    return Severity.MINOR


def opened(fabric: Fabric, incident_id: str, fault: FaultRecord, now: float) -> Incident:
    """Return a new incident for a fault."""
    impact = weigh(fabric, fault)
    first = Entry(now, f"opened: {describe(fault)}, {impact.severity}{_by_counters(fault)}")
    return Incident(incident_id, fault, impact, now, now, timeline=(first,))


def told(incident: Incident, now: float, text: str, **changes: Any) -> Incident:
    """Return the incident with a line more on its timeline, and with `changes` of its fields."""
    # The first line says how it began: a long timeline loses its middle, which the journal's events keep.
    lines = incident.timeline
    if len(lines) >= MAX_TIMELINE:
        lines = (lines[0], *lines[-(MAX_TIMELINE - 2) :])
    return replace(
        incident, timeline=(*lines, Entry(now, text)), updated_at=now, revision=incident.revision + 1, **changes
    )


def seen(fabric: Fabric, incident: Incident, fault: FaultRecord, now: float) -> Incident:
    """Return the incident after a tick in which its fault was there; itself where that is no news."""
    if incident.status is not IncidentStatus.OPEN:
        text = f"back again: {describe(fault)}"
        back: dict[str, Any] = {"status": IncidentStatus.OPEN, "cleared_at": None, "closed_at": None, "ending": ""}
        return told(incident, now, text, fault=fault, impact=weigh(fabric, fault), **back)
    if not _is_news(incident.fault, fault):
        return incident
    former = incident.former
    if fault.key != incident.fault.key:
        former = (*(k for k in former if k != fault.key), incident.fault.key)
    text = f"now: {describe(fault)}{_by_counters(fault)}"
    return told(incident, now, text, fault=fault, impact=weigh(fabric, fault), former=former)


def _by_counters(fault: FaultRecord) -> str:
    return f"; {COUNTERS[fault.counters]}" if fault.counters in COUNTERS else ""


def _is_news(old: FaultRecord, new: FaultRecord) -> bool:
    fixed = ("key", "target", "kind", "direction", "status", "denied_links", "network", "counters")
    if any(getattr(old, name) != getattr(new, name) for name in fixed):
        return True
    return any(_differs(getattr(old, name), getattr(new, name)) for name in ("rate", "delay_ms", "gbps"))


def _differs(a: float, b: float) -> bool:
    low, high = sorted((abs(a), abs(b)))
    return high > NEWS_FACTOR * low


def cleared(incident: Incident, now: float, why: str) -> Incident:
    """Return the incident after its fault is gone by evidence (or has turned out to be another's)."""
    if incident.status is not IncidentStatus.OPEN:
        return incident
    gone = replace(incident.fault, status=CLEARED)
    return told(incident, now, why, fault=gone, ending=why, status=IncidentStatus.RECOVERING, cleared_at=now)


def closed(incident: Incident, now: float) -> Incident:
    """Return the incident after its end."""
    return told(incident, now, "closed", status=IncidentStatus.CLOSED, closed_at=now)
