"""Error budgets and burn rates against closed forms; sums over windows against sums of everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.health.slo.objectives import DEFAULT_ALERTS, NO_DATA, OK, PAGE, TICKET, Slo, level, levels
from railkeeper.health.slo.series import FINE_S, HOUR_S, MINUTE_S, Series, dump, load

T0 = 1_790_000_000 // 3600 * 3600
SLO = Slo("x", "packet-loss", "fabric", 0.999, least_total=10)


def series_of(bad_share, minutes, *, now=T0, per_minute=1000.0, until=0):
    """Steady traffic up to `now`, of which a share was bad from `minutes` to `until` minutes ago."""
    series = Series()
    for k in range(3 * 24 * 60, 0, -1):
        bad = bad_share if until < k <= minutes else 0.0
        series.add("packet-loss", "fabric", now - k * MINUTE_S, per_minute * (1 - bad), per_minute)
    return series


# budget is 0.1%: a burn of b is b/1000 bad
@pytest.mark.parametrize(
    ("bad", "minutes", "until", "state"),
    [
        (0.0, 0, 0, OK),
        (0.0144, 62, 0, PAGE),  # 14.4 times over an hour, and over five minutes
        (0.0143, 60, 0, OK),  # just below, and the six hours have had too little
        (0.0144, 62, 6, OK),  # over: the last five minutes are good
        (0.5, 4, 0, PAGE),  # a short, hard one: 33 times over the hour
        (0.006, 400, 0, PAGE),  # 6 times over six hours and half an hour
        (0.006, 400, 40, OK),
        (0.003, 26 * 60, 0, TICKET),
        (0.0011, 4 * 24 * 60, 0, TICKET),
        (0.0009, 4 * 24 * 60, 0, OK),
    ],
)
def test_alerts_need_both_their_windows(bad, minutes, until, state):
    found = level(SLO, "fabric", series_of(bad, minutes, until=until), T0 - 1)
    assert found.state == state


def test_a_burn_of_one_uses_the_budget_in_a_period():
    found = level(SLO, "fabric", series_of(0.001, 10**6), T0 - 1)
    assert found.burns[3600] == pytest.approx(1.0)
    assert found.budget_left == pytest.approx(0.0, abs=1e-9)
    assert found.ratio == pytest.approx(0.999)


def test_half_a_budget():
    assert level(SLO, "fabric", series_of(0.0005, 10**6), T0 - 1).budget_left == pytest.approx(0.5)


def test_no_data_is_not_ok():
    assert level(SLO, "fabric", Series(), T0).state == NO_DATA
    silent = series_of(0.0, 0, now=T0 - 3600)
    found = level(SLO, "fabric", silent, T0)
    assert found.state == NO_DATA
    assert found.burns[300] is None
    assert found.burns[21600] == 0.0


def test_too_little_traffic_says_nothing():
    series = Series()
    series.add("packet-loss", "fabric", T0 - 30, 0.0, 9.0)
    found = level(SLO, "fabric", series, T0)
    assert (found.state, found.budget_left) == (NO_DATA, None)


def test_an_objective_holds_in_each_scope_of_its_kind():
    series = Series()
    for scope in ("fabric", "plane/p0", "plane/p1", "t0-group/3"):
        series.add("packet-loss", scope, T0, 1.0, 1.0)
    planes = Slo("p", "packet-loss", "plane", 0.99)
    assert [x.scope for x in levels((planes,), series, T0)] == ["plane/p0", "plane/p1"]


def test_the_default_windows_use_the_stated_shares_of_a_month():
    shares = [round(a.burn * a.long_s / (30 * 86400), 4) for a in DEFAULT_ALERTS]
    assert shares == [0.02, 0.05, 0.1, 0.1]


AMOUNTS = st.lists(st.tuples(st.integers(0, 40 * 86400), st.integers(0, 50), st.integers(0, 50)), max_size=60)


@given(AMOUNTS, st.sampled_from([300, 1800, 3600, 7200, 21600, 86400, 3 * 86400, 30 * 86400]))
def test_a_window_holds_what_was_added_in_it_and_nothing_else(adds, window):
    adds = sorted(adds)
    series = Series()
    now = T0 + max((t for t, _, _ in adds), default=0)
    for t, good, bad in adds:
        series.add("a", "b", T0 + t, good, good + bad)
    width = MINUTE_S if window <= FINE_S else HOUR_S
    first = now // width - round(window / width) + 1
    inside = [(g, g + b) for t, g, b in adds if (T0 + t) // width >= first]
    assert series.total("a", "b", now, window) == (sum(g for g, _ in inside), sum(t for _, t in inside))
    again = load(dump(series))
    assert again.total("a", "b", now, window) == series.total("a", "b", now, window)
