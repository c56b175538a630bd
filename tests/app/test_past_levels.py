"""Error budgets go on: over restarts, partial minutes, and longer than all else is kept."""

from __future__ import annotations

import pytest
from hub_lines import Line, tick_message
from msgpack import packb
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, event, make_fabric

from railkeeper.app import keeper as keeper_module
from railkeeper.app.history import History, query
from railkeeper.app.keeper import Keeper
from railkeeper.app.past_levels import hour_record, past_levels
from railkeeper.app.pipeline import Setup
from railkeeper.app.ticklog import LogRecord
from railkeeper.app.world import HubWorld
from railkeeper.health.slo.series import Series

FABRIC = make_fabric()
SETUP = Setup(FABRIC, "live")
DAY_S = 86400.0
HOUR = 500_000  # of the tests
KEY = ("packet-loss", "fabric")


def run_keeper(history, first, ticks, series=None):
    """Let a keeper judge some ticks of a lossy fabric; returns it, and the time of its last tick's end."""
    fault = event(FABRIC, 0, 10**6, kind="loss", target="p0/t0-1--p0/t1-2", rate=0.2)
    made, line = SynthWorld(FABRIC, [fault], ticks=first + ticks, skip=first), Line((FIRST_TICK + first) * TICK_S)
    for k in range(first, first + ticks):
        for r in made.next_tick().reports:
            line.say(tick_message(r), at=(FIRST_TICK + k + 1) * TICK_S + 0.15)
    world = HubWorld(FABRIC, line, history, tick_s=TICK_S, clock=line.clock)
    keeper = Keeper(SETUP, world, history=history, clock=line.clock, series=series)
    for _ in range(ticks):
        keeper.answer(world.next_tick())
    keeper.close()
    history.sync()
    return keeper, (FIRST_TICK + first + ticks) * TICK_S


def total(series, t_s, window_s=3600.0):
    return series.total(*KEY, t_s, window_s)


def test_a_restart_loses_nothing_of_a_minute(tmp_path):
    with History(tmp_path) as history:
        first, t = run_keeper(history, 0, 35)
        seen = total(first.state.levels.slo.series, t)
    assert 0 < seen[0] < seen[1]
    with History(tmp_path) as history:
        series = past_levels(tmp_path, t).series
        assert total(series, t) == seen
        second, t = run_keeper(history, 35, 35, series)
    sent = query(tmp_path, "SELECT sum(probes) AS n FROM (SELECT (body->>'probes_sent')::BIGINT AS probes FROM events "
                 "WHERE type = 'tick')")[0]["n"]  # fmt: skip
    assert total(second.state.levels.slo.series, t)[1] == sent
    assert total(past_levels(tmp_path, t).series, t) == total(second.state.levels.slo.series, t)


def test_hours_are_kept_for_a_month_whatever_is_kept_of_all_else(tmp_path):
    series = Series()
    with History(tmp_path, keep_s=DAY_S) as history:
        for number in range(HOUR, HOUR + 24 * 30):
            series.add(*KEY, number * 3600.0 + 5, 9.0, 10.0)
            history.append(hour_record(series, number, "keeper/1"))
            history.append(LogRecord(number * 3600.0 + 5, "other", "x", 1, b""))
        now = (HOUR + 24 * 30) * 3600.0
        history.upkeep(now)
    with History(tmp_path, keep_s=DAY_S) as history:
        history.upkeep(now)
        assert query(tmp_path, "SELECT count(*) AS n FROM messages")[0]["n"] <= 26
        found = past_levels(tmp_path, now)
        assert total(found.series, now - 1, 30 * DAY_S) == (24 * 30 * 9.0, 24 * 30 * 10.0)
        assert found.loose == ()
        history.upkeep(now + 33 * DAY_S)
    assert past_levels(tmp_path, now + 33 * DAY_S).series.tracks == {}


def test_hours_without_a_sum_of_their_own_are_told_by_their_minutes(tmp_path):
    with History(tmp_path) as history:
        for minute in range(150):
            t = HOUR * 3600.0 + 60 * (minute + 1)
            history.append(LogRecord(t, "slis", "keeper/1", 1, packb([(t, *KEY, 1.0, 2.0)])))
        history.sync()
    found = past_levels(tmp_path, HOUR * 3600.0 + 150 * 60)
    assert found.loose == (HOUR, HOUR + 1)
    assert found.series.hour(HOUR) == [(*KEY, 60.0, 120.0)]


@pytest.mark.parametrize("room", [100, 10**6])
def test_lines_beyond_the_room_of_a_record_go_into_several(tmp_path, monkeypatch, room):
    monkeypatch.setattr(keeper_module, "EVENTS_BYTES", room)
    with History(tmp_path) as history:
        run_keeper(history, 0, 5)
    rows = query(tmp_path, "SELECT t, count(*) AS n, count(DISTINCT body) AS d FROM events GROUP BY t")
    assert len(rows) == 5
    assert all(r["n"] == r["d"] for r in rows)
