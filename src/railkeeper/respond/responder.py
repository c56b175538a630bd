"""One step of the response: faults of a tick in; incidents, actions and the set of denied links out.

Pure: state in, state out. What has changed is returned, so that the caller can make it durable before it acts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from railkeeper.health.fault import ALONE
from railkeeper.respond import actions as act
from railkeeper.respond import guardrails, incidents, policy
from railkeeper.respond.actions import DONE, HELD_BACK, Action, ActionStatus, Proposal
from railkeeper.respond.faultview import CLEARED, FaultRecord, LocatedFault, as_fault, describe, record_of
from railkeeper.respond.incidents import Incident, IncidentStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault
    from railkeeper.respond.guardrails import Limits
    from railkeeper.respond.verify import Verification

# A fault that is back this soon is the same incident.
REOPEN_S = 30.0
# Ended actions are kept in memory for as long as a guardrail may ask for them.
REMEMBER_S = 120.0


@dataclass(frozen=True)
class ResponseState:
    """Open and lately closed incidents, actions in force and lately ended; `version` counts changes of the denials."""

    incidents: Mapping[str, Incident] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)
    next_incident: int = 1
    version: int = 0

    @property
    def denied(self) -> tuple[int, ...]:
        """The directed links that are denied, ascending."""
        return act.denied_by(self.actions.values())

    @property
    def open_faults(self) -> tuple[Fault, ...]:
        """The faults that are still open: what a restarted locator starts from."""
        return tuple(as_fault(i.fault) for i in self.incidents.values() if i.status is IncidentStatus.OPEN)


@dataclass(frozen=True)
class Step:
    """The new state, and only what the step has changed."""

    state: ResponseState
    incidents: tuple[Incident, ...] = ()
    actions: tuple[Action, ...] = ()
    denied_changed: bool = False


def restored(
    past_incidents: Iterable[Incident], past_actions: Iterable[Action], next_incident: int, version: int
) -> ResponseState:
    """Return the state that a journal's records make up."""
    # The limits may have been changed in between: whatever was held back is judged anew.
    anew = {a.key: replace(a, judged_version=-1) for a in past_actions}
    return ResponseState({i.id: i for i in past_incidents}, anew, next_incident, version)


def respond(fabric: Fabric, state: ResponseState, faults: Iterable[LocatedFault], limits: Limits, now: float) -> Step:
    """Return what the faults of one tick lead to.

    A fault with status `cleared` ends; one that is merely not named this time stays as it was: no data is no health.
    """
    work = _Work(fabric, state, limits, now)
    work.take_faults([record_of(f) for f in faults])
    work.act()
    work.close()
    return work.step()


def confirm(
    state: ResponseState, asked: Iterable[str], confirmed: Iterable[str], kept_by_floor: int, now: float
) -> Step:
    """Return the state after senders have answered the newest set of denials.

    `asked` are the senders it was sent to, `confirmed` those that obey it by now, `kept_by_floor` the number of paths
    they keep in use because of their own floor.
    """
    who, yes = list(asked), list(confirmed)
    changed = {}
    for key, action in state.actions.items():
        if action.status is ActionStatus.APPROVED:
            new = act.confirmed_by(action, who, yes, kept_by_floor, now)
            if new is not action:
                changed[key] = new
    return Step(replace(state, actions={**state.actions, **changed}), actions=tuple(changed.values()))


