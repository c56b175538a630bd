"""Counters beside probes in the keeper: agreement, contradiction, silence, counters alone, and who gives way to whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, event, make_fabric

from railkeeper.app.pipeline import Setup, begin, step
from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name
from railkeeper.health.fault import LocatorConfig
from railkeeper.probe.plan import ProbeBudget
from railkeeper.respond.guardrails import Limits
from railkeeper.telemetry.fabric_entities import port_entities
from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block, Frame
from railkeeper.telemetry.frame_wire import encode_frame

FABRIC = make_fabric()
PORTS = port_entities(FABRIC)
LINK = "p0/t0-1--p0/t1-2"
NAMES = ("rx_packets", "tx_packets", "rx_crc_errors", "rx_discards", "tx_discards")
EVERY = 4  # ticks from frame to frame
QUICK = {"persist_s": 4.0, "hold_s": 6.0}
SETUP = Setup(
    FABRIC, "live", frame_s=EVERY * TICK_S, limits=Limits(dry_run=False), locator=LocatorConfig(expect_agents=False),
    detectors={"port-down": {"down_s": 5.0}, "error-rates": QUICK, "discards": QUICK},
)  # fmt: skip


def link(name):
    return int(links_of(FABRIC, parse_name(FABRIC, name))[0])


def end(name, way):
    """The port that receives what crosses a link in a direction."""
    return 2 * link(name) + (1 if way == "up" else 0)


class Frames:
    """Counters of all ports: steady traffic; `crc`: port -> (first, last tick) in which it counts damage."""

    def __init__(self, crc=(), down=(), unread=()):
        self.crc, self.down, self.unread = dict(crc), dict(down), dict(unread)
        self.counters = np.zeros((len(NAMES), len(PORTS)), dtype=np.uint64)

    def next(self, k, t_s):
        self.counters[:2] += np.uint64(1_000_000)
        up = np.ones((1, len(PORTS)), dtype=np.float32)
        t_ns = np.full(len(PORTS), int(t_s * 1e9))
        for port, (first, last) in self.crc.items():
            if first <= k < last:
                self.counters[2, port] += np.uint64(20_000)
        for port, (first, last) in self.down.items():
            if first <= k < last:
                up[0, port] = 0
        counters = self.counters.copy()
        for port, (first, last) in self.unread.items():
            if first <= k < last:
                counters[:, port], t_ns[port], up[0, port] = ABSENT, NO_TIME, np.nan
        states = np.concatenate([up, np.ones_like(up)])
        widths = np.full(len(NAMES), 64, np.uint8)
        return Frame(t_s, {"port": Block(PORTS, t_ns, NAMES, widths, counters, ("oper_up", "admin_up"), states)})


class FrameWorld(SynthWorld):
    """The synthetic world with a frame every few ticks; `probing=False`: nothing but frames."""

    def __init__(self, frames, events=(), *, ticks=80, probing=True, **other):
        super().__init__(FABRIC, events, ticks=ticks, **other)
        self.frames, self.probing = frames, probing

    def next_tick(self):
        k, given = self.at, super().next_tick()
        if given is None:
            return None
        if not self.probing:
            given = replace(given, reports=(), flows=(), ports=None, confirmations=())
        if self.frames is None or k % EVERY:
            return given
        return replace(given, frame=encode_frame(self.frames.next(k, (given.tick + 1) * TICK_S)))


class Ran:
    """A keeper's run: outcomes tick by tick."""

    def __init__(self, world, state=None, setup=SETUP):
        self.state, self.outcomes = state or begin(setup), []
        version = -1
        while (given := world.next_tick()) is not None:
            self.state, outcome = step(setup, self.state, given)
            self.outcomes.append(outcome)
            if self.state.response.version != version:
                version = self.state.response.version
                world.deny(version, self.state.response.denied)

    def lines(self, type_):
        return [e for o in self.outcomes for e in o.events if e["type"] == type_]

    @property
    def faults(self):
        return self.state.faults

    @property
    def only(self):
        assert len(self.faults) == 1, [(f.key, f.target, f.evidence) for f in self.faults]
        return self.faults[0]

    @property
    def open_incidents(self):
        return [i for i in self.state.response.incidents.values() if i.status == "open"]


def lossy(start=6, stop=900, **other):
    return event(FABRIC, start, stop, **({"kind": "loss", "target": LINK, "direction": "up", "rate": 0.1} | other))


