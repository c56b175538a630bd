"""Likelihood in a neighbourhood against plain evaluation over a grid of rates, and against all pairs of parts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from health_worlds import small_fabric
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.health.fleet.plan_index import index_paths
from railkeeper.health.fleet.solve import Counted, explain, neighbourhood, rate_of
from railkeeper.health.fleet.space import PartSpace
from railkeeper.probe.plan_all import all_paths

FABRIC = small_fabric()
SPACE = PartSpace(FABRIC)
INDEX = index_paths(FABRIC, all_paths(FABRIC))
PARTS = np.unique(SPACE.parts_of_link[SPACE.parts_of_link >= 0]).astype(np.int64)
ROWS = np.arange(len(INDEX))
HOOD = neighbourhood(INDEX, SPACE, PARTS, ROWS, np.full(SPACE.n_parts, -1, dtype=np.int32))
BACKGROUND = 1e-5


def _draw(rng, hyps, rates, n=200):
    """Counts of rows that cross failing hypotheses."""
    survive = np.full(len(ROWS), 1 - BACKGROUND)
    for hyp, rate in zip(hyps, rates, strict=True):
        row, times = HOOD.rows_of(hyp)
        survive[row] *= (1 - rate) ** times
    sent = np.full(len(ROWS), float(n))
    return sent, rng.binomial(n, 1 - survive).astype(float)


def _gain(n, x, hyps, rates):
    """Log-likelihood of some failing hypotheses over none, row by row, as the model says it."""
    survive = np.full(len(n), 1 - BACKGROUND)
    for hyp, rate in zip(hyps, rates, strict=True):
        row, times = HOOD.rows_of(hyp)
        survive[row] *= (1 - rate) ** times
    none = 1 - BACKGROUND
    survive = np.clip(survive, 1e-300, 1 - 1e-15)
    return float((x * np.log((1 - survive) / (1 - none)) + (n - x) * np.log(survive / none)).sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.01, 0.2, 1.0]))
def test_each_score_is_the_best_of_a_grid_of_rates(seed, rate):
    rng = np.random.default_rng(seed)
    hyp = int(rng.integers(HOOD.n_hyps))
    n, x = _draw(rng, [hyp], [rate])
    counted = Counted(HOOD, n, x, np.full(len(ROWS), 1 - BACKGROUND))
    grid = 1 - np.exp(-np.geomspace(1e-6, 16.0, 400))
    for h in {hyp, *rng.integers(HOOD.n_hyps, size=5).tolist()}:
        best = max(0.0, *(_gain(n, x, [h], [r]) for r in grid))
        assert counted.llr[h] >= best - 1e-6 * max(best, 1.0)
        assert counted.llr[h] <= best + 0.02 * max(best, 1.0)
        if counted.llr[h] > 0:
            assert abs(_gain(n, x, [h], [1 - np.exp(-counted.u[h])]) - counted.llr[h]) <= 1e-6 * max(best, 1.0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_two_faults_are_explained_as_well_as_by_any_pair_of_parts(seed):
    rng = np.random.default_rng(seed)
    two = rng.choice(len(PARTS), 2, replace=False)
    hyps = [3 * int(p) + int(rng.integers(3)) for p in two]
    rates = rng.choice([0.02, 0.1, 1.0], 2)
    n, x = _draw(rng, hyps, rates)
    found = explain(Counted(HOOD, n, x, np.full(len(ROWS), 1 - BACKGROUND)), 20.0)
    mine = _gain(n, x, [s.hyp for s in found], [rate_of(s.u) for s in found]) - 10.0 * len(found)
    truth = _gain(n, x, hyps, rates) - 20.0
    assert mine >= truth - 0.01 * abs(truth) - 6.0


def test_brute_force_over_pairs_finds_no_better_pair():
    rng = np.random.default_rng(7)
    few = [3 * p + 2 for p in range(0, len(PARTS), 3)]
    hyps = [few[4], few[17]]
    n, x = _draw(rng, hyps, [0.05, 0.1])
    found = explain(Counted(HOOD, n, x, np.full(len(ROWS), 1 - BACKGROUND)), 20.0)
    mine = _gain(n, x, [s.hyp for s in found], [rate_of(s.u) for s in found]) - 10.0 * len(found)
    rates = (0.03, 0.05, 0.07, 0.1, 0.15)
    best = max(_gain(n, x, pair, (a, b)) for pair in combinations(few, 2) for a in rates for b in rates) - 20.0
    assert mine >= best - 1.0


def test_a_port_and_its_link_are_one_part_and_rows_that_no_other_part_shares_leave_no_rival():
    rng = np.random.default_rng(3)
    hyp = 3 * int(np.flatnonzero(FABRIC.n_ports + 5 == PARTS)[0]) + 0
    n, x = _draw(rng, [hyp], [0.05], n=500)
    (suspect,) = explain(Counted(HOOD, n, x, np.full(len(ROWS), 1 - BACKGROUND)), 20.0)
    assert (suspect.part, suspect.direction, suspect.rivals) == (FABRIC.n_ports + 5, 0, ())
    assert abs(rate_of(suspect.u) - 0.05) < 0.01
