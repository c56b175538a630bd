"""Extra paths of an agent: what it takes up, for how long, and that nothing under way is lost by it."""

from __future__ import annotations

import numpy as np
from probe_fabrics import fabric

from railkeeper.fabric.paths import PathKind, join_paths, make_paths
from railkeeper.probe.aggregate import Table
from railkeeper.probe.extra import KEEP_TICKS, MOST_PATHS, MOST_SECONDS, Ask, Extra, ask_message, read_ask
from railkeeper.probe.plan import ProbeBudget, make_plan
from railkeeper.probe.window import Window
from railkeeper.probe.wire import make_stamper

F = fabric()
PLAN = make_plan(F, 1, ProbeBudget(agents_per_link=1, peers=0)).paths


def oneway(dst, t1=(0, 1), src=1):
    return make_paths(PathKind.ONEWAY, src, 0, dst=dst, t1=np.array(t1))


def ask(paths, rate=20.0, seconds=10.0):
    return Ask(1, paths, rate, seconds)


def extra(most_rate=100.0):
    return Extra(PLAN, most_rate, 0.5)


def test_a_question_travels():
    got = read_ask(F, 1, ask_message(ask(oneway(5))))
    assert np.array_equal(got.paths.key(), oneway(5).key())
    assert (got.rate, got.seconds) == (20.0, 10.0)


def test_strange_words_are_no_question():
    good = ask_message(ask(oneway(5)))
    assert read_ask(F, 2, good) is None  # another node's
    assert read_ask(fabric(t1=1), 1, ask_message(ask(oneway(5, t1=(2, 3))))) is None  # another fabric's
    for broken in ({}, {"paths": 3}, {**good, "rate": "x"}, {**good, "rate": float("nan")}, {**good, "seconds": -1}):
        assert read_ask(F, 1, {"type": "probe", **broken}) is None
    short = {**good, "paths": {**good["paths"], "t1": b"\0\0\0\0"}}
    assert read_ask(F, 1, short) is None


def test_paths_are_probed_until_their_time_and_go_some_ticks_later():
    e = extra()
    assert e.add(ask(oneway(5)), 100.0)
    assert e.rates(105.0).tolist() == [20.0, 20.0]
    assert e.rates(110.0).tolist() == [0.0, 0.0]
    assert not e.drop(110.0 + KEEP_TICKS * 0.5 - 0.01)
    assert e.drop(110.0 + KEEP_TICKS * 0.5)
    assert len(e) == 0


def test_known_paths_and_repeats_are_not_taken_twice():
    e = extra()
    assert not e.add(ask(PLAN.take(slice(0, 3))), 0.0)
    assert e.add(ask(join_paths([oneway(5), oneway(5)])), 0.0)
    assert not e.add(ask(oneway(5)), 1.0)
    assert len(e) == 2


def test_number_rate_and_time_are_bounded_by_the_agent():
    e = extra(most_rate=30.0)
    many = join_paths([oneway(d, t1=range(4)) for d in range(2, 16)] + [oneway(d, t1=range(4)) for d in range(5, 16)])
    planes = make_paths(PathKind.ONEWAY, 1, 1, dst=np.repeat(np.arange(4, 16), 4), t1=np.tile(np.arange(4), 12))
    assert e.add(ask(join_paths([many, planes]), rate=1000.0, seconds=1e9), 0.0)
    assert len(e) == MOST_PATHS
    assert abs(e.rates(0.0).sum() - 30.0) < 1e-9
    assert not e.rates(MOST_SECONDS).any()


def test_a_window_goes_on_with_more_rows():
    def table(paths):
        return Table(paths, make_stamper(paths).keys, np.ones(len(paths), dtype=bool))

    window = Window(F, 1, table(PLAN), tick_s=0.5, grace_s=0.2, start_ns=0)
    window.sent(1, np.array([0, 0, 2]), 0)
    window.number(1, np.array([0, 0]))
    wider = join_paths([PLAN, oneway(5)])
    window.use(table(wider))
    window.sent(1, np.array([0, len(PLAN)]), 0)
    assert window.number(1, np.array([0])).tolist() == [2]
    (report,) = window.close(int(1.3e9))
    assert report.stats.sent[[0, 2, len(PLAN)]].tolist() == [3, 1, 1]
    window.use(table(PLAN))
    (report,) = window.close(int(1.8e9))
    assert len(report.stats) == len(PLAN)
