"""The keeper's loop: the journal first, then the deed; a restart goes on where the last one ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic_world import SynthWorld, event, make_fabric

from railkeeper.app import keeper as keeper_module
from railkeeper.app.keeper import HEARTBEAT_TICKS, JOURNAL_TRIES, Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.base.errors import OutsideError
from railkeeper.respond.actions import ActionStatus
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import IncidentStatus
from railkeeper.respond.journal import Journal

FABRIC = make_fabric()
SETUP = Setup(FABRIC, "lab", limits=Limits(dry_run=False))
LOSS = {"kind": "loss", "target": "p0/t0-1--p0/t1-2", "rate": 0.2}


@pytest.fixture
def journal(tmp_path):
    with Journal.open(f"sqlite:///{tmp_path}/journal.db") as j:
        yield j


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(keeper_module.time, "sleep", lambda _s: None)


def on(_state, _outcome):
    return True


class Grudging:
    """A journal that refuses some of its calls."""

    def __init__(self, journal, refuse, *, retry=True):
        self.journal, self.refuse, self.retry, self.calls = journal, list(refuse), retry, 0

    def record_step(self, step, **more):
        self._grudge()
        self.journal.record_step(step, **more)

    def heartbeat(self, t, body):
        self._grudge()
        self.journal.heartbeat(t, body)

    def _grudge(self):
        self.calls += 1
        if self.refuse and self.refuse.pop(0):
            raise OutsideError("the journal can't be used: database is locked", retry=self.retry)


def test_a_denial_is_in_the_journal_before_it_is_sent(journal):
    world = SynthWorld(FABRIC, [event(FABRIC, 6, 60, **LOSS)], ticks=20)
    known = []
    deny = world.deny

    def checked(version, links):
        in_force = [a for a in journal.actions(only_standing=True) if a.in_force]
        known.append((set(links), {x for a in in_force for x in a.links}, journal.note("deny_version"), version))
        deny(version, links)

    world.deny = checked
    Keeper(SETUP, world, journal=journal).run(on)

    (_, *sent) = known
    assert sent
    for links, journaled, noted, version in sent:
        assert links == journaled
        assert noted == version


@pytest.mark.parametrize("refuse", [[1], [1, 0, 1], [0, 1], [1] * (JOURNAL_TRIES - 1), [0, 1, 0, 1, 0, 1, 1]])
def test_a_journal_that_is_busy_is_asked_again(journal, refuse, no_waiting):
    world = SynthWorld(FABRIC, [event(FABRIC, 6, 60, **LOSS)], ticks=30)
    keeper = Keeper(SETUP, world, journal=Grudging(journal, refuse))
    keeper.run(on)

    assert journal.restore(0.0).denied == keeper.state.response.denied != ()
    events = [e["key"] for e in journal.events()]
    assert len(events) == len(set(events))


@pytest.mark.parametrize(("refuse", "retry", "calls"), [([1] * 99, True, JOURNAL_TRIES), ([1], False, 1)])
def test_a_keeper_without_journal_does_not_act(journal, refuse, retry, calls, no_waiting):
    world = SynthWorld(FABRIC, [event(FABRIC, 6, 60, **LOSS)], ticks=30)
    grudging = Grudging(journal, refuse, retry=retry)
    with pytest.raises(OutsideError, match="locked"):
        Keeper(SETUP, world, journal=grudging).run(on)

    assert grudging.calls == calls
    assert world.denials == [(0, ())]


def test_a_journal_that_fails_at_the_denial_keeps_it_from_being_sent(journal):
    world = SynthWorld(FABRIC, [event(FABRIC, 6, 60, **LOSS)], ticks=30)
    keeper = Keeper(SETUP, world, journal=journal)
    record = journal.record_step

    def refusing(step, **more):
        if step.denied_changed:
            raise OutsideError("disk full")
        record(step, **more)

    journal.record_step = refusing
    with pytest.raises(OutsideError, match="disk full"):
        keeper.run(on)
    assert world.denials == [(0, ())]


def test_a_heartbeat_says_who_is_there(journal):
    keeper = Keeper(SETUP, SynthWorld(FABRIC, ticks=2 * HEARTBEAT_TICKS), journal=journal)
    keeper.run(on)
    beat = journal.note("heartbeat")

    assert (beat["agents"], beat["nodes"], beat["faults"], beat["dry_run"]) == (4, 4, 0, False)
    assert beat["world"] == "lab"


def test_it_stops_when_told_or_at_its_time():
    world = SynthWorld(FABRIC, ticks=50)
    Keeper(SETUP, world).run(lambda state, _outcome: state.ticks < 3)
    assert world.at == 3
    Keeper(SETUP, world).run(on, for_s=0.0)
    assert world.at == 3
    Keeper(SETUP, world).run(on)
    assert world.at == 50


# -- restarts -----------------------------------------------------------------------------------------
def lives(journal, world, cuts):
    """Run keepers one after the other, each ended at a tick of the world, as if killed; return all events."""
    events = []
    for cut in [*cuts, world.ticks]:
        keeper = Keeper(SETUP, world, response=journal.restore(0.0), journal=journal)
        keeper.run(lambda _s, o, cut=cut: bool(events.extend(o.events)) or world.at < cut)
    return keeper, events


@pytest.mark.parametrize("fault", [
    LOSS,
    {"kind": "blackhole", "target": "p1/t1-1"},
    {"kind": "down", "target": "p0/t0-0--p0/t1-0"},
    {"kind": "corrupt", "target": "p1/t0-0--p1/t1-3", "rate": 0.2},
    {"kind": "agent-down", "target": "n1"},
], ids=lambda f: f["kind"])  # fmt: skip
def test_restarts_in_an_incident_change_nothing(journal, fault):
    world = SynthWorld(FABRIC, [event(FABRIC, 10, 60, **fault)], ticks=120)
    keeper, events = lives(journal, world, [25, 26, 40])

    incidents = journal.incidents()
    assert [(i.id, i.status, i.fault.target) for i in incidents] == [
        ("inc-1", IncidentStatus.CLOSED, incidents[0].fault.target)
    ]
    assert incidents[0].fault.kind == fault["kind"]
    assert {e["target"] for e in events if e["type"] == "fault"} == {fault["target"]}
    statuses = [a.status for a in journal.actions()]
    assert all(s in {ActionStatus.LIFTED, ActionStatus.REPLACED} for s in statuses)
    assert keeper.state.response.denied == ()
    versions = [v for v, _ in world.denials]
    assert versions == sorted(versions)
    while_open = [links for _, links in world.denials[1:-1]]
    assert all(while_open) or fault["kind"] == "agent-down"


def test_a_fault_that_ended_while_no_keeper_ran_is_cleared(journal):
    world = SynthWorld(FABRIC, [event(FABRIC, 10, 40, **LOSS)], ticks=120)
    Keeper(SETUP, world, journal=journal).run(lambda _s, _o: world.at < 30)
    world.at = 60
    keeper = Keeper(SETUP, world, response=journal.restore(0.0), journal=journal)
    assert world.denials[-1][1]
    keeper.run(on)

    assert [i.status for i in journal.incidents()] == [IncidentStatus.CLOSED]
    assert world.denials[-1] == (keeper.state.response.version, ())


@pytest.mark.parametrize("kind", ["loss", "blackhole", "down"])
def test_a_fault_that_began_while_no_keeper_ran_is_found(journal, kind):
    fault = LOSS if kind == "loss" else {"kind": kind, "target": "p1/t1-1"}
    world = SynthWorld(FABRIC, [event(FABRIC, 40, 90, **fault)], ticks=150)
    Keeper(SETUP, world, journal=journal).run(lambda _s, _o: world.at < 30)
    world.at = 60
    Keeper(SETUP, world, response=journal.restore(0.0), journal=journal).run(on)

    (incident,) = journal.incidents()
    assert (incident.fault.target, incident.fault.kind) == (fault["target"], kind)
    assert incident.status is IncidentStatus.CLOSED


def test_a_restarted_keeper_sends_what_stands_before_the_first_tick(journal):
    world = SynthWorld(FABRIC, [event(FABRIC, 10, 90, **LOSS)], ticks=60)
    Keeper(SETUP, world, journal=journal).run(lambda _s, _o: world.at < 30)
    before = world.denials[-1]
    response = replace(journal.restore(0.0), version=1_800_000_000)
    Keeper(SETUP, world, response=response, journal=journal).run(lambda _s, _o: False)

    assert before[1]
    assert world.denials[-1] == (1_800_000_000, before[1])


def test_what_did_not_help_is_remembered_over_a_restart(journal):
    world = SynthWorld(FABRIC, [event(FABRIC, 10, 900, **LOSS | {"rate": 0.02})], ticks=500, incurable=lambda _t: 0.02)
    keeper = Keeper(SETUP, world, journal=journal)
    keeper.run(lambda s, _o: not any(a.undone for a in s.response.actions.values()))
    world.at += 250  # longer than ended actions are remembered for otherwise
    now = (world.at + 3_400_000_000) * 0.5
    response = journal.restore(now, remember_s=SETUP.limits.retry_s)
    keeper = Keeper(SETUP, world, response=response, journal=journal)
    keeper.run(lambda _s, _o: world.at < 490)

    assert [a.status for a in keeper.state.response.actions.values()] == [ActionStatus.LIFTED, ActionStatus.REFUSED]
    assert world.denials[-1][1] == ()
