"""The past can be judged again from the history: exactly from the start of a run, plausibly from later on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hub_lines import Line, message, tick_message
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, event, make_fabric

from railkeeper.app import history as history_module
from railkeeper.app.history import History, query, retain
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


class JumpyLine(Line):
    """A line whose clock is set back once, by `jump_s`, when it has come to `jumps_at`; messages keep their order."""

    jumps_at, jump_s = 1e18, 0.0

    def clock(self):
        return self.now - (self.jump_s if self.now >= self.jumps_at else 0.0)


START_S = FIRST_TICK * TICK_S


def run_keeper(folder, *, ticks=TICKS, start=0, fault_at=6, delay_s=0.0, set_back=(10**9, 0.0), behind_s=0.0):
    """Let a keeper run over real messages of a synthetic world, some of them late, into a history.

    - delay_s: from the world's to the keeper's own start; set_back: from which tick on the clock is behind, and how much
    - behind_s: how far the clock of an agent of its own is behind
    """
    fault = event(FABRIC, fault_at, 90 + start, kind="loss", target=LOSSY, rate=0.2)
    shift = -round(set_back[1] / TICK_S)
    made = SynthWorld(FABRIC, [fault], ticks=ticks, skip=start, jumps={set_back[0]: shift})
    line, ports, seq = JumpyLine((FIRST_TICK + start) * TICK_S), [], 0
    line.jumps_at, line.jump_s = (FIRST_TICK + set_back[0]) * TICK_S, set_back[1]
    for k in range(start, ticks):
        given = made.next_tick()
        ports.append(given.ports)
        if behind_s:
            old = replace(given.reports[2], tick=given.tick - round(behind_s / TICK_S))
            given = replace(given, reports=(*given.reports[:2], *given.reports[3:]))
            line.say(tick_message(old, seq=10**6 + k), at=(FIRST_TICK + k + 1) * TICK_S + 0.2)
        for r in given.reports:
            # one agent's report comes three ticks late now and then
            late = 3.0 if r.node == 1 and k % 5 == 4 else 0.3
            line.say(tick_message(r, seq=1000 + k), at=(FIRST_TICK + k + 1) * TICK_S + late * TICK_S)
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
        line.now += delay_s
        keeper = Keeper(SETUP, world, history=history, clock=line.clock)
        for _ in range(ticks - start - 4):
            events += keeper.answer(world.next_tick()).events
        history.append(history_module.LogRecord(line.clock(), "other", "x", 1, b""))
        history.sync()
    return keeper, events, line.clock()


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


def test_a_run_whose_head_was_removed_can_be_judged_from_later_on(tmp_path):
    """A keeper runs for longer than the history is kept: what it began with is gone."""
    start = 7200 - int(START_S % 3600 / TICK_S) - 20  # the run goes over the turn of an hour
    keeper, _, now = run_keeper(tmp_path, start=start, ticks=start + 60, fault_at=start + 2)
    with History(tmp_path / "history") as history:
        history.upkeep(now)
        hours = retain(tmp_path / "history", now - 5)
    assert len(hours) == 1
    with pytest.raises(InputError, match="no longer holds the start"):
        rejudge(tmp_path / "history", now, whole=True)
    found = rejudge(tmp_path / "history", now)
    assert (found.whole, found.compared) == (False, 0)
    assert [f.target for f in found.state.faults] == [f.target for f in keeper.state.faults] == [LOSSY]
    assert query(tmp_path / "history", "SELECT name_of('node', 0) AS n") == [{"n": "n0"}]


def test_ticks_that_are_missing_are_told(tmp_path):
    _, _, now = run_keeper(tmp_path)
    with History(tmp_path / "history") as history:
        history.upkeep(now)
    part = sorted((tmp_path / "history").glob("archive/messages/date=*/hour=*/part-*.parquet"))[2]
    part.unlink()
    with pytest.raises(InputError, match=r"lacks .* ticks after tick|lacks what"):
        rejudge(tmp_path / "history", now, whole=True)


def test_a_keeper_that_took_long_to_begin_is_judged_from_its_first_tick(tmp_path):
    """Between the world's first tick and the keeper's own start a large history is read."""
    _, _, now = run_keeper(tmp_path, delay_s=6.0)
    found = rejudge(tmp_path / "history", now, whole=True)
    assert (found.compared, found.differ) == (found.ticks, 0) == (TICKS - 4, 0)


@pytest.mark.parametrize("back_s", [5.0, 5000.0])
def test_a_clock_that_was_set_back_does_not_confuse_it(tmp_path, back_s):
    keeper, _, now = run_keeper(tmp_path, ticks=60, set_back=(30, back_s))
    found = rejudge(tmp_path / "history", now, whole=True)
    assert found.ticks == 56
    if back_s > 100:  # no time came twice
        assert (found.compared, found.differ) == (56, 0)
        assert found.state.faults == keeper.state.faults
    assert found.end_s == pytest.approx(now, abs=3 * TICK_S)


def test_a_report_that_comes_an_hour_late_is_no_matter(tmp_path):
    """An agent whose clock is behind: its reports are kept, and not judged."""
    _, _, now = run_keeper(tmp_path, behind_s=3600.0)
    found = rejudge(tmp_path / "history", now, whole=True)
    assert (found.compared, found.differ) == (found.ticks, 0)


def test_all_lines_are_in_the_table_of_events(ran):
    rows = query(ran[0], "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY type")
    said = {}
    for e in ran[2]:
        said[e["type"]] = said.get(e["type"], 0) + 1
    assert {r["type"]: r["n"] for r in rows} == said
    assert query(ran[0], "SELECT DISTINCT entity FROM events WHERE type = 'fault'") == [{"entity": LOSSY}]
