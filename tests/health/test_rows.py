"""Paths keep their numbers; tables cross parts and rows as path arithmetic does."""

from __future__ import annotations

import numpy as np
from health_worlds import small_fabric
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.fabric.paths import join_paths
from railkeeper.health.evidence import Counts, Ring
from railkeeper.health.parts import Parts
from railkeeper.health.rows import Rows, make_table
from railkeeper.probe.plan import make_plan

FABRIC = small_fabric()
PATHS = join_paths([make_plan(FABRIC, n).paths for n in range(FABRIC.n_nodes)])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, len(PATHS) - 1), min_size=1, max_size=40), min_size=1, max_size=5))
def test_a_path_keeps_its_number(batches):
    rows, known = Rows(FABRIC), {}
    for batch in batches:
        take = PATHS.take(np.array(batch))
        for path, number in zip(map(tuple, take.key().tolist()), rows.number(take).tolist(), strict=True):
            assert known.setdefault(path, number) == number
    assert len(rows) == len(known)
    assert sorted(known.values()) == list(range(len(known)))


def test_table_is_path_arithmetic():
    rows = Rows(FABRIC)
    rows.number(PATHS)
    table = make_table(rows, Parts(FABRIC).around(np.arange(FABRIC.n_links)))
    for hyp in range(0, table.n_hyps, 7):
        row, times = table.rows_of(hyp)
        count = np.isin(rows.crossed, table.parts[hyp // 3].directed(hyp % 3)).sum(axis=1)
        assert np.array_equal(np.flatnonzero(count), row)
        assert np.array_equal(count[row], times)


def test_ring_forgets_by_age_and_grows():
    ring = Ring(4, 0, np.int32)
    for value in range(1, 7):
        ring.push(2 if value < 4 else 3, np.array([0, 1]), np.array([value, value]))
    assert ring.last(4)[:, 0].tolist() == [6, 5, 4, 3]
    ring.forget(np.array([0]), newest=1, oldest=2)
    assert ring.last(4)[:, 0].tolist() == [6, 0, 0, 3]
    assert ring.last(4)[:, 2].tolist() == [0, 0, 0, 0]


def test_sums_of_windows_add_up():
    counts = Counts()
    rng = np.random.default_rng(3)
    for _ in range(20):
        counts.n.push(5, np.arange(5), rng.integers(0, 9, 5))
        counts.x.push(5, np.arange(5), rng.integers(0, 9, 5))
    whole, parts = counts.sums(0, 16), [counts.sums(0, 2), counts.sums(2, 16)]
    for i in (0, 1):
        assert np.array_equal(whole[i], parts[0][i] + parts[1][i])
