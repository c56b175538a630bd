"""What to wish for: deny the paths through a located network fault, lift the denial when the fault is cleared.

The policy proposes; the guardrails dispose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.health.fault import ALONE
from railkeeper.respond.actions import HELD_BACK, Action, Proposal
from railkeeper.respond.faultview import describe
from railkeeper.respond.incidents import Incident, IncidentStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railkeeper.respond.guardrails import Limits

# A denial that covers its fault is not made narrower before it is this old.
SHRINK_AFTER_S = 10.0


def decide(incidents: Iterable[Incident], actions: Sequence[Action], limits: Limits, now: float) -> list[Proposal]:
    """Return the proposals of this moment, in the order of the incidents.

    An open incident with links to avoid wishes for a denial of just these; a recovering one wishes its denial lifted,
    once that has been held for `limits.hold_s`. Nothing is lifted because evidence is missing.
    """
    out: list[Proposal] = []
    for incident in incidents:
        mine = [a for a in actions if a.incident == incident.id]
        proposal = _for_open(incident, mine, now) if incident.status is IncidentStatus.OPEN else None
        if incident.status is IncidentStatus.RECOVERING:
            proposal = _for_recovering(incident, mine, limits, now)
        if proposal is not None:
            out.append(proposal)
    return out


def _for_open(incident: Incident, mine: Sequence[Action], now: float) -> Proposal | None:
    fault = incident.fault
    # Counters say that a part is not well; that traffic suffers from it is for paths to say.
    if not fault.network or not fault.denied_links or fault.counters == ALONE:
        return None
    standing = next((a for a in mine if a.in_force), None)
    if standing is not None and _suffices(standing, fault.denied_links, now):
        return None
    pending = next((a for a in mine if a.status in HELD_BACK), None)
    return Proposal(
        intent="deny",
        key=pending.key if pending else f"{incident.id}/deny-{incident.denials + 1}",
        incident=incident.id,
        target=fault.target,
        links=fault.denied_links,
        reason=describe(fault),
        evidence=fault.evidence,
        confidence=fault.confidence,
        replaces=standing.key if standing else "",
    )


def _suffices(standing: Action, wanted: tuple[int, ...], now: float) -> bool:
    """Return whether a denial in force may stay as it is: it covers what is wanted, and is hardly wider.

    While a fault is young its direction, and even its part, may still be in doubt from tick to tick: to follow each
    doubt would keep all senders busy, and a denial that is wider by a direction costs nothing that matters.
    """
    if not set(wanted) <= set(standing.links):
        return False
    young = 0 <= now - (standing.approved_at or standing.proposed_at) < SHRINK_AFTER_S
    return young or len(standing.links) <= 2 * len(wanted)


def _for_recovering(incident: Incident, mine: Sequence[Action], limits: Limits, now: float) -> Proposal | None:
    standing = next((a for a in mine if a.in_force), None)
    if standing is None:
        return None
    since = standing.approved_at if standing.approved_at is not None else standing.proposed_at
    if 0 <= now - since < limits.hold_s:
        return None
    return Proposal(
        intent="lift",
        key=standing.key,
        incident=incident.id,
        target=standing.target,
        links=standing.links,
        reason=f"{describe(incident.fault)} {incident.ending}",
        evidence=incident.fault.evidence,
    )
