"""Drills without packets: which report is which fault, and how a drill goes from phase to phase."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld

from railkeeper.app import drill as drill_module
from railkeeper.app.drill import WARM_PATIENCE_S, Drill, all_right, answer, group_faults
from railkeeper.app.drillmatch import explains, is_found, same_kind
from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.base.errors import OutsideError
from railkeeper.cli.drill_table import drill_table
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.fault import Fault
from railkeeper.health.synth import Event
from railkeeper.respond.guardrails import Limits

SMALL = Fabric(
    check_spec({
        "fabric": {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 4, "nics_per_t0": 2},
        "optics": {"nic_ports_per_optic": 2, "t0_ports_per_optic": 2},
    })
)  # fmt: skip


def injected(target, kind="down", **more):
    return parse_fault(SMALL, {"id": target, "kind": kind, "target": target, **more}, where="test")


def told(target, kind="down", direction="both", **more):
    base = Fault(
        key=f"{kind}:{target}", target=target, kind=kind, direction=direction, since_tick=1, status="open", confidence=0.99,
        rate=0.1, rate_low=0.1, rate_high=0.1, delay_ms=0.0, gbps=0.0, also_kinds=(), directions=(), indistinguishable=(),
        evidence=(), network=True, denied_links=(),
    )  # fmt: skip
    return replace(base, **more)


@pytest.mark.parametrize(
    ("target", "fault", "found", "explained"),
    [
        ("p0/t1-1", told("p0/t1-1"), True, True),
        ("p0/t1-1", told("p0/t1-2"), False, False),
        ("p0/t1-1", told("p0/t0-0--p0/t1-1"), False, False),
        ("p0/t1-1", told("p0/t0-0--p0/t1-1", indistinguishable=("p0/t1-1",)), True, True),
        ("n1/nic0/p1", told("n1/nic0/p1--p1/t0-0"), True, True),
        ("n1/nic0/p1", told("n1/nic0/p0--p0/t0-0"), False, False),
        ("n1/nic0/p1--p1/t0-0", told("n1/nic0/p1--p1/t0-0"), True, True),
        ("n1/nic0", told("n1"), False, True),
        ("n1/nic0/optic0", told("n1/nic0"), False, True),
        ("n1/nic0/p1--p1/t0-0", told("n1/nic0"), False, False),
        ("p0/t0-0", told("p0/t0-0/optic0"), False, False),
    ],
)
def test_which_report_is_which_fault(target, fault, found, explained):
    assert is_found(SMALL, injected(target), fault) is found
    assert explains(SMALL, injected(target), fault) is explained


@pytest.mark.parametrize(
    ("kind", "direction", "fault", "same"),
    [
        ("loss", "up", told("n0", "loss", "up"), True),
        ("loss", "up", told("n0", "loss", "down"), False),
        ("loss", "up", told("n0", "loss", "both"), False),
        ("loss", "up", told("n0", "loss", "both", directions=("both", "up")), True),
        ("loss", "up", told("n0", "corrupt", "up"), False),
    ],
)
def test_kind_and_direction_must_be_right(kind, direction, fault, same):
    assert same_kind(injected("n0", kind, direction=direction, rate=0.1), fault) is same


def test_faults_of_a_group_go_together_at_the_place_of_the_first():
    a, b, c, d = (injected(f"p0/t1-{n}", **({"group": "g"} if n in {1, 3} else {})) for n in range(4))

    assert group_faults([a, b, c, d]) == [(a,), (b, d), (c,)]
    assert group_faults([]) == []


# -- the phases ---------------------------------------------------------------------------------------
class Clock:
    def __init__(self, monkeypatch):
        self.now = FIRST_TICK * TICK_S
        monkeypatch.setattr(drill_module.time, "time", lambda: self.now)


class FakeLab:
    """Injects into the synthetic world from the clock's time on; `deaf` faults are taken and do nothing."""

    def __init__(self, world, clock, deaf=()):
        self.world, self.clock, self.deaf, self.asked = world, clock, deaf, []
        self.active = {}

    def ask(self, command, fault):
        self.asked.append((command, fault if command == "clear" else fault["id"]))
        events = self.world.probes.events
        if command == "inject":
            made = parse_fault(self.world.fabric, fault, where="test")
            if made.id not in self.deaf:
                self.active[made.id] = Event(made, self.clock.now, 1e18)
                events.append(self.active[made.id])
        elif fault in self.active:
            old = self.active.pop(fault)
            events[events.index(old)] = Event(old.fault, old.start_s, self.clock.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def play(clock, faults, *, deaf=(), ticks=400, **more):
    """Run a drill over the synthetic world; return the drill, its lab and what it said."""
    world = SynthWorld(SMALL, ticks=ticks)
    world.senders.events = world.probes.events
    lab, said = FakeLab(world, clock, deaf), []
    drill = Drill(
        SMALL, lab, group_faults(faults), quiet_s=3.0, patience_s=10.0, tick_s=TICK_S, say=said.append, **more
    )

    def watch(state, outcome):
        clock.now = outcome.t_s
        return drill.watch(state, outcome)

    Keeper(Setup(SMALL, "lab", limits=Limits(dry_run=False)), world).run(watch)
    return drill, lab, said


def test_a_drill_from_warm_to_its_end(clock):
    faults = [injected("p0/t1-1", "blackhole"), injected("n1/nic0/p0--p0/t0-0", "loss", rate=0.3)]
    drill, lab, said = play(clock, faults)

    assert lab.asked == [(what, f.id) for f in faults for what in ("inject", "clear")]
    assert all_right(drill)
    result = answer(drill)
    assert [r["right"] for r in result["results"]] == [True, True]
    assert [r["located"][0]["target"] for r in result["results"]] == [f.target_name for f in faults]
    for r in result["results"]:
        assert 0 < r["seconds_to_locate"] <= r["seconds_to_mitigate"] < 10
        assert r["seconds_to_clear"] > 0
        assert r["loss_before"] > 0 == r["loss_after"]
    assert result["false_alarms"] == []
    assert result["quiet_seconds"] >= 3.0
    assert said[0].startswith("all 4 agents report")
    assert drill_table(drill).row_count == 2


def test_a_group_is_injected_together(clock):
    faults = [injected("p0/t1-1", "blackhole", group="g"), injected("p1/t1-2", "blackhole", group="g")]
    drill, lab, _ = play(clock, faults)

    assert lab.asked == [("inject", "p0/t1-1"), ("inject", "p1/t1-2"), ("clear", "p0/t1-1"), ("clear", "p1/t1-2")]
    assert len(drill.episodes) == 1
    assert all_right(drill)


def test_a_fault_that_is_not_found_is_said_and_the_drill_goes_on(clock):
    faults = [injected("p0/t1-1", "blackhole"), injected("p0/t1-2", "blackhole")]
    drill, _, said = play(clock, faults, deaf=["p0/t1-1"])

    assert not all_right(drill)
    first, second = answer(drill)["results"]
    assert (first["right"], first["located"], first["seconds_to_locate"]) == (False, [], None)
    assert second["right"]
    assert any("NOT located: ['p0/t1-1']" in text for text in said)
    assert drill_table(drill).row_count == 2


def test_a_report_that_nothing_explains_is_a_false_alarm_once(clock):
    drill, lab, said = play(clock, [injected("p0/t1-1", "blackhole")], ticks=12)
    lab.world.ticks = 60
    extra = injected("p1/t1-3", "blackhole")
    lab.world.probes.events.append(Event(extra, clock.now, 1e18))

    def watch(state, outcome):
        clock.now = outcome.t_s
        return drill.watch(state, outcome)

    Keeper(Setup(SMALL, "lab", limits=Limits(dry_run=False)), lab.world).run(watch)

    assert [f["target"] for f in drill.false_alarms.values()] == ["p1/t1-3"]
    assert not all_right(drill)
    assert len([text for text in said if "FALSE" in text]) == 1


def test_what_an_earlier_fault_has_left_behind_is_no_false_alarm(clock, monkeypatch):
    monkeypatch.setattr(drill_module, "CLEAR_PATIENCE_S", 5.0)
    faults = [injected("p0/t1-1", "blackhole"), injected("p1/t1-2", "blackhole")]
    world = SynthWorld(SMALL, ticks=150)
    world.senders.events = world.probes.events
    lab, said = FakeLab(world, clock), []
    drill = Drill(SMALL, lab, group_faults(faults), quiet_s=1.0, patience_s=10.0, tick_s=TICK_S, say=said.append)
    ask = lab.ask
    lab.ask = lambda command, fault: None if (command, fault) == ("clear", "p0/t1-1") else ask(command, fault)

    def watch(state, outcome):
        clock.now = outcome.t_s
        return drill.watch(state, outcome)

    Keeper(Setup(SMALL, "lab", limits=Limits(dry_run=False)), world).run(watch)

    assert drill.false_alarms == {}
    assert not all_right(drill)
    assert "  not healthy again in time" in said
    assert [r["right"] for r in answer(drill)["results"]] == [True, True]


def test_a_lab_that_does_not_get_warm_ends_the_drill(clock):
    world = SynthWorld(SMALL, ticks=400)
    world.probes.events.append(Event(injected("n2", "agent-down"), 0.0, 1e18))
    drill = Drill(SMALL, FakeLab(world, clock), [], tick_s=TICK_S, say=lambda _t: None, _since=clock.now)

    def watch(state, outcome):
        clock.now = outcome.t_s
        return drill.watch(state, outcome)

    with pytest.raises(OutsideError, match="1 agents and 0 senders are missing"):
        Keeper(Setup(SMALL, "lab"), world).run(watch)
    assert clock.now - FIRST_TICK * TICK_S < WARM_PATIENCE_S + 2