def verification(state: ResponseState, key: str, found: Verification, now: float, *, since: float = math.inf) -> Step:
    """Return the state after an action has been verified; an action that is no longer there is left alone.

    One that did not help is undone, unless another fault that was not avoided all the time from `since` (where the
    traffic after the denial begins to be counted) may be what the traffic suffers from.
    """
    action = state.actions.get(key)
    if action is None:
        return Step(state)
    new = act.verified(action, found.to_dict(), now)
    lines = [f"{key} {found.outcome}: {found.reason}"]
    incident = state.incidents.get(action.incident)
    undo = (
        found.outcome.useless and action.in_force and incident is not None
        and incident.status is IncidentStatus.OPEN and not suspects(state, action.incident, since)
    )  # fmt: skip
    if undo:
        new = act.undone(new, f"undone, it did not help: {found.reason}", now)
        lines.append(f"{key} {new.status}: {new.note}")
    told = {}
    if incident is not None:
        for line in lines:
            incident = incidents.told(incident, now, line)
        told = {incident.id: incident}
    before = state.denied
    state = replace(state, actions={**state.actions, key: new}, incidents={**state.incidents, **told})
    changed = state.denied != before
    return Step(replace(state, version=state.version + changed), tuple(told.values()), (new,), changed)


def suspects(state: ResponseState, but: str, since: float) -> tuple[str, ...]:
    """Return the incidents, but one, whose network faults traffic may have met at `since` or later."""
    applied = {
        a.incident: a.applied_at
        for a in state.actions.values()
        if a.status is ActionStatus.APPLIED and a.applied_at is not None
    }
    return tuple(
        i.id
        for i in state.incidents.values()
        if i.id != but
        and i.fault.network
        and (i.cleared_at is None or i.cleared_at > since)
        and not applied.get(i.id, math.inf) <= since
    )