# -- beside a located fault ------------------------------------------------------------------------------
def test_without_frames_nothing_is_said():
    ran = Ran(FrameWorld(None, [lossy()]))
    assert (ran.only.counters, ran.only.target) == ("", LINK)
    assert all("counters" not in e for e in ran.lines("fault"))
    assert ran.state.fusing.rows == ()


def test_counters_at_the_receiving_end_agree_and_it_is_told_once():
    ran = Ran(FrameWorld(Frames({end(LINK, "up"): (0, 900)}), [lossy()]))
    f = ran.only
    assert (f.target, f.direction, f.counters) == (LINK, "up", "agree")
    line = next(x for x in f.evidence if x.endswith(": agrees"))
    assert "rx_crc_errors" in line
    assert f"at {PORTS.name_of(end(LINK, 'up'))}" in line
    told = [e["counters"] for e in ran.lines("fault") if e["key"] == f.key and "counters" in e]
    assert told == ["agree"] * len(told)
    assert 1 <= len(told) <= 3
    assert any("counters of its ports agree" in x.text for i in ran.open_incidents for x in i.timeline)


def test_clean_counters_at_both_ends_are_a_gray_switch():
    ran = Ran(FrameWorld(Frames(), [lossy()]))
    assert ran.only.counters == "clean"
    assert any("loses without counting" in x for x in ran.only.evidence)
    assert ran.state.response.denied  # that paths show it is enough


def test_a_fault_so_young_that_nothing_could_be_counted_yet_is_not_called_gray():
    """The detectors wait for a few hits: meanwhile clean is no word against a link that does count."""
    ran = Ran(FrameWorld(Frames({end(LINK, "up"): (6, 900)}), [lossy()]))
    told = [e.get("counters", "") for e in ran.lines("fault")]
    assert "clean" not in told
    assert told[-1] == "agree"


def test_a_switch_that_loses_and_counts_nowhere():
    ran = Ran(FrameWorld(Frames(), [lossy(target="p0/t1-1", direction="both")]))
    assert (ran.only.target, ran.only.counters) == ("p0/t1-1", "clean")


def test_an_end_that_was_not_read_is_not_clean():
    ran = Ran(FrameWorld(Frames(unread={end(LINK, "down"): (0, 900)}), [lossy()]))
    assert ran.only.counters == ""


def test_counters_of_the_other_direction_contradict():
    ran = Ran(FrameWorld(Frames({end(LINK, "down"): (0, 900)}), [lossy()]))
    f = ran.only
    assert (f.target, f.direction, f.counters) == (LINK, "up", "disagree")
    assert any(x.endswith("contradicts") for x in f.evidence)


def bounces_only(world):
    """Leave the direction open: bounces cross both."""
    world.probes.budget = ProbeBudget(peers=0)
    world.probes.__post_init__()
    world.probes.rate[world.probes.paths.kind == 2] = 1e-9
    return world


def test_counters_split_what_paths_leave_open():
    alone = Ran(bounces_only(FrameWorld(None, [lossy()])))
    assert len(alone.only.directions) > 1
    ran = Ran(bounces_only(FrameWorld(Frames({end(LINK, "up"): (0, 900)}), [lossy()])))
    f = ran.only
    assert (f.target, f.direction, f.directions, f.counters) == (LINK, "up", ("up",), "agree")
    assert f.key == alone.only.key
    assert f.denied_links == alone.only.denied_links  # counters take no denial away
    told = [e for e in ran.lines("fault") if e["key"] == f.key and e["directions"] == ["up"]]
    assert len(told) == 1


# -- counters alone --------------------------------------------------------------------------------------
def test_counters_alone_are_a_fault_and_an_incident_and_no_action():
    port = end(LINK, "down")
    ran = Ran(FrameWorld(Frames({port: (5, 900)}), probing=False))
    f = ran.only
    assert (f.target, f.kind, f.direction, f.counters) == (LINK, "corrupt", "down", "alone")
    assert f.evidence[0] == "known by counters alone"
    assert PORTS.name_of(port) in f.evidence[1]
    assert "no probe crosses it" in f.evidence
    assert f.denied_links == (2 * link(LINK) + 1,)
    (incident,) = ran.open_incidents
    assert "nothing is denied" in incident.timeline[0].text
    assert ran.lines("action") == []
    assert ran.state.response.denied == ()
    assert len(ran.lines("fault")) == 1


def test_they_end_with_the_findings():
    ports = (2 * link(LINK), 2 * link(LINK) + 1)
    ran = Ran(FrameWorld(Frames(down=dict.fromkeys(ports, (10, 50))), probing=False))
    assert ran.faults == ()
    lines = ran.lines("fault")
    assert [e["status"] for e in lines] == ["open", "cleared"]
    assert len({e["key"] for e in lines}) == 1
    assert ran.open_incidents == []


