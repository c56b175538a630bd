"""The past can be judged again from the history: exactly from the start of a run, plausibly from later on."""

from __future__ import annotations

import pytest
from hub_lines import Line, message, tick_message
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, event, make_fabric

from railkeeper.app import history as history_module
from railkeeper.app.history import History, query
from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.app.rejudge import rejudge
from railkeeper.app.world import HubWorld
from railkeeper.base.errors import InputError
from railkeeper.lab.traffic.flowstats import encode_flows
from railkeeper.respond.guardrails import Limits

FABRIC = make_fabric()
SETUP = Setup(FABRIC, "lab", limits=Limits(dry_run=False))
TICKS = 40
LOSSY = "p0/t0-1--p0/t1-2"
START_S = FIRST_TICK * TICK_S


def run_keeper(folder, *, ticks=TICKS, start=0):
    """Let a keeper run over real messages of a synthetic world, some of them late, into a history."""
    made = SynthWorld(FABRIC, [event(FABRIC, 6, 90, kind="loss", target=LOSSY, rate=0.2)], ticks=ticks, skip=start)
    line, ports, seq = Line((FIRST_TICK + start) * TICK_S), [], 0
    for k in range(start, ticks):
        given = made.next_tick()
        ports.append(given.ports)
        for r in given.reports:
            # one agent's report comes three ticks late now and then
            late = 3.0 if r.node == 1 and k % 5 == 4 else 0.3
            line.say(tick_message(r), at=(FIRST_TICK + k + 1) * TICK_S + late * TICK_S)
        for f in given.flows:
            seq += 1
            said = message(f"sender/n{f.node}", "flows", encode_flows(f), seq=seq)
            line.say(said, at=(FIRST_TICK + k + 1) * TICK_S + 0.2)
    events = []
    with History(folder / "history", segment_s=4.0) as history:
        states = iter(ports)
        world = HubWorld(
            FABRIC, line, history, tick_s=TICK_S, read_ports=lambda: next(states), clock=line.clock,
        )  # fmt: skip
        keeper = Keeper(SETUP, world, history=history, clock=line.clock)
        for _ in range(ticks - start - 4):
            events += keeper.answer(world.next_tick()).events
        history.append(history_module.LogRecord(line.now, "other", "x", 1, b""))
        history.sync()
    return keeper, events, line.now


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    return folder / "history", *run_keeper(folder)


def test_from_the_start_all_answers_are_those_given_then(ran):
    folder, keeper, _, now = ran
    found = rejudge(folder, now, whole=True)
    assert found.whole
    assert found.compared == found.ticks == TICKS - 4
    assert found.differ == 0
    assert found.state.faults == keeper.state.faults
    assert [f.target for f in found.state.faults] == [LOSSY]


def test_so_they_are_after_compaction(ran, tmp_path):
    keeper, _, now = run_keeper(tmp_path)
    with History(tmp_path / "history") as history:
        assert history.upkeep(now).compacted >= 4
    found = rejudge(tmp_path / "history", now, whole=True)
    assert (found.compared, found.differ) == (TICKS - 4, 0)
    assert found.state.faults == keeper.state.faults


def test_before_the_fault_nothing_was_known(ran):
    found = rejudge(ran[0], START_S + 5 * TICK_S, whole=True)
    assert found.state.faults == ()
    assert found.end_s == START_S + 5 * TICK_S


def test_from_later_on_the_fault_is_found_again(ran):
    found = rejudge(ran[0], ran[3], from_s=START_S + 8)
    assert not found.whole
    assert found.compared == 0
    assert [f.target for f in found.state.faults] == [LOSSY]


def test_a_second_run_begins_anew(ran, tmp_path):
    run_keeper(tmp_path)
    keeper, _, now = run_keeper(tmp_path, start=50, ticks=70)
    found = rejudge(tmp_path / "history", now, whole=True)
    assert (found.ticks, found.differ) == (16, 0)
    assert found.state.faults == keeper.state.faults


@pytest.mark.parametrize("at_s", [0.0, START_S - 10])
def test_a_time_before_the_run_is_refused(ran, at_s):
    with pytest.raises(InputError, match="before what the history holds"):
        rejudge(ran[0], at_s)


def test_a_history_that_lost_a_report_says_so(ran, tmp_path, monkeypatch):
    _, _, now = run_keeper(tmp_path)
    monkeypatch.setattr("railkeeper.app.rebuild._reports", lambda *_: {})
    with pytest.raises(InputError, match="lacks what n0 said"):
        rejudge(tmp_path / "history", now, whole=True)


def test_all_lines_are_in_the_table_of_events(ran):
    rows = query(ran[0], "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY type")
    said = {}
    for e in ran[2]:
        said[e["type"]] = said.get(e["type"], 0) + 1
    assert {r["type"]: r["n"] for r in rows} == said
    assert query(ran[0], "SELECT DISTINCT entity FROM events WHERE type = 'fault'") == [{"entity": LOSSY}]
