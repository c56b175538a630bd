"""The engine names what is at fault, says what it can't tell apart, and is silent when nothing is wrong."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from infer_cases import LARGE, LARGE_NETWORK, NETWORK, leaf_spine, rows, stripes, window

from railkeeper.base.errors import InputError
from railkeeper.health.infer.draw import Scene
from railkeeper.health.infer.engine import infer
from railkeeper.health.infer.evidence import See
from railkeeper.health.infer.problem import EMPTY, Config, Kind, Problem, csr, known

MODES = [See.INT, See.A2, See.A1_P, See.A1_A2_P]


def named(problem):
    return {blame.component for blame in infer(problem)}


@pytest.mark.parametrize("see", MODES)
def test_one_link_of_a_fat_tree(see):
    for seed in range(2):
        problem, at_fault = window(Scene(links=1, low=0.01, high=0.02), seed, see)
        assert named(problem) == at_fault


def test_several_links_of_a_large_one():
    problem, at_fault = window(Scene(links=4, skewed=True), 11, See.INT, LARGE, LARGE_NETWORK)

    assert named(problem) == at_fault


@pytest.mark.parametrize("skewed", [False, True])
def test_silence_when_nothing_is_wrong(skewed):
    for seed in range(4):
        problem, _ = window(Scene(skewed=skewed), seed, See.INT, LARGE, LARGE_NETWORK)
        assert infer(problem) == ()


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_switch_is_named_as_one(share):
    problem, at_fault = window(Scene(switches=1, share=share), 3, See.INT, LARGE, LARGE_NETWORK)

    assert named(problem) == at_fault
    assert min(at_fault) >= LARGE_NETWORK.n_links


def test_a_switch_that_takes_most_of_the_traffic():
    parts, busy = 200, 20
    sent = np.where(np.arange(parts) < busy, 2_000_000, 20_000)
    lost = np.where(np.arange(parts) < busy, sent // 70, 1)
    lost[3] = 4
    groups = csr([list(range(i, i + 20)) for i in range(0, parts, 20)])

    assert named(dataclasses.replace(stripes(parts, sent, lost), composites=groups)) == {parts}


def test_two_links_of_a_switch_are_two_links():
    sent = np.full(200, 20_000)
    lost = np.ones(200, dtype=np.int64)
    lost[[3, 4]] = 400
    problem = dataclasses.replace(
        stripes(200, sent, lost), composites=csr([list(range(i, i + 20)) for i in range(0, 200, 20)])
    )

    assert named(problem) == {3, 4}


def test_rates_have_intervals_that_hold_them():
    problem = stripes(100, np.full(100, 50_000), np.where(np.arange(100) == 7, 500, 2))

    (blame,) = infer(problem)

    assert blame.component == 7
    assert blame.rate_low < 0.01 < blame.rate_high
    assert 0.008 < blame.rate_low < blame.rate < blame.rate_high < 0.012
    assert blame.confidence > 0.99


def test_a_black_hole():
    problem = stripes(50, np.full(50, 1000), np.where(np.arange(50) == 7, 1000, 0))

    (blame,) = infer(problem)

    assert blame.component == 7
    assert blame.rate > 0.99


def test_uneven_good_parts_raise_no_alarm():
    rng = np.random.default_rng(4)
    rates = rng.gamma(0.5, 1e-4, 2000)

    assert infer(stripes(2000, np.full(2000, 200_000), rng.binomial(200_000, rates))) == ()


def test_parts_with_the_same_evidence_are_named_together():
    ring = [(i, (i + 1) % 6) for i in range(6)]
    problem = leaf_spine(6, 4, ring, lambda part: 0.005 if part == 5 else 2e-5, Kind.KNOWN)

    (blame,) = infer(problem)

    assert {blame.component, *blame.indistinguishable} == {5, 24 + 2 * 4 + 1}
    assert blame.component == 5
    assert blame.confidence == pytest.approx(0.5, abs=0.01)


def test_spraying_names_the_leaf_side():
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    problem = leaf_spine(5, 4, pairs, lambda part: 0.01 if part == 6 else 2e-5, Kind.SPRAYED)

    (blame,) = infer(problem)

    assert {blame.component, *blame.indistinguishable} == {4, 5, 6, 7}
    assert blame.rate == pytest.approx(0.01, rel=0.2)


def test_only_lossy_rows_without_knowing_what_else_was_possible():
    others = 60
    paths = csr([[0, 1], [0, 2], [0, 3], *([4 + i, 70 + i % 7] for i in range(others))])
    obs = rows(Kind.LOSSY_ONLY, range(3 + others), [5000] * (3 + others), [50, 60, 40, *[1] * others])

    assert named(Problem(80, paths, obs)) == {0}


def test_other_evidence_counts():
    sent, lost = np.full(300, 20_000), np.full(300, 1)
    lost[9] = 6
    problem = stripes(300, sent, lost)
    odds = np.zeros(300)
    odds[9] = 8.0

    assert named(problem) == set()
    assert named(dataclasses.replace(problem, log_odds=odds)) == {9}


def test_no_observations():
    assert infer(Problem(3, csr([[0, 1], [2]]), known(np.zeros(0, int), np.zeros(0, int), np.zeros(0, int)))) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lost": [9, 0]}, "9 lost of 8"),
        ({"route": [0, 5]}, "no route 5"),
        ({"kind": [1, 0]}, "no route 0"),
        ({"ends": [[0, 9], [0, 1]]}, "ends"),
        ({"sent": [8]}, "columns"),
    ],
)
def test_what_does_not_fit_is_named(change, said):
    obs = known(np.array([0, 1]), np.array([8, 8]), np.array([0, 1]))
    change = {k: np.array(v, dtype=getattr(obs, k).dtype) for k, v in change.items()}
    problem = Problem(3, csr([[0, 1], [2]]), dataclasses.replace(obs, **change), EMPTY)

    with pytest.raises(InputError, match=said):
        infer(problem)


@pytest.mark.parametrize("rate", [0.0, 1.0, math.nan])
def test_a_rate_of_false_alarms_is_a_rate(rate):
    with pytest.raises(InputError):
        Config(false_alarms_per_window=rate)


def test_the_same_answer_every_time():
    problem, _ = window(Scene(links=3), 5)

    assert infer(problem) == infer(problem)
    assert NETWORK.n_links == problem.n_parts
