from __future__ import annotations

from response_shapes import SMALL, cleared, fault

from railkeeper.respond.guardrails import Limits
from railkeeper.respond.responder import ResponseState, confirm, respond, verification
from railkeeper.respond.success import success
from railkeeper.respond.verify import Traffic, verify


def test_nothing_has_happened():
    told = success([], [])
    assert told["incidents"] == told["refused"] == 0
    assert told["median_seconds_to_deny"] is None


def test_times_and_counts():
    on = Limits(dry_run=False)
    bad, cut = fault("p0/t1-1"), fault("n3/nic0")
    state = respond(SMALL, ResponseState(), [bad, cut], on, 100.0).state
    state = confirm(state, ["sender/n0"], ["sender/n0"], 0, 100.5).state
    state = verification(state, "inc-1/deny-1", verify(Traffic(1000, 50), Traffic(1000, 0)), 103.0).state
    state = respond(SMALL, state, [cleared(bad), cleared(cut)], on, 110.0).state
    told = success(state.incidents.values(), state.actions.values())
    assert (told["incidents"], told["open"], told["actions"], told["refused"]) == (2, 0, 2, 1)
    assert told["by_severity"] == {"critical": 1, "major": 1}
    assert told["median_seconds_to_deny"] == 0.5
    assert told["median_seconds_to_clear"] == told["median_seconds_to_close"] == 10.0
    assert told["verified"] == {"helped": 1}
