"""Every transition of the path-state machine, its floor, and what must always hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.lab.traffic.evstate import (
    TRANSITIONS,
    Event,
    EvRules,
    EvSet,
    State,
    apply,
    deny,
    end_skips,
    make_evset,
    probe_answered,
    probe_lost,
    spray_order,
)

G, S, B, D = State.GOOD, State.SKIP, State.ASSUMED_BAD, State.DENIED
PLANES = np.repeat([0, 1], 4)
RULES = EvRules(active_per_plane=3, min_active=2, probes_to_good=3, skip_ns=100)


def fresh(rules: EvRules = RULES, planes=PLANES) -> EvSet:
    return make_evset(planes, rules, np.random.default_rng(1))


def in_state(state: State) -> EvSet:
    """Return a set whose EV 0 is in `state`, reached by events."""
    s = fresh()
    if state == D:
        return deny(s, np.arange(8) == 0, 0)[0]
    return apply(s, {S: Event.SKIP_ONCE, B: Event.LOST}[state], 0, 0) if state else s


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (G, Event.ECHO, G), (G, Event.SKIP_ONCE, S), (G, Event.ALWAYS_SKIP, B), (G, Event.TRIMMED, S),
        (G, Event.TRIMMED_LASTHOP, G), (G, Event.LOST, B), (G, Event.SKIP_OVER, G), (G, Event.RECOVERED, G),
        (G, Event.RECOVERED_MARKED, G), (G, Event.SET_GOOD, G), (G, Event.DENY, D),
        (S, Event.ECHO, S), (S, Event.SKIP_ONCE, S), (S, Event.ALWAYS_SKIP, B), (S, Event.TRIMMED, S),
        (S, Event.TRIMMED_LASTHOP, S), (S, Event.LOST, B), (S, Event.SKIP_OVER, G), (S, Event.RECOVERED, S),
        (S, Event.RECOVERED_MARKED, S), (S, Event.SET_GOOD, G), (S, Event.DENY, D),
        (B, Event.ECHO, B), (B, Event.SKIP_ONCE, B), (B, Event.ALWAYS_SKIP, B), (B, Event.TRIMMED, B),
        (B, Event.TRIMMED_LASTHOP, B), (B, Event.LOST, B), (B, Event.SKIP_OVER, B), (B, Event.RECOVERED, G),
        (B, Event.RECOVERED_MARKED, S), (B, Event.SET_GOOD, G), (B, Event.DENY, D),
        (D, Event.ECHO, D), (D, Event.SKIP_ONCE, D), (D, Event.ALWAYS_SKIP, D), (D, Event.TRIMMED, D),
        (D, Event.TRIMMED_LASTHOP, D), (D, Event.LOST, D), (D, Event.SKIP_OVER, D), (D, Event.RECOVERED, D),
        (D, Event.RECOVERED_MARKED, D), (D, Event.SET_GOOD, G), (D, Event.DENY, D),
    ],
)  # fmt: skip
def test_every_transition(before, event, after):
    start = in_state(before)
    assert start.state[0] == before
    end = apply(start, event, 0, 5)
    assert end.state[0] == after
    assert (end.state[1:] == start.state[1:]).all()


def test_the_table_has_every_pair():
    assert TRANSITIONS.shape == (len(Event), len(State))


def test_a_lost_ev_is_replaced_from_its_own_plane():
    s = fresh()
    ev = int(np.flatnonzero(s.active & (s.plane == 0))[0])
    backup = int(np.flatnonzero(~s.active & (s.plane == 0))[0])
    after = apply(s, Event.LOST, ev, 0)
    assert after.active[backup]
    assert not after.active[ev]
    assert (after.active[PLANES == 1] == s.active[PLANES == 1]).all()


def test_a_plane_without_backups_gets_none_from_another():
    s = apply(fresh(), Event.LOST, [0, 1], 0)
    assert s.active[PLANES == 0].sum() == 2
    assert s.active[PLANES == 1].sum() == 3


def test_a_recovered_ev_is_a_backup_while_its_plane_is_full():
    s = fresh()
    ev = int(np.flatnonzero(s.active)[0])
    s = apply(s, Event.LOST, ev, 0)
    for _ in range(RULES.probes_to_good):
        s = probe_answered(s, ev, 1)
    assert s.state[ev] == G
    assert not s.active[ev]


def test_probes_bring_back_only_in_a_row():
    s = apply(fresh(), Event.LOST, 0, 0)
    s = probe_answered(probe_answered(s, 0, 1), 0, 2)
    s = probe_lost(s, np.array([0]))
    s = probe_answered(probe_answered(s, 0, 3), 0, 4)
    assert s.state[0] == B
    assert probe_answered(s, 0, 5).state[0] == G
    assert probe_answered(s, 0, 5, marked=True).state[0] == S


def test_probes_say_nothing_of_evs_that_are_not_assumed_bad():
    for state in (G, S, D):
        s = in_state(state)
        for _ in range(9):
            s = probe_answered(s, 0, 1)
        assert s.state[0] == state


def test_a_skip_ends_by_itself_and_is_renewed_by_a_new_mark():
    s = apply(fresh(), Event.SKIP_ONCE, 0, 0)
    assert end_skips(s, 99).state[0] == S
    assert end_skips(s, 100).state[0] == G
    renewed = apply(s, Event.TRIMMED, 0, 50)
    assert end_skips(renewed, 149).state[0] == S
    assert end_skips(renewed, 150).state[0] == G


def test_the_floor_refuses_marks_and_counts_them():
    s = apply(fresh(), Event.LOST, np.arange(8), 0)
    assert s.counts() == (2, 0, 6, 0)
    assert set(s.plane[s.usable]) == {0, 1}  # one of each plane, not two of one
    assert s.floor_holds == 2
    assert apply(s, Event.LOST, np.arange(8), 1).floor_holds == 4


def test_deny_is_the_whole_set_and_idempotent():
    first = np.arange(8) < 2
    s, refused = deny(fresh(), first, 0)
    assert (s.state == np.where(first, D, G)).all()
    assert not refused.any()
    again, _ = deny(s, first, 1)
    assert (again.state == s.state).all()
    second = (np.arange(8) >= 1) & (np.arange(8) < 3)
    s, _ = deny(s, second, 2)
    assert (s.state == np.where(second, D, G)).all()
    s, _ = deny(s, np.zeros(8, dtype=bool), 3)
    assert s.counts() == (8, 0, 0, 0)


def test_deny_of_all_keeps_the_floor_on_paths_that_seem_to_work():
    s = apply(fresh(), Event.LOST, [0, 1, 4, 5], 0)
    s, refused = deny(s, np.ones(8, dtype=bool), 0)
    assert refused.sum() == 2
    assert s.counts() == (2, 0, 0, 6)
    assert not refused[[0, 1, 4, 5]].any()
    assert s.floor_holds == 2


def test_deny_of_the_good_ones_puts_the_longest_bad_back_to_use():
    s = apply(fresh(), Event.LOST, [0, 1], 10)
    s = apply(s, Event.LOST, [2, 3], 20)
    s, refused = deny(s, PLANES == 1, 30)
    assert not refused.any()
    assert s.state[:4].tolist() == [G, G, B, B]


def test_spray_takes_planes_in_turn_and_every_active_ev():
    s = fresh()
    order = spray_order(s, np.random.default_rng(2))
    assert (s.plane[order[::2]] == s.plane[order[0]]).all()
    assert (s.plane[order[1::2]] == s.plane[order[1]]).all()
    assert set(order) == set(np.flatnonzero(s.active))


def test_spray_keeps_planes_equal_when_one_has_fewer_evs():
    s = apply(fresh(), Event.LOST, [0, 1, 2], 0)
    planes = s.plane[spray_order(s, np.random.default_rng(2))]
    assert (planes == 0).sum() == (planes == 1).sum()


def test_spray_leaves_a_dead_plane_out_and_lends_skips():
    s = apply(fresh(), Event.LOST, [0, 1, 2, 3], 0)
    s = apply(s, Event.SKIP_ONCE, [4, 5, 6, 7], 0)
    order = spray_order(s, np.random.default_rng(2))
    assert len(order)
    assert (s.plane[order] == 1).all()


_EVENTS = st.tuples(st.sampled_from(list(Event)), st.lists(st.integers(0, 7), min_size=1, max_size=8))
_DENIALS = st.tuples(st.just("deny"), st.lists(st.booleans(), min_size=8, max_size=8))
_PROBES = st.tuples(st.just("probe"), st.integers(0, 7))


@given(st.lists(_EVENTS | _DENIALS | _PROBES, max_size=40), st.integers(0, 9), st.integers(1, 4))
def test_always(events, floor, width):
    s = fresh(EvRules(active_per_plane=width, min_active=floor, probes_to_good=2, skip_ns=3))
    for now, (what, arg) in enumerate(events):
        before = s
        if what == "deny":
            s, refused = deny(s, np.array(arg), now)
            assert ((s.state == D) == (np.array(arg) & ~refused)).all()
        elif what == "probe":
            s = probe_answered(s, arg, now)
        else:
            s = apply(s, what, arg, now)
        s = end_skips(s, now)
        if what not in ("deny", Event.DENY, Event.SET_GOOD):
            assert ((before.state == D) == (s.state == D)).all()  # only the controller denies and lifts
        _check(s, floor, width)


def _check(s: EvSet, floor: int, width: int) -> None:
    assert s.usable.sum() >= min(floor, 8)
    assert not (s.active & ~s.usable).any()
    for p in (0, 1):
        own = s.plane == p
        assert (s.active & own).sum() == min(width, (s.usable & own).sum())
    assert set(spray_order(s, np.random.default_rng(0))) <= set(np.flatnonzero(s.active))
