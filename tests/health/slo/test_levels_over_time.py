"""What is remembered of service levels while clocks jump and jobs come and go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.slo.keep import keep, new_slo_state
from railkeeper.health.slo.objectives import NO_DATA, OK, Slo, levels
from railkeeper.health.slo.scopes import Job, Scopes
from railkeeper.health.slo.series import MINUTE_S, Series, dump, load

FABRIC = Fabric(check_spec({"fabric": {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 2, "nics_per_t0": 2}}))
T0 = 1_790_000_000 // 3600 * 3600
SLOS = (Slo("all", "packet-loss", "fabric", 0.9), Slo("jobs", "packet-loss", "job", 0.9))


def minutes(state, scopes, first, last, *, good=1.0, total=1.0, slos=SLOS):
    """Keep from minute `first` to before `last`, two ticks each; return rows and news."""
    amounts = np.full((len(scopes), 2), (good, total))
    rows, news = [], []
    for k in range(2 * first, 2 * last):
        found = keep(state, scopes, slos, T0 + 30.0 * k, {"packet-loss": amounts})
        rows += found[0]
        news += found[1]
    return rows, news


@pytest.mark.parametrize("jump_s", [3600, 40 * 86400, 10 * 365 * 86400])
def test_a_clock_that_was_ahead_does_not_end_all_counting(jump_s):
    state, scopes = new_slo_state(FABRIC.n_nodes), Scopes(FABRIC)
    minutes(state, scopes, 0, 5)
    ahead = jump_s // 60
    minutes(state, scopes, ahead, ahead + 2)
    minutes(state, scopes, 10, 20)
    good, total = state.series.total("packet-loss", "fabric", T0 + 19 * 60, 600)
    assert (good, total) == (18.0, 18.0)  # nine whole minutes
    assert state.series.total("packet-loss", "fabric", T0 + jump_s + 60, 120) == (0.0, 0.0)


def test_nothing_measured_at_all_is_told_as_no_data():
    state, scopes = new_slo_state(FABRIC.n_nodes), Scopes(FABRIC)
    minutes(state, scopes, 0, 5)
    _, news = minutes(state, scopes, 5, 20, good=0.0, total=0.0)
    assert [(x.slo.name, x.state) for x in news] == [("all", NO_DATA)]


def test_jobs_come_and_go_without_closing_the_minute_of_all_others():
    state, plain = new_slo_state(FABRIC.n_nodes), Scopes(FABRIC)
    one, two = plain.with_jobs((Job("a", (0,)),)), plain.with_jobs((Job("a", (0,)), Job("b", (1,))))
    rows = []
    for k, scopes in enumerate([plain, one, two, one, plain, plain, plain, plain]):
        amounts = np.ones((len(scopes), 2))
        rows += keep(state, scopes, SLOS, T0 + 10.0 * k, {"packet-loss": amounts})[0]
    fabric = [r for r in rows if r.scope == "fabric"]
    assert [(r.t_s, r.total) for r in fabric] == [(T0 + 60.0, 6.0)]
    assert [(r.scope, r.total, r.t_s) for r in rows if r.scope.startswith("job/")] == [
        ("job/b", 1.0, T0 + 30.0),
        ("job/a", 3.0, T0 + 40.0),
    ]


def test_a_job_that_is_over_is_no_news_and_is_forgotten():
    state, plain = new_slo_state(FABRIC.n_nodes), Scopes(FABRIC)
    with_job = plain.with_jobs((Job("a", (0,)),))
    minutes(state, with_job, 0, 10)
    _, news = minutes(state, plain, 10, 30)
    assert news == []
    assert "job/a" in {x.scope for x in levels(SLOS, state.series, T0 + 30 * 60)}
    minutes(state, plain, 30, 90)
    assert "job/a" not in {x.scope for x in levels(SLOS, state.series, T0 + 90 * 60)}
    minutes(state, plain, 90, 500)
    assert {scope for _, scope in state.series.tracks} == set(plain.names)
    assert state.series.total("packet-loss", "fabric", T0 + 499 * 60, 86400) == (998.0, 998.0)


def test_planes_of_a_fabric_that_was_before_are_no_news():
    larger = Scopes(
        Fabric(check_spec({"fabric": {"planes": 4, "t0_per_plane": 2, "t1_per_plane": 2, "nics_per_t0": 2}}))
    )
    slos = (Slo("planes", "packet-loss", "plane", 0.9),)
    before = new_slo_state(FABRIC.n_nodes)
    minutes(before, larger, 0, 5, slos=slos)
    state = new_slo_state(FABRIC.n_nodes, before.series)
    _, news = minutes(state, Scopes(FABRIC), 10, 20, slos=slos)
    assert news == []
    assert {scope for _, scope in state.states} == {"plane/p0", "plane/p1"}


def test_a_running_job_without_data_is_no_data():
    state, scopes = new_slo_state(FABRIC.n_nodes), Scopes(FABRIC).with_jobs((Job("a", (0,)),))
    minutes(state, scopes, 0, 3)
    _, news = minutes(state, scopes, 3, 100, good=0.0, total=0.0)
    assert ("job/a", NO_DATA) in {(x.scope, x.state) for x in news}
    assert ("job/a", NO_DATA) in {(scope, s) for (_, scope), s in state.states.items()}


def test_an_objective_without_alerts_has_no_data_before_there_is_any():
    series = Series()
    series.add("packet-loss", "fabric", T0, 0.0, 0.0)
    quiet = Slo("x", "packet-loss", "fabric", 0.9, alerts=())
    assert [x.state for x in levels((quiet,), series, T0)] == [NO_DATA]
    series.add("packet-loss", "fabric", T0, 1.0, 1.0)
    assert [x.state for x in levels((quiet,), series, T0)] == [OK]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "job/c"]), st.integers(0, 2000), st.integers(1, 9)), max_size=40))
def test_what_is_forgotten_takes_nothing_else_with_it(adds):
    series, kept = Series(), Series()
    for scope, minute, n in sorted(adds, key=lambda x: x[1]):
        for one in (series, kept):
            if one is series or scope != "job/c":
                one.add("x", scope, T0 + minute * MINUTE_S, n, n)
    series.forget({("x", "job/c")})
    now = T0 + 2000 * MINUTE_S
    for scope in ("a", "b", "job/c"):
        for window in (600, 20_000, 80_000):
            assert series.total("x", scope, now, window) == kept.total("x", scope, now, window)
            assert load(dump(series)).total("x", scope, now, window) == kept.total("x", scope, now, window)


@pytest.mark.parametrize(
    "changes", [{"tracks": b"\x09\0\0\0"}, {"buckets": b"\x01" + bytes(7)}, {"amounts": b"1234567"}]
)
def test_a_broken_dump_is_refused(changes):
    series = Series()
    series.add("x", "a", T0, 1.0, 1.0)
    made = dump(series)
    made["hours"] |= changes
    with pytest.raises(ValueError, match=r"tracks that have no name|not remembered|buffer size"):
        load(made)