def test_a_port_that_falls_silent_is_not_well():
    port = end(LINK, "down")
    ran = Ran(FrameWorld(Frames({port: (10, 50)}, unread={port: (50, 900)}), probing=False, ticks=120))
    assert ran.only.counters == "alone"


def test_probes_that_see_nothing_are_told_too():
    ran = Ran(FrameWorld(Frames({end(LINK, "down"): (5, 900)})))
    f = ran.only
    assert f.counters == "alone"
    line = f.evidence[-1]
    assert line.startswith("paths over it: 0 of ")
    assert int(line.split()[5]) > 100
    assert ran.lines("action") == []


def test_probes_that_find_it_later_take_it_over():
    """One part, one incident; what is denied is denied for what paths have seen."""
    ran = Ran(FrameWorld(Frames({end(LINK, "up"): (2, 900)}), [lossy(start=60)], ticks=120))
    f = ran.only
    assert (f.target, f.counters) == (LINK, "agree")
    assert [i.fault.key for i in ran.open_incidents] == [f.key]
    ended = [e for e in ran.lines("fault") if e["status"] == "cleared"]
    assert [e["evidence"][-1] for e in ended] == ["paths have located it"]
    assert ran.state.response.denied
    first = ran.lines("action")[0]
    assert first["t"] > (FIRST_TICK + 60) * TICK_S
    assert len(ran.state.response.incidents) == 1


def test_when_paths_are_well_again_counters_hold_no_denial():
    ran = Ran(FrameWorld(Frames({end(LINK, "up"): (2, 900)}), [lossy(start=6, stop=50)], ticks=120))
    f = ran.only
    assert (f.target, f.counters) == (LINK, "alone")
    assert ran.state.response.denied == ()
    assert {e["status"] for e in ran.lines("action")} >= {"approved", "lifted"}
    assert [i.fault.key for i in ran.open_incidents] == [f.key]


def test_all_links_of_a_switch_are_one_fault():
    switch = "p0/t1-1"
    links = links_of(FABRIC, parse_name(FABRIC, switch))
    ports = {2 * int(x) + side: (5, 900) for x in links for side in (0, 1)}
    ran = Ran(FrameWorld(Frames(down=ports), probing=False))
    f = ran.only
    assert (f.target, f.kind, f.direction, f.counters) == (switch, "down", "both", "alone")
    assert len(f.denied_links) == 2 * len(links)
    assert ran.lines("action") == []


def test_a_switch_that_is_off_is_one_fault_and_a_link_whose_other_end_says_nothing_is_none():
    switch = "p0/t1-1"
    links = [int(x) for x in links_of(FABRIC, parse_name(FABRIC, switch))]
    off = Frames(down={2 * x: (5, 900) for x in links}, unread={2 * x + 1: (5, 900) for x in links})
    assert Ran(FrameWorld(off, probing=False)).only.target == switch
    one = Frames(down={2 * links[0]: (5, 900)}, unread={2 * links[0] + 1: (5, 900)})
    assert Ran(FrameWorld(one, probing=False)).faults == ()


def test_a_keeper_that_restarts_keeps_them_and_gives_the_locator_none():
    frames = Frames({end(LINK, "down"): (5, 900)})
    first = Ran(FrameWorld(frames, probing=False))
    again = begin(SETUP, first.state.response)
    assert not again.locator.faults
    second = Ran(FrameWorld(Frames({end(LINK, "down"): (0, 900)}), probing=False, ticks=160, skip=80), again)
    assert second.only.key == first.only.key
    assert {e["status"] for e in second.lines("fault")} <= {"open"}
    assert len(second.state.response.incidents) == 1


def test_the_clock_may_be_set_back():
    frames = Frames({end(LINK, "down"): (5, 900)})
    ran = Ran(FrameWorld(frames, [lossy(target="p1/t0-0--p1/t1-1")], ticks=120, jumps={80: -400}))
    assert {f.counters for f in ran.faults} == {"alone", "clean"}


def test_the_same_inputs_give_the_same_lines():
    def lines():
        frames = Frames({end(LINK, "up"): (2, 60), end("p1/t0-0--p1/t1-1", "up"): (4, 900)})
        return [o.events for o in Ran(FrameWorld(frames, [lossy(start=30)], ticks=100)).outcomes]

    assert lines() == lines()
