"""The keeper's tick as a pure function: same inputs, same answers; clocks that jump; denials that do not help."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, event, make_fabric

from railkeeper.app import locators
from railkeeper.app.inputs import decode_input, encode_input
from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup, begin, merge_ports, step
from railkeeper.app.recording import Digest
from railkeeper.health.fleet.state import FleetLocator
from railkeeper.respond.actions import ActionStatus
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import IncidentStatus

LINK = "p0/t0-1--p0/t1-2"
ACT = Limits(dry_run=False)


def setup_of(fabric, **limits):
    return Setup(fabric, "lab", limits=replace(ACT, **limits))


def run(fabric, world, **limits):
    """Run a keeper over the whole world; return it with all events."""
    keeper, events = Keeper(setup_of(fabric, **limits), world), []
    keeper.run(lambda _state, outcome: bool(events.extend(outcome.events)) or True)
    return keeper, events


def both_ways(fabric):
    link = int(fabric.fabric_link(1, 2))
    return (2 * link, 2 * link + 1)


def of_type(events, type_, **wanted):
    return [e for e in events if e["type"] == type_ and all(e[k] == v for k, v in wanted.items())]


FAULTS = {
    "loss": {"kind": "loss", "target": LINK, "rate": 0.1},
    "blackhole": {"kind": "blackhole", "target": "p1/t1-1"},
    "down": {"kind": "down", "target": "n2/nic0/p1"},
    "agent-down": {"kind": "agent-down", "target": "n3"},
}


@pytest.mark.parametrize("kind", FAULTS)
def test_the_same_inputs_give_the_same_answers_bit_for_bit(kind):
    fabric = make_fabric()
    world = SynthWorld(fabric, [event(fabric, 6, 30, **FAULTS[kind])], ticks=50)
    inputs = [world.next_tick() for _ in range(50)]
    digests = []
    for through_the_wire in (False, False, True):
        state, digest, seen = begin(setup_of(fabric)), Digest(), []
        for given in inputs:
            told = decode_input(encode_input(given)) if through_the_wire else given
            state, outcome = step(setup_of(fabric), state, told)
            seen.append((digest.add(outcome.events), [f.key for f in outcome.faults]))
        digests.append(seen)

    assert digests[0] == digests[1] == digests[2]
    assert any(keys for _, keys in digests[0])


def test_the_whole_loop_finds_avoids_verifies_and_lifts():
    fabric = make_fabric()
    world = SynthWorld(fabric, [event(fabric, 10, 40, **FAULTS["loss"])], ticks=80)
    keeper, events = run(fabric, world)

    assert [links for _, links in world.denials] == [(), both_ways(fabric), ()]
    assert [v for v, _ in world.denials] == [0, 1, 2]
    assert of_type(events, "action")[-1]["verification"]["outcome"] == "helped"
    assert of_type(events, "incident")[-1]["status"] == "closed"
    assert keeper.state.response.denied == ()
    assert json.dumps(events, allow_nan=False)


def test_events_hold_plain_json_and_say_when():
    fabric = make_fabric()
    _, events = run(fabric, SynthWorld(fabric, [event(fabric, 4, 20, **FAULTS["agent-down"])], ticks=20))

    assert {e["schema"] for e in events} == {1}
    assert [e["tick"] for e in of_type(events, "tick")] == list(range(FIRST_TICK, FIRST_TICK + 20))
    assert events[0]["t"] == (FIRST_TICK + 1) * TICK_S
    silent = of_type(events, "finding")
    assert {e["entity"] for e in silent} == {"n3"}
    assert {e["verdict"] for e in silent} == {"no data"}


def test_an_agent_away_denies_nothing():
    fabric = make_fabric()
    world = SynthWorld(fabric, [event(fabric, 4, 20, **FAULTS["agent-down"])], ticks=30)
    _, events = run(fabric, world)

    assert of_type(events, "fault", kind="agent-down", network=False)
    assert {e["kind"] for e in of_type(events, "fault")} == {"agent-down"}
    assert [links for _, links in world.denials] == [()]


def test_without_switches_ports_are_unread_and_agents_own_ports_are_known():
    fabric = make_fabric()
    given = SynthWorld(fabric).next_tick()
    ports = merge_ports(fabric, replace(given, ports=None))

    assert (ports.lower[: fabric.n_ports] == 1).all()
    assert (ports.upper == -1).all()
    assert (ports.switch_answers == -1).all()


# -- denials that do not help -----------------------------------------------------------------------
def incurable(_tick):
    return 0.02


def test_a_denial_that_does_not_help_is_undone_and_not_tried_again_too_soon():
    fabric = make_fabric()
    fault = {**FAULTS["loss"], "rate": 0.03}
    world = SynthWorld(fabric, [event(fabric, 10, 400, **fault)], ticks=160, incurable=incurable)
    keeper, events = run(fabric, world, retry_s=40.0)

    undone = next(e for e in of_type(events, "action") if e["status"] == "lifted")
    assert undone["verification"]["outcome"] == "no-change"
    assert "did not help" in undone["note"]
    refused = next(e for e in of_type(events, "action") if e["status"] == "refused")
    assert any("did not help and was undone" in reason for reason in refused["refusals"])
    again = [e for e in of_type(events, "action", status="approved") if e["t"] > undone["t"]]
    assert again[0]["t"] - undone["t"] == pytest.approx(40.0, abs=1.0)
    assert any("did not help" in e["note"] for e in of_type(events, "incident"))
    versions = [v for v, _ in world.denials]
    assert versions == sorted(set(versions))
    assert keeper.state.response.incidents["inc-1"].status is IncidentStatus.OPEN


def test_while_it_is_not_to_be_tried_again_it_is_refused_once_and_withdrawn_with_the_fault():
    fabric = make_fabric()
    fault = {**FAULTS["loss"], "rate": 0.03}
    world = SynthWorld(fabric, [event(fabric, 10, 120, **fault)], ticks=170, incurable=incurable)
    keeper, events = run(fabric, world)

    # refused by the cool-down too at first, then by the one rule alone
    assert [e["status"] for e in of_type(events, "action", key="inc-1/deny-2")] == ["refused", "refused", "withdrawn"]
    assert [len(links) for _, links in world.denials] == [0, 2, 0]
    assert keeper.state.response.actions["inc-1/deny-1"].undone


def test_a_burst_of_loss_after_the_denial_is_no_verdict():
    fabric = make_fabric()
    world = SynthWorld(
        fabric,
        [event(fabric, 10, 60, **FAULTS["loss"])],
        ticks=70,
        incurable=lambda t: 0.3 if 16 < t - FIRST_TICK < 24 else 0,
    )
    _, events = run(fabric, world)

    assert {e["verification"]["outcome"] for e in of_type(events, "action") if e["verification"]} == {"helped"}
    assert not [e for e in of_type(events, "action", status="lifted") if "did not help" in e["note"]]


def test_another_fault_that_is_not_avoided_may_be_what_the_traffic_suffers_from():
    fabric = make_fabric()
    faults = [
        event(fabric, 10, 400, **FAULTS["loss"]),
        event(fabric, 12, 400, kind="loss", target="p1/t0-0--p1/t1-0", direction="up", rate=0.5),
    ]
    # Only one denial at a time: the second fault is refused, and goes on to hurt.
    world = SynthWorld(fabric, faults, ticks=80)
    keeper, events = run(fabric, world, max_in_force=1)

    verdicts = [e["verification"]["outcome"] for e in of_type(events, "action") if e["verification"]]
    assert set(verdicts) <= {"no-change", "worse"}
    assert verdicts
    assert not [e for e in of_type(events, "action") if "did not help" in e["note"]]
    assert keeper.state.response.actions["inc-1/deny-1"].status is ActionStatus.APPLIED


# -- clocks -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("jump", [-7200, -3, 500])
def test_the_clock_jumps_in_the_middle_of_an_incident(jump):
    fabric = make_fabric()
    world = SynthWorld(fabric, [event(fabric, 10, 50, **FAULTS["loss"])], ticks=110, jumps={30: jump})
    keeper, events = run(fabric, world)

    assert {e["id"] for e in of_type(events, "incident")} == {"inc-1"}
    assert of_type(events, "incident")[-1]["status"] == "closed"
    assert [len(links) for _, links in world.denials] == [0, 2, 0]
    assert keeper.state.senders
    assert {e["target"] for e in of_type(events, "fault")} == {LINK}


def test_a_journal_from_the_future_is_gone_on_from():
    fabric = make_fabric()
    fault = event(fabric, 10, 60, **FAULTS["loss"])
    before, _ = run(fabric, SynthWorld(fabric, [fault], ticks=30))
    world = SynthWorld(fabric, [fault], ticks=120, skip=30, jumps={30: -7200})
    keeper, events = Keeper(setup_of(fabric), world, response=before.state.response), []
    keeper.run(lambda _state, outcome: bool(events.extend(outcome.events)) or True)

    assert [e["status"] for e in of_type(events, "incident")][-1] == "closed"
    assert [len(links) for _, links in world.denials] == [2, 0]


def test_a_fleet_is_judged_by_the_sparse_locator_through_the_same_tick(monkeypatch):
    """From so many paths on; denials, lifting and taking up of open faults are the same."""
    monkeypatch.setattr(locators, "FLEET_ROWS", 10)
    fabric = make_fabric()
    assert locators.is_fleet(fabric)
    world = SynthWorld(fabric, [event(fabric, 6, 40, **FAULTS["loss"])], ticks=90)
    keeper, events = run(fabric, world)
    assert isinstance(keeper.state.locator, FleetLocator)
    told = of_type(events, "fault")
    assert {e["target"] for e in told} == {LINK}
    assert [told[0]["status"], told[-1]["status"]] == ["open", "cleared"]
    assert of_type(events, "action")


def test_a_fleet_s_open_faults_are_taken_up_and_cleared_by_fresh_evidence(monkeypatch):
    monkeypatch.setattr(locators, "FLEET_ROWS", 10)
    fabric = make_fabric()
    first, _ = run(fabric, SynthWorld(fabric, [event(fabric, 6, 99, **FAULTS["blackhole"])], ticks=20))
    assert [f.status for f in first.state.faults] == ["open"]
    state = begin(setup_of(fabric), first.state.response)
    world, last = SynthWorld(fabric, [], ticks=40), ()
    for _ in range(40):
        state, outcome = step(setup_of(fabric), state, world.next_tick())
        last = last or tuple(f for f in outcome.faults if f.status == "cleared")
    assert [f.key for f in last] == [first.state.faults[0].key]
    assert not state.faults
