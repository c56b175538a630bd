"""Messages to ticks: durable before acknowledged, and no peer can stop the keeper or speak for another."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hub_lines import Disk, Line, message, tick_message
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, make_fabric

from railkeeper.app.collector import HISTORY_PATIENCE_TICKS, LATE_TOLD, MAX_AHEAD_TICKS, Collector
from railkeeper.app.history import History, query
from railkeeper.app.pipeline import Setup, begin, step
from railkeeper.base.errors import OutsideError
from railkeeper.lab.traffic.flowstats import encode_flows
from railkeeper.probe.pathstats import encode_report

FABRIC = make_fabric()


def collector(line, history=None, **more):
    said = []
    c = Collector(
        FABRIC, line, history, first_tick=FIRST_TICK, tick_s=TICK_S, clock=line.clock, complain=said.append, **more
    )
    c.said = said
    return c


def test_nothing_is_acknowledged_before_it_is_durable(line, reports):
    c = collector(line, Disk(line))
    for r in reports[0]:
        line.say(tick_message(r))
    c.poll(0)
    assert not [x for x in line.log if x[0] == "ack"]
    c.close(FIRST_TICK, None)

    sync = line.log.index(("sync",))
    acks = [i for i, x in enumerate(line.log) if x[0] == "ack"]
    assert len(acks) == FABRIC.n_nodes
    assert min(acks) > sync > max(i for i, x in enumerate(line.log) if x[0] == "append")


def test_a_disk_that_refuses_holds_back_acknowledgements_and_nothing_else(line, reports):
    c = collector(line, Disk(line, failing=3))
    given = []
    for n in range(5):
        line.say(*map(tick_message, reports[n]))
        c.poll(0)
        given.append(c.close(FIRST_TICK + n, None))
        assert bool([x for x in line.log if x[0] == "ack"]) == (n >= 3)

    assert [len(g.reports) for g in given] == [FABRIC.n_nodes] * 5
    assert len([x for x in line.log if x[0] == "ack"]) == 5 * FABRIC.n_nodes
    assert len(c.said) == 1
    assert "no space left" in c.said[0]


@pytest.mark.parametrize("disk", [{"failing": 10**9}, {"failing": 1, "retry": False}])
def test_a_disk_that_never_comes_back_ends_the_keeper(line, disk):
    c = collector(line, Disk(line, **disk))
    for n in range(HISTORY_PATIENCE_TICKS if disk.get("retry", True) else 0):
        c.close(FIRST_TICK + n, None)
    with pytest.raises(OutsideError, match="no space left"):
        c.close(FIRST_TICK + HISTORY_PATIENCE_TICKS, None)


def test_a_message_said_again_before_its_acknowledgement_counts_once(line):
    world = SynthWorld(FABRIC)
    given = world.next_tick()
    flows = [message(f"sender/n{f.node}", "flows", encode_flows(f), seq=5) for f in given.flows]
    c = collector(line, Disk(line))
    line.say(*flows, *flows, *map(tick_message, given.reports), *map(tick_message, given.reports))
    c.poll(0)
    line.say(*flows)
    c.poll(0)
    got = c.close(FIRST_TICK, None)

    assert len(got.flows) == len(got.reports) == FABRIC.n_nodes
    assert len([x for x in line.log if x[0] == "append" and not x[1].startswith("keeper/")]) == 2 * FABRIC.n_nodes


def test_a_second_report_of_a_tick_does_not_replace_the_first(line, reports):
    c, r = collector(line), reports[0][0]
    line.say(tick_message(r, seq=1), tick_message(r, seq=2, stray=7))
    c.poll(0)

    assert [x.stray for x in c.close(FIRST_TICK, None).reports] == [0]


def test_late_reports_are_kept_and_not_judged(line, reports):
    c = collector(line)
    c.close(FIRST_TICK, None)
    line.say(*map(tick_message, reports[0]), tick_message(reports[2][1]))
    c.poll(0)
    given = c.close(FIRST_TICK + 1, None)

    assert given.reports == ()
    assert [(r.tick, r.node) for r in given.late] == [(FIRST_TICK, n) for n in range(FABRIC.n_nodes)]
    assert len(c.close(FIRST_TICK + 2, None).reports) == 1
    assert c.malformed == 0


def test_an_agent_that_is_always_too_late_is_told_once_and_one_that_catches_up_is_not(line, reports):
    c = collector(line)
    slow, fast = reports[0][1], reports[0][2]
    for n in range(LATE_TOLD + 20):
        line.say(tick_message(slow, tick=FIRST_TICK + n - 8, seq=n + 1))
        catching_up = n < LATE_TOLD - 10
        line.say(tick_message(fast, tick=FIRST_TICK + n - 8 * catching_up, seq=n + 1))
        line.now = (FIRST_TICK + n + 1) * TICK_S
        c.poll(0)
        c.close(FIRST_TICK + n, None)

    assert c.said == ["agent/n1: its reports come 4 s too late to be used; is its clock behind?"]


def test_the_first_tick_counts(line, reports):
    c = collector(line)
    line.say(*map(tick_message, reports[0]))
    c.poll(0)

    assert len(c.close(FIRST_TICK, None).reports) == FABRIC.n_nodes


def test_a_clock_that_is_ahead_is_not_believed(line, reports):
    c = collector(line)
    line.say(tick_message(reports[0][1], tick=FIRST_TICK + MAX_AHEAD_TICKS))
    line.say(tick_message(reports[0][2], tick=FIRST_TICK + MAX_AHEAD_TICKS + 4))
    c.poll(0)

    assert c.malformed == 1
    assert c.said == ["a message can't be used: agent/n2: is 12 s ahead of the keeper's clock; set its clock"]


def test_after_a_long_stall_what_was_said_meanwhile_is_not_ahead(line, reports):
    c = collector(line)
    line.now += 60 * TICK_S
    line.say(*(tick_message(r) for tick in reports for r in tick))
    c.poll(0)

    assert [len(c.close(FIRST_TICK + n, None).reports) for n in range(60)] == [FABRIC.n_nodes] * 60


GOOD = SynthWorld(FABRIC).next_tick()
REPORT, FLOW = GOOD.reports[0], GOOD.flows[0]
OTHER = SynthWorld(make_fabric(t1_per_plane=5)).next_tick()
DENIED = {"version": 1, "paths": 2, "refused": 0}


def with_column(name, value):
    return replace(REPORT, stats=replace(REPORT.stats, **{name: value}))


def columns_of(name, change):
    d = msgpack.unpackb(encode_report(REPORT))
    d["columns"][name] = change(d["columns"][name])
    return message("agent/n0", "tick", msgpack.packb(d))


BAD = {
    "garbage": message("agent/n0", "tick", b"\x00garbage"),
    "nothing": message("agent/n0", "tick", b""),
    "another's name": tick_message(REPORT, name="agent/n1", seq=7),
    "no such node": tick_message(REPORT, node=99, name="agent/n99"),
    "negative node": tick_message(REPORT, node=-1, name="agent/n-1"),
    "negative tick": tick_message(REPORT, tick=-5, seq=1),
    "huge tick": tick_message(REPORT, tick=2**62, seq=1),
    "other tick length": tick_message(REPORT, tick_s=1.0),
    "no tick length": tick_message(REPORT, tick_s=float("nan")),
    "too many ports": tick_message(REPORT, port_state=(1,) * 9, port_downs=(0,) * 9),
    "a port state that is none": tick_message(REPORT, port_state=(1, 300)),
    "endless downs": tick_message(REPORT, port_downs=(1, 2**63)),
    "negative count": tick_message(with_column("sent", np.full(len(REPORT.stats), -7))),
    "overflowing count": tick_message(with_column("received", np.full(len(REPORT.stats), 2**62))),
    "infinite rate": tick_message(with_column("train_bps", np.full(len(REPORT.stats), np.inf))),
    "negative loss of its own": tick_message(REPORT, unsent=-1),
    "a column too long": columns_of("sent", lambda b: b * 32),
    "a path column too long": columns_of("path_src", lambda b: b * 32),
    "a histogram too short": columns_of("delay_hist", lambda b: b[: len(b) // 32]),
    "flows of another fabric": message("sender/n0", "flows", encode_flows(OTHER.flows[0])),
    "flows for another": message("sender/n1", "flows", encode_flows(FLOW)),
    "flows from the future": message("sender/n0", "flows", encode_flows(replace(FLOW, tick=2**40))),
    "negative flows": message("sender/n0", "flows", encode_flows(replace(FLOW, stats=replace(FLOW.stats, lost=FLOW.stats.lost - 1)))),
    "an unknown type": message("agent/n0", "secrets", b"x"),
    "a confirmation without version": message("sender/n0", "denied", seq=0),
    "a confirmation that is no number": message("sender/n0", "denied", seq=0, **DENIED | {"version": "x"}),
    "an endless confirmation": message("sender/n0", "denied", seq=0, **DENIED | {"paths": float("inf")}),
    "a stranger's confirmation": message("root", "denied", seq=0, **DENIED),
    "a confirmation of a node that is not there": message("sender/n99", "denied", seq=0, **DENIED),
    "a list for a version": message("sender/n0", "denied", seq=0, **DENIED | {"version": []}),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_can_not_be_used_is_counted_told_and_kept(bad, line, tmp_path):
    with History(tmp_path) as history:
        c = collector(line, history)
        line.say(bad, *(tick_message(r) for r in GOOD.reports[1:]))
        c.poll(0)
        given = c.close(FIRST_TICK, None)
        step(Setup(FABRIC, "live", tick_s=TICK_S), begin(Setup(FABRIC, "live", tick_s=TICK_S)), given)

        assert c.malformed == 1
        assert len(c.said) == 1
        assert [r.node for r in given.reports] == list(range(1, FABRIC.n_nodes))
        assert (given.flows, given.confirmations) == ((), ())
    kept = query(tmp_path, "select kind from messages where name not like 'keeper/%'")
    assert [k["kind"] for k in kept] == ([f"unusable {bad.type}"] if bad.seq and "-" not in bad.name else [])
    assert len(query(tmp_path, "select * from reports")) == FABRIC.n_nodes - 1


def test_rows_of_another_fabric_are_no_evidence_and_no_harm(line):
    """A row may fall outside of our fabric without its report being refused: the join leaves it out."""
    c = collector(line)
    line.say(*map(tick_message, OTHER.reports))
    c.poll(0)
    setup = Setup(FABRIC, "live", tick_s=TICK_S)
    _, outcome = step(setup, begin(setup), c.close(FIRST_TICK, None))

    assert 0 < len(outcome.stats) < sum(len(r.stats) for r in OTHER.reports)


counts = st.integers(-1, 10**7)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_sound_looking_report_stops_the_keeper(data):
    """Numbers that pass the checks may still be nonsense together."""
    setup = Setup(FABRIC, "live", tick_s=TICK_S)
    state, world = begin(setup), SynthWorld(FABRIC)
    for _ in range(3):
        given = world.next_tick()
        bad = data.draw(st.sampled_from(given.reports))
        n = len(bad.stats)
        columns = {
            name: np.array(data.draw(st.lists(counts, min_size=n, max_size=n)), dtype=np.int64)
            for name in data.draw(st.sets(st.sampled_from(["sent", "received", "corrupt", "delay_min_ns"]), min_size=1))
        }
        bad = replace(bad, stats=replace(bad.stats, **columns))
        c = collector(Line(now=(given.tick) * TICK_S))
        c._take(tick_message(bad))
        assert c.malformed == 0
        state, outcome = step(
            setup, state, replace(given, reports=tuple(bad if r.node == bad.node else r for r in given.reports))
        )
        assert outcome.events
