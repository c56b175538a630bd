"""A denial that does not help is taken back, and its target is left alone for a while."""

from __future__ import annotations

import pytest
from response_shapes import SMALL, cleared, directed, fault

from railkeeper.respond.actions import Action, ActionStatus
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.journal import Journal
from railkeeper.respond.responder import ResponseState, confirm, respond, suspects, verification
from railkeeper.respond.verify import Outcome, Verification

LIMITS = Limits(dry_run=False, retry_s=100.0)
BAD, OTHER = fault("p0/t1-1"), fault("p1/t1-2")


def found(outcome):
    return Verification(outcome, 0.1, 0.1, 0.0, 0, "the traffic lost as much as before")


class Story:
    def __init__(self):
        self.state, self.now = ResponseState(), 1000.0

    def tick(self, *faults, after=1.0):
        self.now += after
        step = respond(SMALL, self.state, faults, LIMITS, self.now)
        self.state = confirm(step.state, ["sender/n0"], ["sender/n0"], 0, self.now).state
        return step

    def verify(self, key, outcome, since=None):
        step = verification(self.state, key, found(outcome), self.now, since=self.now if since is None else since)
        self.state = step.state
        return step


@pytest.fixture
def story():
    return Story()


@pytest.mark.parametrize("outcome", Outcome)
def test_what_is_undone_and_what_is_not(story, outcome):
    story.tick(BAD)
    step = story.verify("inc-1/deny-1", outcome)
    action = story.state.actions["inc-1/deny-1"]
    useless = outcome in {Outcome.WORSE, Outcome.NO_CHANGE}

    assert (action.status is ActionStatus.LIFTED) is action.undone is useless is step.denied_changed
    assert story.state.denied == (() if useless else directed("p0/t1-1"))
    assert story.state.version == 1 + useless
    assert action.verification["outcome"] == outcome
    texts = " ".join(e.text for e in story.state.incidents["inc-1"].timeline)
    assert ("undone, it did not help: the traffic lost as much as before" in texts) is useless


def test_the_target_is_refused_until_its_time_is_over(story):
    story.tick(BAD)
    story.verify("inc-1/deny-1", Outcome.NO_CHANGE)
    story.tick(BAD, after=5.0)
    refused = story.state.actions["inc-1/deny-2"]
    assert refused.status is ActionStatus.REFUSED
    assert [v.rule for v in refused.refusals] == ["did-not-help"]
    assert "did not help and was undone 5 s ago, at least 100 s" in refused.refusals[0].reason

    assert not story.tick(BAD, after=94.0).denied_changed
    assert story.tick(BAD, after=2.0).denied_changed
    assert story.state.denied == directed("p0/t1-1")


def test_another_target_is_not_concerned(story):
    story.tick(BAD)
    story.verify("inc-1/deny-1", Outcome.WORSE)
    story.tick(BAD, OTHER)

    assert story.state.denied == directed("p1/t1-2")


def test_with_the_fault_gone_nothing_is_undone_before_its_time(story):
    story.tick(BAD)
    story.tick(cleared(BAD))
    step = story.verify("inc-1/deny-1", Outcome.NO_CHANGE)

    assert not step.denied_changed
    assert story.state.actions["inc-1/deny-1"].status is ActionStatus.APPLIED


def test_another_fault_that_may_be_met_is_a_suspect():
    story = Story()
    story.tick(BAD, OTHER, fault("n3", "agent-down"))
    applied = story.now
    assert suspects(story.state, "inc-1", applied - 0.1) == ("inc-2",)
    assert suspects(story.state, "inc-1", applied) == ()
    assert not story.verify("inc-1/deny-1", Outcome.NO_CHANGE, since=applied - 0.1).denied_changed
    story.tick(BAD, cleared(OTHER))
    assert suspects(story.state, "inc-1", applied - 0.1) == ("inc-2",)
    assert suspects(story.state, "inc-1", story.now) == ()
    assert story.verify("inc-1/deny-1", Outcome.NO_CHANGE, since=applied).denied_changed


def test_a_fault_that_is_not_denied_is_a_suspect_for_good():
    story = Story()
    story.now += 1
    step = respond(SMALL, story.state, [BAD, OTHER], Limits(dry_run=False, max_in_force=1), story.now)
    state = confirm(step.state, ["s"], ["s"], 0, story.now).state

    assert suspects(state, "inc-1", story.now + 500) == ("inc-2",)


def test_it_is_remembered_for_as_long_as_it_is_refused_and_over_a_restart(story, tmp_path):
    with Journal.open(f"sqlite:///{tmp_path}/j.db") as journal:
        for step in (story.tick(BAD), story.verify("inc-1/deny-1", Outcome.WORSE)):
            journal.record_step(step)
        ended = story.state.actions["inc-1/deny-1"]
        assert Action.from_dict(ended.to_dict()) == ended
        story.state = journal.restore(story.now + 99.0, remember_s=LIMITS.retry_s)
    story.tick(BAD, after=99.0)

    assert story.state.actions["inc-1/deny-1"].undone
    assert story.state.actions["inc-1/deny-2"].status is ActionStatus.REFUSED
    story.tick(BAD, after=200.0)
    assert "inc-1/deny-1" not in story.state.actions
