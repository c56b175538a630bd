"""Every guardrail refuses what it must, lets pass what it may, and says why."""

from __future__ import annotations

import pytest
from response_shapes import SMALL, directed, fabric

from railkeeper.base.errors import InputError
from railkeeper.respond.actions import Action, ActionStatus, Proposal
from railkeeper.respond.guardrails import Limits, allowed, check, dry_run_diff

ON = Limits(dry_run=False)


def wish(target="p0/t1-1", direction="both", *, f=SMALL, confidence=1.0, key="inc-9/deny-1", replaces="") -> Proposal:
    links = directed(target, direction, f)
    return Proposal("deny", key, "inc-9", target, links, "because", confidence=confidence, replaces=replaces)


def past(target="p0/t1-0", status=ActionStatus.APPLIED, *, key="inc-1/deny-1", approved=0.0, ended=None) -> Action:
    return Action(
        key, "inc-1", target, directed(target), "because", approved, approved, status=status, approved_at=approved,
        ended_at=ended,
    )  # fmt: skip


def refusing(verdicts):
    return {v.rule for v in verdicts if not v.ok}


def test_a_good_proposal_passes_every_rule():
    verdicts = check(SMALL, (), wish(), ON)
    assert allowed(verdicts)
    assert {
        "dry-run",
        "freeze",
        "confidence",
        "pair-floor",
        "plane-share",
        "in-force",
        "rate",
        "cool-down",
        "did-not-help",
    } == {v.rule for v in verdicts}
    assert all(v.reason for v in verdicts)


CASES = [
    ("dry run", wish(), Limits(), {}, {"dry-run"}),
    ("frozen", wish(), Limits(dry_run=False, frozen=((90.0, 110.0),)), {}, {"freeze"}),
    ("thawed", wish(), Limits(dry_run=False, frozen=((90.0, 100.0),)), {}, set()),
    ("unsure", wish(confidence=0.5), ON, {}, {"confidence"}),
    ("a whole NIC", wish("n3/nic0"), ON, {}, {"pair-floor"}),
    ("a NIC port", wish("n3/nic0/p0"), ON, {}, set()),
    ("the other port too", wish("n3/nic0/p1"), ON, {"denied": directed("n3/nic0/p0")}, {"pair-floor"}),
    ("one way of each port", wish("n3/nic0/p1", "down"), ON, {"denied": directed("n3/nic0/p0", "up")}, set()),
    ("no plane in common", wish("n3/nic0/p1", "up"), ON, {"denied": directed("n7/nic0/p0", "down")}, {"pair-floor"}),
    ("a T0", wish("p0/t0-1"), ON, {}, set()),
    ("its twin in the other plane", wish("p1/t0-1"), ON, {"denied": directed("p0/t0-1")}, {"pair-floor"}),
    ("half of a plane", wish("p0/t1-1"), ON, {"denied": directed("p0/t1-0")}, set()),
    ("more than half", wish("p0/t1-1"), ON, {"denied": directed("p0/t1-0") + directed("p0/t1-2")}, {"plane-share"}),
    ("the other plane is bad", wish("p1/t1-1"), ON, {"denied": directed("p0/t1-0") + directed("p0/t1-2")}, set()),
    ("thin planes", wish("p0/t1-1"), Limits(dry_run=False, min_path_share=1.0, min_plane_share=1.0), {}, {"pair-floor"}),
    ("too many", wish(), Limits(dry_run=False, max_in_force=1), {"actions": [past()]}, {"in-force"}),
    ("an ended one is not in force", wish(), Limits(dry_run=False, max_in_force=1, cooldown_s=0),
     {"actions": [past(status=ActionStatus.LIFTED, ended=50.0)]}, set()),
    ("it replaces the one in force", wish(replaces="inc-1/deny-1"), Limits(dry_run=False, max_in_force=1),
     {"actions": [past()]}, set()),
    ("too fast", wish(), Limits(dry_run=False, max_per_minute=1), {"actions": [past(approved=41.0)]}, {"rate"}),
    ("slow enough", wish(), Limits(dry_run=False, max_per_minute=1), {"actions": [past(approved=40.0)]}, set()),
    ("again too soon", wish("p0/t1-0"), ON,
     {"actions": [past(status=ActionStatus.LIFTED, ended=99.5)]}, {"cool-down"}),
    ("again later", wish("p0/t1-0"), ON, {"actions": [past(status=ActionStatus.LIFTED, ended=99.0)]}, set()),
    ("another target soon", wish("p0/t1-2"), ON, {"actions": [past(status=ActionStatus.LIFTED, ended=99.5)]}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("proposal", "limits", "given", "refused"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_rules(proposal, limits, given, refused):
    verdicts = check(SMALL, given.get("denied", ()), proposal, limits, now=100.0, actions=given.get("actions", ()))
    assert refused == refusing(verdicts)


def test_a_refusal_names_the_pair_and_the_floor():
    verdict = next(v for v in check(SMALL, (), wish("n3/nic0"), ON) if v.rule == "pair-floor")
    assert "n3/nic0" in verdict.reason
    assert (verdict.value, verdict.limit) == (0, 1)


def test_a_refusal_names_the_plane_and_the_share():
    denied = directed("p0/t1-0") + directed("p0/t1-2")
    verdict = next(v for v in check(SMALL, denied, wish(), ON) if v.rule == "plane-share")
    assert "75.0% of plane p0" in verdict.reason


def test_floors_are_never_below_one():
    f = fabric(planes=1, t1=1)
    limits = Limits(min_plane_share=0.0, min_path_share=0.0)
    assert (limits.min_planes(f), limits.min_paths(f)) == (1, 1)


def test_a_single_plane_may_lose_some_paths_but_no_pair():
    f = fabric(planes=1)
    assert allowed(check(f, (), wish("p0/t1-0", f=f), ON))
    assert "pair-floor" in refusing(check(f, (), wish("n3/nic0/p0", f=f), ON))


@pytest.mark.parametrize(
    "bad", [{"max_denied_share": 1.5}, {"min_plane_share": -0.1}, {"hold_s": -1}, {"cooldown_s": float("nan")}]
)
def test_bad_limits_name_the_field(bad):
    with pytest.raises(InputError, match=f"limits.{next(iter(bad))}"):
        Limits(**bad)


def test_the_diff_says_what_changes():
    before, after = directed("p0/t1-0"), directed("p0/t0-0--p0/t1-0", "up")
    diff = dry_run_diff(SMALL, before, after)
    assert diff["deny"] == {"count": 0, "links": []}
    assert diff["lift"]["count"] == 7
    assert "p0/t0-0--p0/t1-0 down" in diff["lift"]["links"]
    assert diff["planes"]["p0"]["capacity_left"] == [0.75, 0.9375]
    assert list(diff["planes"]) == ["p0"]


def test_a_long_diff_is_cut_but_counted():
    f = fabric(t0=8, t1=32)
    diff = dry_run_diff(f, (), directed("p0/t1-0", f=f) + directed("p0/t0-1", f=f))
    assert diff["deny"]["count"] == len(set(directed("p0/t1-0", f=f) + directed("p0/t0-1", f=f)))
    assert len(diff["deny"]["links"]) == 32
