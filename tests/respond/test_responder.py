"""From faults to incidents, actions and denied links: as stories, then as a property over any story."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from response_shapes import SMALL, cleared, directed, fault

from railkeeper.respond import capacity
from railkeeper.respond.actions import Action, ActionStatus
from railkeeper.respond.faultview import record_of
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import MAX_TIMELINE, Incident, IncidentStatus, Severity, opened, told, weigh
from railkeeper.respond.responder import ResponseState, confirm, respond, verification
from railkeeper.respond.verify import Traffic, verify

ON = Limits(dry_run=False)


class Story:
    """Feeds ticks of half a second, and keeps what came of them."""

    def __init__(self, limits=ON):
        self.state, self.limits, self.now, self.steps = ResponseState(), limits, 1000.0, []

    def tick(self, *faults, after=0.5):
        self.now += after
        step = respond(SMALL, self.state, faults, self.limits, self.now)
        self.state = step.state
        self.steps.append(step)
        return step

    def incident(self, number=1):
        return self.state.incidents[f"inc-{number}"]

    def action(self, number=1, deny=1):
        return self.state.actions[f"inc-{number}/deny-{deny}"]


def test_a_fault_is_denied_at_once_and_named_once():
    story = Story()
    bad = fault("p0/t1-1")
    step = story.tick(bad)
    assert step.denied_changed
    assert story.state.denied == directed("p0/t1-1")
    assert story.state.version == 1
    for _ in range(10):
        again = story.tick(bad)
        assert (again.incidents, again.actions, again.denied_changed) == ((), (), False)
    assert len(story.state.incidents) == 1


def test_it_is_lifted_by_evidence_after_the_hold():
    story = Story()
    bad = fault("p0/t1-1")
    story.tick(bad)
    story.tick(cleared(bad))
    assert story.incident().status is IncidentStatus.RECOVERING
    assert story.state.denied == directed("p0/t1-1")
    story.tick(after=4.0)
    assert story.state.denied == directed("p0/t1-1")
    step = story.tick()
    assert step.denied_changed
    assert story.state.denied == ()
    assert story.incident().status is IncidentStatus.CLOSED
    assert story.action().status is ActionStatus.LIFTED
    assert "is cleared by evidence" in story.action().note


def test_silence_is_not_health():
    story = Story()
    story.tick(fault("p0/t1-1"))
    story.tick(after=3600.0)
    assert story.incident().status is IncidentStatus.OPEN
    assert story.state.denied == directed("p0/t1-1")


def test_a_clearing_fault_is_still_there():
    story = Story()
    bad = fault("p0/t1-1")
    story.tick(bad)
    story.tick(replace(bad, status="clearing"), after=20)
    assert story.incident().status is IncidentStatus.OPEN
    assert story.state.denied


def test_an_agent_that_is_away_is_no_reason_to_deny():
    story = Story()
    away = fault("n3", "agent-down")
    step = story.tick(away)
    assert (step.actions, story.state.denied) == ((), ())
    assert story.incident().impact.severity is Severity.INFO
    story.tick(cleared(away))
    assert story.incident().status is IncidentStatus.CLOSED


def test_dry_run_records_and_denies_nothing():
    story = Story(Limits())
    bad = fault("p0/t1-1")
    step = story.tick(bad)
    assert story.action().status is ActionStatus.DRY_RUN
    assert story.action().diff["deny"]["count"] == 8
    assert (story.state.denied, step.denied_changed, story.state.version) == ((), False, 0)
    assert story.tick(bad).actions == ()
    story.tick(cleared(bad))
    assert story.action().status is ActionStatus.WITHDRAWN
    assert story.incident().status is IncidentStatus.CLOSED


def test_a_refusal_is_recorded_once_and_lets_go_when_there_is_room():
    story = Story()
    first, second, third = (fault(f"p0/t1-{j}") for j in range(3))
    story.tick(first, second)
    story.tick(first, second, third)
    refused = story.action(3)
    assert refused.status is ActionStatus.REFUSED
    assert [v.rule for v in refused.refusals] == ["plane-share"]
    assert "plane p0" in story.incident(3).timeline[-1].text
    assert story.tick(first, second, third).actions == ()
    story.tick(cleared(first), second, third, after=10)
    story.tick(second, third)
    assert story.action(3).status is ActionStatus.APPROVED
    assert story.action(3).proposed_at < story.action(3).approved_at
    assert story.state.denied == tuple(sorted(directed("p0/t1-1") + directed("p0/t1-2")))


def test_a_better_word_for_the_same_cause_stays_one_incident():
    story = Story()
    link, switch = fault("p0/t0-1--p0/t1-2"), fault("p0/t1-2", "blackhole")
    story.tick(link)
    story.tick(switch)
    assert list(story.state.incidents) == ["inc-1"]
    assert story.incident().fault.key == switch.key
    assert story.incident().former == (link.key,)
    assert story.action().status is ActionStatus.REPLACED
    assert story.action(1, 2).in_force
    assert story.state.denied == directed("p0/t1-2")


def test_links_that_turn_out_to_be_one_switch_become_one_incident():
    story = Story()
    links = [fault(f"p0/t0-{i}--p0/t1-2") for i in range(3)]
    story.tick(*links)
    story.tick(fault("p0/t1-2", "blackhole"))
    story.tick(fault("p0/t1-2", "blackhole"), after=10)
    assert [i.status for i in story.state.incidents.values()] == ["open", "closed", "closed"]
    assert "is part of blackhole on p0/t1-2" in story.incident(2).ending
    assert story.state.denied == directed("p0/t1-2")


def test_a_denial_that_is_wider_by_a_direction_stays():
    """The direction of a young fault is in doubt from tick to tick: senders need not follow each doubt."""
    story = Story()
    both = fault("p0/t0-1--p0/t1-2")
    story.tick(both)
    for after in (1, 60):
        story.tick(replace(both, direction="up", denied_links=directed(both.target, "up")), after=after)
        assert story.state.denied == directed(both.target, "both")


def test_a_much_narrower_word_replaces_the_wider_denial_after_a_while():
    story = Story()
    switch = fault("p0/t1-2", "blackhole")
    link = replace(fault("p0/t0-1--p0/t1-2"), key=switch.key)
    story.tick(switch)
    story.tick(link, after=5)
    assert story.state.denied == switch.denied_links
    story.tick(link, after=6)
    assert story.state.denied == link.denied_links


def test_a_replacement_that_is_refused_leaves_the_old_denial():
    story = Story()
    story.tick(fault("p0/t1-0"), fault("p0/t1-1"))
    link, switch = fault("p0/t0-0--p0/t1-2"), fault("p0/t1-2", "blackhole")
    story.limits = replace(ON, max_denied_share=0.6)
    rest = (fault("p0/t1-0"), fault("p0/t1-1"))
    story.tick(*rest, link)
    before = story.state.denied
    story.tick(*rest, switch)
    assert story.state.denied == before
    assert story.action(3, 1).in_force
    assert story.action(3, 2).status is ActionStatus.REFUSED


def test_a_fault_that_is_soon_back_is_the_same_incident():
    story = Story()
    story.limits = replace(ON, cooldown_s=5)
    bad = fault("p0/t1-1")
    story.tick(bad)
    story.tick(cleared(bad), after=6)
    assert story.incident().status is IncidentStatus.CLOSED
    story.tick(bad, after=2)
    assert list(story.state.incidents) == ["inc-1"]
    assert story.incident().status is IncidentStatus.OPEN
    assert [v.rule for v in story.action(1, 2).refusals] == ["cool-down"]
    story.tick(bad, after=4)
    assert story.action(1, 2).in_force


def test_a_fault_that_is_back_much_later_is_another_incident():
    story = Story()
    bad = fault("p0/t1-1")
    story.tick(bad)
    story.tick(cleared(bad), after=6)
    story.tick(bad, after=60)
    assert story.incident(2).status is IncidentStatus.OPEN
    assert story.action(2).in_force


def test_small_changes_of_a_rate_are_no_news():
    story = Story()
    bad = fault("p0/t1-1")
    story.tick(bad)
    assert story.tick(replace(bad, rate=0.06)).incidents == ()
    assert len(story.tick(replace(bad, rate=0.2)).incidents) == 1


def test_memory_does_not_grow_with_ended_incidents():
    story = Story()
    for k in range(300):
        bad = fault(f"p{k % 2}/t1-{k % 4}", since_tick=k)
        story.tick(bad, after=20)
        story.tick(cleared(bad), after=20)
    assert len(story.state.incidents) < 10
    assert len(story.state.actions) < 10


def test_confirmation_needs_every_sender():
    story = Story()
    story.tick(fault("p0/t1-1"))
    waiting = confirm(story.state, ["sender/n0", "sender/n1"], ["sender/n0"], 0, 1001.0)
    assert waiting.state.actions["inc-1/deny-1"].status is ActionStatus.APPROVED
    done = confirm(waiting.state, ["sender/n0", "sender/n1"], ["sender/n0", "sender/n1"], 3, 1001.5)
    action = done.state.actions["inc-1/deny-1"]
    assert (action.status, action.applied_at, action.kept_by_floor) == (ActionStatus.APPLIED, 1001.5, 3)
    assert confirm(done.state, ["sender/n0"], [], 0, 1002.0).actions == ()


def test_nobody_to_ask_is_not_applied():
    story = Story()
    story.tick(fault("p0/t1-1"))
    assert confirm(story.state, [], [], 0, 1001.0).actions == ()


def test_a_verification_is_on_the_action_and_on_the_timeline():
    story = Story()
    story.tick(fault("p0/t1-1"))
    step = verification(story.state, "inc-1/deny-1", verify(Traffic(1000, 50), Traffic(1000, 0)), 1003.0)
    assert step.actions[0].verification["outcome"] == "helped"
    assert "helped" in step.incidents[0].timeline[-1].text
    assert verification(story.state, "inc-7/deny-1", verify(Traffic(), Traffic()), 1.0).actions == ()


@pytest.mark.parametrize(
    ("target", "kind", "severity"),
    [
        ("p0/t0-0--p0/t1-0", "loss", "minor"),
        ("p0/t1-0", "blackhole", "major"),
        ("p0/t0-0", "blackhole", "major"),
        ("n3/nic0/p0", "down", "major"),
        ("n3", "node-down", "critical"),
        ("n3", "agent-down", "info"),
    ],
)
def test_severity_comes_from_capacity(target, kind, severity):
    assert severity == weigh(SMALL, fault(target, kind)).severity


def test_a_plane_with_less_than_half_is_critical():
    links = tuple(sorted({x for j in range(3) for x in directed(f"p0/t1-{j}")}))
    assert weigh(SMALL, fault("p0/t1-0", denied_links=links)).severity is Severity.CRITICAL


def test_a_long_timeline_keeps_its_beginning_and_its_end():
    incident = opened(SMALL, "inc-1", fault("p0/t1-1"), 0.0)
    for k in range(3 * MAX_TIMELINE):
        incident = told(incident, float(k), f"line {k}")
    assert len(incident.timeline) == MAX_TIMELINE
    assert incident.timeline[0].text.startswith("opened")
    assert incident.timeline[-1].text == f"line {3 * MAX_TIMELINE - 1}"


def test_records_read_back_as_they_were_and_ignore_what_is_new():
    story = Story()
    story.tick(fault("p0/t1-1"), fault("n3"))
    for incident in story.state.incidents.values():
        assert incident == Incident.from_dict({**incident.to_dict(), "of_a_later_release": 1})
    for action in story.state.actions.values():
        assert action == Action.from_dict({**action.to_dict(), "of_a_later_release": 1})


def test_numbers_that_are_none_become_zero():
    odd = fault("p0/t1-1")
    assert record_of(replace(odd, rate=math.nan, gbps=None, denied_links=(5, 3, 5))).rate == 0.0
    assert record_of(replace(odd, denied_links=(5, 3, 5))).denied_links == (3, 5)


def test_a_restarted_locator_gets_its_faults_back():
    story = Story()
    bad = fault("p0/t1-1", rate_low=0.0, rate_high=0.07, also_kinds=("corrupt",), directions=("both", "up"))
    story.tick(bad)
    (back,) = story.state.open_faults
    assert (back.key, back.rate, back.rate_low, back.rate_high) == (bad.key, 0.05, 0.0, 0.07)
    assert (back.also_kinds, back.directions) == (("corrupt",), ("both", "up"))
    assert math.isnan(back.delay_ms)
    assert record_of(back) == bad


PARTS = ["p0/t1-0", "p0/t1-1", "p1/t1-1", "p0/t0-0", "p1/t0-0", "p0/t0-0--p0/t1-1", "n3/nic0/p0", "n3", "n7/nic0/p1"]
MOVES = st.lists(
    st.tuples(st.sampled_from(PARTS), st.sampled_from(["appears", "clears", "vanishes"]), st.floats(0.1, 12)),
    max_size=25,
)


@settings(deadline=None)
@given(MOVES)
def test_no_story_breaks_a_promise(moves):
    story, live, gone = Story(), {}, []
    for target, move, after in moves:
        if move == "appears":
            live[target] = fault(target)
        elif target in live:
            found = live.pop(target)
            gone = [cleared(found)] if move == "clears" else []
        before = story.state
        step = story.tick(*live.values(), *gone, after=after)
        gone = []
        _holds(before, step, live)
    for _ in range(3):
        story.tick(*(cleared(fault(t)) for t in PARTS), after=10)
    assert story.state.denied == ()
    assert not any(i.is_open for i in story.state.incidents.values())


def _holds(before, step, live):
    state = step.state
    in_force = [a for a in state.actions.values() if a.in_force]
    assert state.denied == tuple(sorted({x for a in in_force for x in a.links}))
    assert step.denied_changed == (before.denied != state.denied) == (state.version == before.version + 1)
    left = capacity.usable(SMALL, state.denied)
    assert capacity.worst_pair(SMALL, left, 1).planes >= 1
    assert capacity.plane_capacity(SMALL, left).min() >= 0.5
    open_keys = [i.fault.key for i in state.incidents.values() if i.status is IncidentStatus.OPEN]
    assert len(open_keys) == len(set(open_keys))
    assert {f.key for f in live.values()} <= set(open_keys)
    per_incident = [a.incident for a in in_force]
    assert len(per_incident) == len(set(per_incident))
    for incident in step.incidents:
        assert incident.id not in before.incidents or incident.revision > before.incidents[incident.id].revision