class _Work:
    """One step being worked out; lives as long as the call."""

    def __init__(self, fabric: Fabric, state: ResponseState, limits: Limits, now: float) -> None:
        self.fabric, self.limits, self.now, self.old = fabric, limits, now, state
        self.incidents, self.actions = dict(state.incidents), dict(state.actions)
        self.next_incident = state.next_incident

    # -- faults to incidents --------------------------------------------------------------------
    def take_faults(self, faults: list[FaultRecord]) -> None:
        live = {f.key: f for f in faults if f.status != CLEARED}
        for fault in live.values():
            incident = self._incident_of(fault, live)
            self.incidents[incident.id] = incidents.seen(self.fabric, incident, fault, self.now)
        gone = {f.key for f in faults if f.status == CLEARED} - live.keys()
        for incident in list(self.incidents.values()):
            if incident.status is IncidentStatus.OPEN and incident.fault.key not in live:
                self._lost_sight_of(incident, live, gone)

    def _incident_of(self, fault: FaultRecord, live: Mapping[str, FaultRecord]) -> Incident:
        for incident in reversed(self.incidents.values()):
            if incident.fault.key == fault.key and self._continues(incident):
                return incident
        for incident in self.incidents.values():
            if (
                incident.status is IncidentStatus.OPEN
                and incident.fault.key not in live
                and _kin(incident.fault, fault)
            ):
                return incident
        new = incidents.opened(self.fabric, f"inc-{self.next_incident}", fault, self.now)
        self.next_incident += 1
        return new

    def _continues(self, incident: Incident) -> bool:
        return incident.is_open or self.now - (incident.closed_at or 0.0) < REOPEN_S

    def _lost_sight_of(self, incident: Incident, live: Mapping[str, FaultRecord], gone: set[str]) -> None:
        """Clear an incident whose fault has been cleared, or is covered by a wider one that is now named instead."""
        links = set(incident.fault.denied_links)
        wider = next((f for f in live.values() if links and links <= set(f.denied_links) and f.counters != ALONE), None)
        if wider is not None:
            why = f"is part of {describe(wider)}"
        elif incident.fault.key in gone:
            why = "is cleared by evidence"
        else:
            return
        self.incidents[incident.id] = incidents.cleared(incident, self.now, why)

    # -- incidents to actions -------------------------------------------------------------------
    def act(self) -> None:
        proposals = policy.decide(self.incidents.values(), list(self.actions.values()), self.limits, self.now)
        # Lifts first: what they give back may let a denial pass.
        for proposal in sorted(proposals, key=lambda p: p.intent != "lift"):
            if proposal.intent == "lift":
                self._end(self.actions[proposal.key], ActionStatus.LIFTED, proposal.reason)
            else:
                self._deny(proposal)
        self._withdraw()

    def _deny(self, proposal: Proposal) -> None:
        old = self.actions.get(proposal.key)
        if act.still_refused(old, proposal, self.old.version):
            return
        before = act.denied_by(self.actions.values())
        kept = act.denied_by(a for a in self.actions.values() if a.key != proposal.replaces)
        past = list(self.actions.values())
        verdicts = guardrails.check(self.fabric, kept, proposal, self.limits, now=self.now, actions=past)
        diff = guardrails.dry_run_diff(self.fabric, before, {*kept, *proposal.links})
        new = act.judged(proposal, verdicts, diff, now=self.now, version=self.old.version, old=old)
        if old is not None and act.same_refusal(old, new):
            # The same answer as before is no news, but need not be worked out again.
            self.actions[old.key] = replace(old, judged_version=self.old.version)
            return
        self.actions[new.key] = new
        self._tell(new, denials=0 if old else 1)
        if new.in_force and proposal.replaces:
            self._end(self.actions[proposal.replaces], ActionStatus.REPLACED, f"replaced by {new.key}")

    def _end(self, action: Action, status: ActionStatus, note: str) -> None:
        self.actions[action.key] = act.ended(action, status, self.now, note)
        self._tell(self.actions[action.key])

    def _withdraw(self) -> None:
        for action in list(self.actions.values()):
            incident = self.incidents.get(action.incident)
            if action.status in HELD_BACK and (incident is None or incident.status is not IncidentStatus.OPEN):
                self._end(action, ActionStatus.WITHDRAWN, "the fault is gone")

    def _tell(self, action: Action, denials: int = 0) -> None:
        incident = self.incidents.get(action.incident)
        if incident is None:
            return
        why = "; ".join(v.reason for v in action.refusals) or action.note or action.reason
        text = f"{action.key} {action.status}: {why}"
        self.incidents[incident.id] = incidents.told(incident, self.now, text, denials=incident.denials + denials)

    # -- the end --------------------------------------------------------------------------------
    def close(self) -> None:
        busy = {a.incident for a in self.actions.values() if a.status not in DONE}
        for incident in list(self.incidents.values()):
            if incident.status is IncidentStatus.RECOVERING and incident.id not in busy:
                self.incidents[incident.id] = incidents.closed(incident, self.now)

    def step(self) -> Step:
        changed_i = tuple(i for k, i in self.incidents.items() if self.old.incidents.get(k) is not i)
        changed_a = tuple(a for k, a in self.actions.items() if self._revision(k) != a.revision)
        denied_changed = act.denied_by(self.actions.values()) != self.old.denied
        state = ResponseState(
            {k: i for k, i in self.incidents.items() if i.is_open or self._recent(i.closed_at)},
            {k: a for k, a in self.actions.items() if a.status not in DONE or self._is_remembered(a)},
            self.next_incident,
            self.old.version + denied_changed,
        )
        return Step(state, changed_i, changed_a, denied_changed)

    def _revision(self, key: str) -> int:
        old = self.old.actions.get(key)
        return old.revision if old else 0

    def _is_remembered(self, action: Action) -> bool:
        return self._recent(action.ended_at, self.limits.retry_s if action.undone else 0.0)

    def _recent(self, end: float | None, at_least_s: float = 0.0) -> bool:
        return end is not None and self.now - end < max(REMEMBER_S, self.limits.cooldown_s, at_least_s)


def _kin(a: FaultRecord, b: FaultRecord) -> bool:
    """Return whether fault b may be a better word for a: the links of one lie within the other's.

    Never counters' word for one of paths: what was denied for a would stand on counters alone.
    """
    if b.counters == ALONE and a.counters != ALONE:
        return False
    x, y = set(a.denied_links), set(b.denied_links)
    if not x or not y:
        return a.target == b.target
    return x <= y or y <= x
