"""Guardrails: what a proposal may never do. Every rule answers every time, and every refusal says why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railkeeper.base.errors import InputError
from railkeeper.fabric.names import domain_name, link_name, nic_name
from railkeeper.respond import capacity
from railkeeper.respond.actions import Action, ActionStatus, Proposal, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railkeeper.fabric.model import Fabric

MAX_NAMES = 32
_SHARES = ("min_plane_share", "min_path_share", "max_denied_share", "min_confidence")
_RATE_WINDOW_S = 60.0


@dataclass(frozen=True)
class Limits:
    """The stated limits of every action.

    - dry_run: judge and record, but apply nothing
    - min_plane_share: every NIC pair keeps paths in at least this share of its planes (rounded up)
    - min_path_share: a plane counts for a pair only with at least this share of its T1s (rounded up)
    - max_denied_share: denials never take more than this share of a plane's capacity
    - min_confidence: of a fault, to be acted on
    - max_in_force: denials at one time; max_per_minute: new denials in 60 s
    - cooldown_s: least time from the end of a denial to the next one for the same target
    - hold_s: least time that a denial stays before it is lifted
    - retry_s: least time from a denial that was undone, as it did not help, to the next one for the same target
    - frozen: (from, to) spans of unix seconds in which nothing new is denied
    """

    dry_run: bool = True
    min_plane_share: float = 0.5
    min_path_share: float = 0.25
    max_denied_share: float = 0.5
    min_confidence: float = 0.9
    max_in_force: int = 32
    max_per_minute: int = 30
    cooldown_s: float = 1.0
    hold_s: float = 5.0
    retry_s: float = 600.0
    frozen: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"limits.{name}", f"is {getattr(self, name)}", "a share from 0 to 1")
        for name in ("max_in_force", "max_per_minute", "cooldown_s", "hold_s", "retry_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"limits.{name}", f"is {value}", "a number of at least 0")

    def min_planes(self, fabric: Fabric) -> int:
        """Return the floor of planes for a pair; never below one."""
        return max(1, math.ceil(self.min_plane_share * fabric.planes - 1e-9))

    def min_paths(self, fabric: Fabric) -> int:
        """Return the floor of paths in a plane for a pair; never below one."""
        return max(1, math.ceil(self.min_path_share * fabric.t1_per_plane - 1e-9))


def check(
    fabric: Fabric,
    denied_now: Iterable[int],
    proposal: Proposal,
    limits: Limits,
    *,
    now: float = 0.0,
    actions: Sequence[Action] = (),
) -> list[Verdict]:
    """Return the verdict of every rule on a proposal to deny; it may be done when all are ok.

    `denied_now` are the directed links denied without the proposal (and without what it replaces); `actions` are those
    in force and those that ended lately.
    """
    left = capacity.usable(fabric, {*denied_now, *proposal.links})
    others = [a for a in actions if a.key not in {proposal.key, proposal.replaces}]
    return [
        _dry_run(limits),
        _frozen(limits, now),
        _confidence(proposal, limits),
        _pair_floor(fabric, left, limits),
        _plane_share(fabric, left, proposal, limits),
        _in_force(others, limits),
        _rate(others, limits, now),
        _cooldown(others, proposal, limits, now),
        _did_not_help(others, proposal, limits, now),
    ]


def allowed(verdicts: Iterable[Verdict]) -> bool:
    """Return whether no rule refuses."""
    return all(v.ok for v in verdicts)


def _dry_run(limits: Limits) -> Verdict:
    if limits.dry_run:
        return Verdict("dry-run", ok=False, reason="dry run is on: nothing is applied")
    return Verdict("dry-run", ok=True, reason="dry run is off")


def _frozen(limits: Limits, now: float) -> Verdict:
    end = max((b for a, b in limits.frozen if a <= now < b), default=None)
    if end is None:
        return Verdict("freeze", ok=True, reason="no freeze window")
    return Verdict("freeze", ok=False, reason=f"a freeze window holds for {end - now:.0f} s more", value=end - now)


def _confidence(proposal: Proposal, limits: Limits) -> Verdict:
    ok = proposal.confidence >= limits.min_confidence
    reason = f"the fault is located with confidence {proposal.confidence:.3f}, {_least(limits.min_confidence)}"
    return Verdict("confidence", ok=ok, reason=reason, value=proposal.confidence, limit=limits.min_confidence)


def _pair_floor(fabric: Fabric, left: capacity.Usable, limits: Limits) -> Verdict:
    floor, paths = limits.min_planes(fabric), limits.min_paths(fabric)
    worst = capacity.worst_pair(fabric, left, paths)
    if worst.src < 0:
        return Verdict("pair-floor", ok=True, reason="the fabric has no pair of NICs", value=worst.planes, limit=floor)
    pair = f"{nic_name(fabric, worst.src)} to {nic_name(fabric, worst.dst)}"
    kept = f"would keep {worst.planes} of {fabric.planes} planes with at least {paths} path(s)"
    reason = f"{pair} {kept}, {_least(floor)}"
    return Verdict("pair-floor", ok=worst.planes >= floor, reason=reason, value=worst.planes, limit=floor)


def _plane_share(fabric: Fabric, left: capacity.Usable, proposal: Proposal, limits: Limits) -> Verdict:
    taken = 1 - capacity.plane_capacity(fabric, left)
    domains = sorted({_domain_of(fabric, link // 2) for link in proposal.links})
    if not domains:
        return Verdict("plane-share", ok=True, reason="no plane is touched", value=0.0, limit=limits.max_denied_share)
    worst = max(domains, key=lambda d: float(taken[d]))
    share = float(taken[worst])
    reason = f"{share:.1%} of plane {domain_name(fabric, worst)} would be denied, at most {limits.max_denied_share:.1%}"
    ok = share <= limits.max_denied_share + 1e-9
    return Verdict("plane-share", ok=ok, reason=reason, value=share, limit=limits.max_denied_share)


def _domain_of(fabric: Fabric, link: int) -> int:
    t0 = fabric.link_upper[link] if link < fabric.n_ports else fabric.link_lower[link]
    return int(fabric.domain_of_t0(t0))


def _in_force(others: Sequence[Action], limits: Limits) -> Verdict:
    n = sum(a.in_force for a in others)
    reason = f"{n} other denials are in force, at most {limits.max_in_force} in all"
    return Verdict("in-force", ok=n < limits.max_in_force, reason=reason, value=n, limit=limits.max_in_force)


def _rate(others: Sequence[Action], limits: Limits, now: float) -> Verdict:
    n = sum(a.approved_at is not None and 0 <= now - a.approved_at < _RATE_WINDOW_S for a in others)
    reason = f"{n} denials were made in the last minute, at most {limits.max_per_minute}"
    return Verdict("rate", ok=n < limits.max_per_minute, reason=reason, value=n, limit=limits.max_per_minute)


def _cooldown(others: Sequence[Action], proposal: Proposal, limits: Limits, now: float) -> Verdict:
    ends = [a.ended_at for a in others if _was_lifted(a) and a.target == proposal.target and a.ended_at is not None]
    since = now - max(ends, default=-math.inf)
    ok = not 0 <= since < limits.cooldown_s
    reason = (
        "no denial of this target was lifted lately"
        if math.isinf(since)
        else f"the last denial of {proposal.target} was lifted {since:.1f} s ago, {_least(limits.cooldown_s)} s"
    )
    value = None if math.isinf(since) else since
    return Verdict("cool-down", ok=ok, reason=reason, value=value, limit=limits.cooldown_s)


def _did_not_help(others: Sequence[Action], proposal: Proposal, limits: Limits, now: float) -> Verdict:
    ends = [a.ended_at for a in others if a.undone and a.target == proposal.target and a.ended_at is not None]
    since = now - max(ends, default=-math.inf)
    if math.isinf(since):
        return Verdict(
            "did-not-help", ok=True, reason="no denial of this target was undone lately", limit=limits.retry_s
        )
    reason = f"denying {proposal.target} did not help and was undone {since:.0f} s ago, {_least(limits.retry_s)} s"
    return Verdict("did-not-help", ok=not 0 <= since < limits.retry_s, reason=reason, value=since, limit=limits.retry_s)


def _was_lifted(action: Action) -> bool:
    return action.status is ActionStatus.LIFTED


def _least(limit: float) -> str:
    return f"at least {limit:g}"


def dry_run_diff(fabric: Fabric, before: Iterable[int], after: Iterable[int]) -> dict[str, Any]:
    """Return what a change of the denied set does: links by name, and each touched plane's capacity and paths."""
    old, new = frozenset(before), frozenset(after)
    was, will = capacity.usable(fabric, old), capacity.usable(fabric, new)
    touched = sorted({_domain_of(fabric, link // 2) for link in old ^ new})
    columns = {
        "capacity_left": (capacity.plane_capacity(fabric, was), capacity.plane_capacity(fabric, will)),
        "paths_left": (capacity.path_share(fabric, was), capacity.path_share(fabric, will)),
    }
    planes = {
        domain_name(fabric, d): {name: [round(float(col[d]), 6) for col in pair] for name, pair in columns.items()}
        for d in touched
    }
    return {"deny": _names(fabric, new - old), "lift": _names(fabric, old - new), "planes": planes}


def _names(fabric: Fabric, links: Iterable[int]) -> dict[str, Any]:
    ids = sorted(links)
    names = [f"{link_name(fabric, i // 2)} {'down' if i % 2 else 'up'}" for i in ids[:MAX_NAMES]]
    return {"count": len(ids), "links": names}
