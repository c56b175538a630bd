"""How well the loop does: times to deny and to be well again, refusals, and how many denials helped."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from railkeeper.respond.actions import Action, ActionStatus
from railkeeper.respond.incidents import Incident, IncidentStatus

if TYPE_CHECKING:
    from collections.abc import Iterable


def success(incidents: Iterable[Incident], actions: Iterable[Action]) -> dict[str, Any]:
    """Return counts and median times in seconds; None where nothing has been measured yet."""
    told, done = list(incidents), list(actions)
    applied = [a.applied_at - a.proposed_at for a in done if a.applied_at is not None]
    gone = [i.cleared_at - i.opened_at for i in told if i.cleared_at is not None]
    healed = [i.closed_at - i.opened_at for i in told if i.closed_at is not None]
    outcomes = Counter(str(a.verification["outcome"]) for a in done if a.verification)
    return {
        "incidents": len(told),
        "open": sum(i.status is not IncidentStatus.CLOSED for i in told),
        "by_kind": dict(sorted(Counter(i.fault.kind for i in told).items())),
        "by_severity": dict(sorted(Counter(i.impact.severity.value for i in told).items())),
        "actions": len(done),
        "refused": sum(a.status is ActionStatus.REFUSED or _was_refused(a) for a in done),
        "median_seconds_to_deny": _median(applied),
        "median_seconds_to_clear": _median(gone),
        "median_seconds_to_close": _median(healed),
        "verified": dict(sorted(outcomes.items())),
    }


def _was_refused(action: Action) -> bool:
    return action.status is ActionStatus.WITHDRAWN and {v.rule for v in action.refusals} != {"dry-run"}


def _median(values: list[float]) -> float | None:
    return round(median(values), 3) if values else None
