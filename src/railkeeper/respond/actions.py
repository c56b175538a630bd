"""An action: what is done against a fault, why, what allowed or refused it, what came of it, how it is undone.

An action is a value; each step returns a new one with a higher revision. The steps:

proposed -> refused | dry-run | approved -> applied -> (verified) -> lifted
applied -> verified as no help -> lifted at once (`undone`)
refused and dry-run -> approved once the guardrails let it, or withdrawn when the fault is gone
approved and applied -> replaced when a better located fault takes its place
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from railkeeper.respond.records import known_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ActionStatus(enum.StrEnum):
    """How far an action has come."""

    REFUSED = "refused"
    DRY_RUN = "dry-run"
    APPROVED = "approved"
    APPLIED = "applied"
    LIFTED = "lifted"
    REPLACED = "replaced"
    WITHDRAWN = "withdrawn"


IN_FORCE = frozenset({ActionStatus.APPROVED, ActionStatus.APPLIED})
HELD_BACK = frozenset({ActionStatus.REFUSED, ActionStatus.DRY_RUN})
DONE = frozenset({ActionStatus.LIFTED, ActionStatus.REPLACED, ActionStatus.WITHDRAWN})


@dataclass(frozen=True)
class Verdict:
    """What one guardrail says of a proposal, with the number it looked at and the limit it holds."""

    rule: str
    ok: bool
    reason: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Proposal:
    """A wish of the policy: `deny` or `lift` directed links for an incident; `replaces` is an action in force."""

    intent: str
    key: str
    incident: str
    target: str
    links: tuple[int, ...]
    reason: str
    evidence: tuple[str, ...] = ()
    confidence: float = 1.0
    replaces: str = ""


@dataclass(frozen=True)
class Action:
    """One action on record; times are unix seconds, `links` directed links, `diff` what it changes."""

    key: str
    incident: str
    target: str
    links: tuple[int, ...]
    reason: str
    proposed_at: float
    updated_at: float
    intent: str = "deny-paths"
    status: ActionStatus = ActionStatus.REFUSED
    revision: int = 1
    evidence: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    diff: dict[str, Any] = field(default_factory=dict)
    approved_at: float | None = None
    applied_at: float | None = None
    ended_at: float | None = None
    asked: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    kept_by_floor: int = 0
    verification: dict[str, Any] | None = None
    undo: str = "lift the denial of these links"
    note: str = ""
    # The version of the denied set that the verdicts hold for.
    judged_version: int = -1
    # Lifted because it did not help, not because the fault was gone.
    undone: bool = False

    @property
    def in_force(self) -> bool:
        return self.status in IN_FORCE

    @property
    def refusals(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if not v.ok)

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Action:
        """Read what `to_dict` wrote; fields of later releases are ignored."""
        values = known_fields(cls, data)
        values["status"] = ActionStatus(values["status"])
        values["verdicts"] = tuple(Verdict(**v) for v in values.get("verdicts", ()))
        return cls(**values)


def judged(
    proposal: Proposal,
    verdicts: Iterable[Verdict],
    diff: dict[str, Any],
    *,
    now: float,
    version: int,
    old: Action | None,
) -> Action:
    """Return the action that a proposal has become after the guardrails; `old` is its earlier refusal, if any."""
    said = tuple(verdicts)
    status = _status(said)
    return Action(
        key=proposal.key, incident=proposal.incident, target=proposal.target, links=proposal.links,
        reason=proposal.reason, evidence=proposal.evidence, verdicts=said, diff=diff, status=status,
        proposed_at=old.proposed_at if old else now, updated_at=now, revision=old.revision + 1 if old else 1,
        approved_at=now if status is ActionStatus.APPROVED else None, judged_version=version,
    )  # fmt: skip


def _status(verdicts: tuple[Verdict, ...]) -> ActionStatus:
    refusing = {v.rule for v in verdicts if not v.ok}
    if not refusing:
        return ActionStatus.APPROVED
    return ActionStatus.DRY_RUN if refusing == {"dry-run"} else ActionStatus.REFUSED


# What these rules say can change only with the denied set, the links or the limits; the others watch the clock.
_TIMELESS = frozenset({"dry-run", "pair-floor", "plane-share"})


def still_refused(action: Action | None, proposal: Proposal, version: int) -> bool:
    """Return whether judging the proposal again could not give another answer."""
    if action is None or action.links != proposal.links or action.judged_version != version:
        return False
    return {v.rule for v in action.refusals} <= _TIMELESS


def same_refusal(a: Action, b: Action) -> bool:
    """Return whether two judgements refuse the same links by the same rules, so that one record says it all."""
    return (a.status, a.links) == (b.status, b.links) and ({v.rule for v in a.refusals} == {v.rule for v in b.refusals})


def ended(action: Action, status: ActionStatus, now: float, note: str) -> Action:
    """Return the action after its end: lifted, replaced or withdrawn, and why."""
    return replace(action, status=status, updated_at=now, ended_at=now, note=note, revision=action.revision + 1)


def confirmed_by(action: Action, asked: Iterable[str], confirmed: Iterable[str], kept: int, now: float) -> Action:
    """Return the action after peers have answered; it is applied once all that were asked have confirmed.

    `kept` is the number of paths that peers still use because of their own floor.
    """
    a, c = tuple(sorted(asked)), tuple(sorted(confirmed))
    done = bool(a) and set(a) <= set(c)
    if (a, c, kept, done) == (action.asked, action.confirmed, action.kept_by_floor, action.applied_at is not None):
        return action
    applied_at = action.applied_at if action.applied_at is not None else (now if done else None)
    status = ActionStatus.APPLIED if applied_at is not None else action.status
    return replace(
        action, asked=a, confirmed=c, kept_by_floor=kept, status=status, applied_at=applied_at,
        updated_at=now, revision=action.revision + 1,
    )  # fmt: skip


def verified(action: Action, verification: dict[str, Any], now: float) -> Action:
    """Return the action with what its verification found."""
    return replace(action, verification=verification, updated_at=now, revision=action.revision + 1)


def undone(action: Action, why: str, now: float) -> Action:
    """Return the action after it was taken back because it did not help."""
    return replace(ended(action, ActionStatus.LIFTED, now, why), undone=True)


def denied_by(actions: Iterable[Action]) -> tuple[int, ...]:
    """Return the directed links that actions in force deny, ascending."""
    return tuple(sorted({link for a in actions if a.in_force for link in a.links}))
