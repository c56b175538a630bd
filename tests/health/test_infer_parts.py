"""Pieces of the engine against sums and formulas done by hand, and the published methods beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from infer_cases import LARGE, LARGE_NETWORK, leaf_spine, stripes, window

from railkeeper.app.bench_locate import judge
from railkeeper.health.infer import tail
from railkeeper.health.infer.baselines.factors import blame_by_factors
from railkeeper.health.infer.baselines.votes import blame_by_votes
from railkeeper.health.infer.belief import SHAPES, begin, set_shape
from railkeeper.health.infer.composites import wholes
from railkeeper.health.infer.draw import Scene
from railkeeper.health.infer.evidence import See
from railkeeper.health.infer.problem import Kind, csr
from railkeeper.health.infer.score_kernels import chance, uneven


def poisson_tail(count, mean):
    return 1.0 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count))


@pytest.mark.parametrize(("count", "mean"), [(8, 1.0), (20, 5.0), (60, 30.0)])
def test_tails_are_close_to_exact_ones(count, mean):
    sent = 1e5
    curve = count * np.log(tail.GRID) - sent * tail.GRID
    sharp = np.exp(-0.5 * (np.log(tail.GRID / (mean / sent)) / 1e-3) ** 2) + 1e-300
    nearest = tail.GRID[sharp.argmax()]
    point = (nearest == tail.GRID).astype(float)

    found = math.exp(tail.log_tail(curve, point))

    assert found == pytest.approx(poisson_tail(count, nearest * sent), rel=0.5)


def test_a_part_that_was_measured_well_is_judged_by_how_rare_its_rate_is():
    weight = tail.good_weights(tail.GRID, 1e-4, 2.0)
    curve = 1e9 * (3e-4 * np.log(tail.GRID) - tail.GRID)
    exact = (1 + 6) * math.exp(-6)

    assert math.exp(tail.log_tail(curve, weight)) == pytest.approx(exact, rel=0.4)


def test_peaks_and_intervals_between_the_points_of_the_grid():
    def curve(grid):
        return 100 * np.log(grid) - 100 / 3.3e-3 * grid

    grid = tail.near(curve(tail.GRID))
    low, high = tail.interval(curve(grid), grid)

    assert tail.peak(curve(tail.GRID)) == pytest.approx(3.3e-3, rel=0.02)
    assert tail.peak(curve(grid), grid) == pytest.approx(3.3e-3, rel=1e-3)
    assert low == pytest.approx(3.3e-3 * (1 - 0.185), rel=0.02)
    assert high == pytest.approx(3.3e-3 * (1 + 0.207), rel=0.02)


def test_a_row_of_certain_rate_is_binomial_and_of_uncertain_rate_wider():
    assert chance(10.0, 3.0, 0.5) == pytest.approx(3 * math.log(1 - math.exp(-0.5)) - 7 * 0.5)
    sure = [chance(1e4, x, 1e-3) for x in (10.0, 40.0)]
    unsure = [uneven(1e4, x, 1e-3, 1e-6) for x in (10.0, 40.0)]
    assert sure[0] - sure[1] > 5 * (unsure[0] - unsure[1])


@pytest.mark.parametrize("kind", [Kind.ONE_OF, Kind.SPRAYED])
def test_curves_of_sets_against_sums_by_hand(kind):
    problem = leaf_spine(3, 2, [(0, 1), (0, 2), (1, 2)], lambda part: 0.004 if part == 1 else 1e-5, kind, sent=900)
    belief = begin(problem)
    curve = belief.curve(1)
    by_hand = np.zeros(len(tail.GRID))
    for n, x in zip(problem.obs.sent[:2].tolist(), problem.obs.lost[:2].tolist(), strict=True):
        for k, rate in enumerate(tail.GRID):
            ways = 2 * belief.mean, belief.mean + rate
            if kind == Kind.ONE_OF:
                by_hand[k] += np.logaddexp(*(chance(n, x, way) for way in ways)) - math.log(2)
            else:
                lost = sum(1 - math.exp(-way) for way in ways) / 2
                by_hand[k] += x * math.log(lost) + (n - x) * math.log1p(-lost)

    assert curve - curve[0] == pytest.approx(by_hand - by_hand[0], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("shape", [0.5, 5.0])
def test_how_uneven_good_parts_are_is_learnt(shape):
    rng = np.random.default_rng(2)
    sent = 100_000
    belief = begin(stripes(3000, np.full(3000, sent), rng.binomial(sent, rng.gamma(shape, 1e-4 / shape, 3000))))
    set_shape(belief)

    assert belief.mean == pytest.approx(1e-4, rel=0.1)
    assert math.log((belief.shapes * SHAPES).sum() / shape) == pytest.approx(0.0, abs=0.5)


def test_rates_are_kept_up_to_date_part_by_part():
    problem, at_fault = window(Scene(links=2), 4, See.A1_P)
    belief = begin(problem)
    for part in (*at_fault, 0, 0):
        belief.put(int(part), 0.01)
    belief.clear(0)
    known, good, paths = belief.known_rate.copy(), belief.known_good.copy(), belief.path_rate.copy()
    belief.refresh()

    assert known == pytest.approx(belief.known_rate)
    assert good.tolist() == belief.known_good.tolist()
    used = np.unique(belief.book.mixed.set_path)
    assert paths[used] == pytest.approx(belief.path_rate[used])


def test_composites_need_more_than_chance():
    groups = csr([list(range(i, i + 20)) for i in range(0, 1000, 20)])
    used = np.ones(1000, dtype=bool)

    assert wholes(groups, used, [1, 2]) == []
    assert [w.composite for w in wholes(groups, used, [1, 2, 3, 4, 5])] == [0]
    assert [w.composite for w in wholes(groups, used, list(range(20)))] == [0]
    assert wholes(groups, used, [1, 50, 100, 150, 200, 250, 300, 301]) == []
    assert [w.composite for w in wholes(groups, used, [*range(6), *range(40, 49), 500])] == [2, 0]


def test_the_score():
    switches = csr([[0, 1, 2], [2, 3]])

    assert judge([], [], switches, 4) == (1.0, 1.0)
    assert judge([], [2], switches, 4) == (1.0, 0.0)
    assert judge([2, 3], [2], switches, 4) == (0.5, 1.0)
    assert judge([0, 1, 3], [4], switches, 4) == (pytest.approx(2 / 3), 0.5)
    assert judge([4], [4, 3], switches, 4) == (1.0, 0.5)


@pytest.mark.parametrize("method", [lambda p: blame_by_votes(p, 0.02), blame_by_factors])
def test_published_methods_find_one_bad_link(method):
    problem, at_fault = window(Scene(links=1, low=0.02, high=0.02), 6, See.INT, LARGE, LARGE_NETWORK)

    assert set(method(problem)) == at_fault


def test_votes_are_shared_and_taken_back():
    problem = stripes(4, np.full(4, 100), np.array([0, 3, 0, 1]))

    assert blame_by_votes(problem, 0.01) == (1, 3)
    assert blame_by_votes(problem, 0.6) == ()
