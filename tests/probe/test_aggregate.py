from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_fabrics import fabric

from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.probe.aggregate import Table, belongs, tick_stats
from railkeeper.probe.pathstats import HIST_EDGES_NS, NO_TIME
from railkeeper.probe.wire import Probes, path_keys, path_words

OWN = make_paths([0, 1, 1, 3], [0, 0, 0, 0], [0, 0, 1, 0], dst=[0, 0, 0, 4], t1=[-1, 0, 1, 2])
STRANGER = make_paths([3], [8], [0], dst=[0], t1=[1])
WORDS = path_words(
    make_paths([0, 1, 1, 3, 3], [0, 0, 0, 0, 8], [0, 0, 1, 0, 0], dst=[0, 0, 0, 4, 0], t1=[-1, 0, 1, 2, 1])
)
TABLE = Table(OWN, path_keys(path_words(OWN)), np.array([True, True, True, False]))
MS = 1_000_000


def arrivals(rows):
    """Probes from (path, seq, delay_ns, extra) in order of arrival; path 4 is the stranger's."""
    rows = [(*r, {})[:4] for r in rows]
    n = len(rows)
    path = np.array([r[0] for r in rows], dtype=int)
    column = lambda name, default: np.array([r[3].get(name, default) for r in rows], dtype=np.int64)  # noqa: E731
    sent = column("sent", 1000 * MS)
    return Probes(
        words=WORDS[path], key=path_keys(WORDS[path]), tick=np.full(n, 5), intact=column("intact", 1).astype(bool),
        seq=np.array([r[1] for r in rows], dtype=np.int64), train=column("train", 0), position=column("position", 0),
        train_len=column("train_len", 1), sent_ns=sent, size=column("size", 96),
        received_ns=sent + np.array([r[2] for r in rows], dtype=np.int64),
    )  # fmt: skip


def stats(rows, *, late=(), sent=(10, 10, 10, 10)):
    return tick_stats(TABLE, np.array(sent), arrivals(rows), arrivals(late))


def test_nothing_came():
    s = stats([])

    assert s.sent.tolist() == [10, 10, 10, 10]
    assert s.received.tolist() == [0, 0, 0, -1]  # the fourth ends elsewhere: not known here, and not 0
    assert (s.delay_min_ns == NO_TIME).all()
    assert np.isnan(s.train_bps).all()


def test_each_path_gets_its_own():
    s = stats([(1, 0, 3 * MS), (0, 0, MS), (1, 1, 2 * MS), (4, 0, 9 * MS)])

    assert s.received.tolist() == [1, 2, 0, -1, 1]
    assert s.sent.tolist() == [10, 10, 10, 10, -1]
    assert s.delay_min_ns.tolist() == [MS, 2 * MS, NO_TIME, NO_TIME, 9 * MS]
    assert s.paths.key()[4].tolist() == STRANGER.key()[0].tolist()


def test_order_and_repeats():
    s = stats([(1, 0, 1), (1, 2, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1), (0, 5, 1), (0, 4, 1), (0, 4, 1)])

    assert s.received[:2].tolist() == [2, 4]  # distinct probes: never more than were sent
    assert s.reordered[:2].tolist() == [1, 1]
    assert s.duplicate[:2].tolist() == [1, 1]


def test_damaged_ones_are_counted_apart_and_give_no_delay():
    s = stats([(1, 0, MS, {"intact": 0}), (1, 1, 2 * MS)])

    assert (s.received[1], s.corrupt[1], s.delay_min_ns[1]) == (1, 1, 2 * MS)
    assert s.delay_hist[1].sum() == 1


def test_late_ones_give_their_delay_only():
    s = stats([(1, 0, MS)], late=[(1, 1, 700 * MS), (2, 3, 900 * MS)])

    assert s.received.tolist() == [0, 1, 0, -1]
    assert s.delay_min_ns.tolist() == [NO_TIME, MS, 900 * MS, NO_TIME]
    assert s.delay_hist.sum(axis=1).tolist() == [0, 2, 1, 0]


def test_delays_fall_into_the_stated_bins():
    s = stats([(0, i, int(d)) for i, d in enumerate([0, 9_999, 10_000, *HIST_EDGES_NS[[5, 30]], 10**12])])

    assert np.flatnonzero(s.delay_hist[0]).tolist() == [0, 1, 6, 31]
    assert s.delay_hist[0][[0, 1, 6, 31]].tolist() == [2, 1, 1, 2]


def test_a_clock_that_was_set_gives_no_round_trip_but_one_way_has_any_sign():
    s = stats([(0, 0, -5 * MS), (4, 0, -5 * MS)])

    assert s.received[[0, 4]].tolist() == [1, 1]
    assert s.delay_min_ns[[0, 4]].tolist() == [NO_TIME, -5 * MS]


def train(path, number, times_us, positions=None):
    positions = range(len(times_us)) if positions is None else positions
    return [
        (path, 10 * number + i, t * 1000, {"train": number, "position": i, "train_len": 6, "size": 1000})
        for i, t in zip(positions, times_us, strict=True)
    ]


def test_train_rate_is_that_of_the_frames_behind_the_first():
    s = stats(train(1, 1, [0, 100, 525, 950, 1375, 1800]))  # a burst allowance, then 1062 bytes per 425 us

    assert s.train_bps[1] == pytest.approx(1062 * 8 / 425e-6)
    assert s.received[1] == 6


def test_the_best_train_counts_and_broken_ones_do_not():
    broken = train(1, 3, [0, 1, 2, 3], positions=[0, 1, 3, 4])
    short = train(1, 4, [0, 1, 2])
    tail = train(2, 5, [0, 100, 200, 300], positions=[2, 3, 4, 5])
    s = stats(train(1, 1, [0, 10, 20, 30, 40, 50]) + train(1, 2, [0, 30, 60, 90, 120, 150]) + broken + short + tail)

    assert s.train_bps[1] == pytest.approx(1062 * 8 / 10e-6)
    assert s.train_bps[2] == pytest.approx(1062 * 8 / 100e-6)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 10**9)), max_size=60), st.randoms())
def test_invariants(rows, random):
    s = stats(rows, sent=(7, 7, 7, 7))
    slow = {p: {q for r, q, _ in rows if r == p} for p in range(5)}  # the second way to the same numbers
    n = len(s)

    assert s.received[:3].tolist() == [len(slow[p]) for p in range(3)]
    assert (s.received[:3] <= s.sent[:3]).all()
    assert s.received[np.arange(n) != 3].sum() + s.duplicate.sum() == len(rows) - s_own(rows, slow)
    assert s.delay_hist.sum() == len(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)
    t = stats(shuffled, sent=(7, 7, 7, 7))
    assert (t.received == s.received).all()
    assert (t.delay_hist == s.delay_hist).all()
    assert (t.duplicate == s.duplicate).all()


def s_own(rows, slow):
    """Distinct arrivals on path 3, which is not ours to count as received."""
    return len(slow[3])


def test_only_own_paths_and_one_way_to_own_nics_belong():
    f = fabric()
    other = make_paths([3, 3, 0, 1, 3], [8, 8, 3, 0, 99], [0, 0, 0, 0, 0], dst=[0, 1, 3, 0, 0], t1=[1, 1, -1, 3, 1])
    words = np.concatenate([WORDS[:3], path_words(other)])
    probes = arrivals([(0, 0, 0)] * len(words))
    probes = Probes(**{**probes.__dict__, "words": words, "key": path_keys(words)})

    assert belongs(f, 0, TABLE, probes).tolist() == [True] * 3 + [True, False, False, False, False]
    assert PathKind.ONEWAY == 3
