from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.probe.schedule import Schedule


def test_rates_hold_and_events_are_spread():
    rate = np.array([50.0, 10.0, 0.5, 0.0])
    s = Schedule(rate, 0.0)
    per_wake = [s.due(t)[0] for t in np.arange(1, 1001) * 0.02]

    assert np.bincount(np.concatenate(per_wake), minlength=4) == pytest.approx(rate * 20, abs=1)
    assert max(len(rows) for rows in per_wake) <= 4


def test_first_all_firsts_then_all_seconds():
    s = Schedule(np.full(8, 100.0), 0.0)
    rows, turn = s.due(0.03)

    assert (np.diff(turn) >= 0).all()
    assert sorted(zip(rows, turn, strict=True)) == sorted({(int(r), int(t)) for r, t in zip(rows, turn, strict=True)})


def test_what_was_missed_is_not_made_up_for_at_once():
    s = Schedule(np.array([50.0, 0.1]), 0.0)
    rows, _ = s.due(1000.0)

    assert np.bincount(rows, minlength=2).tolist() == [5, 1]
    assert len(s.due(1000.02)[0]) <= 2


@given(
    st.lists(st.floats(0.1, 500), min_size=1, max_size=20), st.lists(st.floats(0.001, 0.09), min_size=1, max_size=50)
)
def test_no_row_is_more_than_one_off_however_it_is_asked(rates, steps):
    s, now, got = Schedule(np.array(rates), 0.0), 0.0, np.zeros(len(rates))
    for step in steps:
        now += step
        got += np.bincount(s.due(now)[0], minlength=len(rates))

    assert (np.abs(got - np.array(rates) * now) <= 1 + 1e-6).all()
