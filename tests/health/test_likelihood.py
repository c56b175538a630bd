"""The likelihood against plain loops, and the greedy explanation against all sets of parts of a tiny fabric."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import PathKind, join_paths, links_crossed, make_paths
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.likelihood import Scorer, fit, with_interval
from railkeeper.health.parts import Parts
from railkeeper.health.rows import Rows, make_table
from railkeeper.health.soft import Window, explain

TINY = Fabric(parse_spec("[fabric]\nplanes = 1\nt0_per_plane = 2\nt1_per_plane = 2\nnics_per_t0 = 2\n"))


def tiny_paths():
    nics, t1s = np.arange(4), np.arange(2)
    pairs = [(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2]
    return join_paths(
        [
            make_paths(PathKind.T0_BOUNCE, nics, 0),
            make_paths(PathKind.T1_BOUNCE, np.repeat(nics, 2), 0, t1=np.tile(t1s, 4)),
            make_paths(
                PathKind.FAR_BOUNCE,
                np.repeat(nics, 2),
                0,
                t1=np.tile(t1s, 4),
                far=np.repeat(1 - nics // 2, 2),
                back=1 - np.tile(t1s, 4),
            ),
            make_paths(
                PathKind.ONEWAY,
                np.repeat([a for a, _ in pairs], 2),
                0,
                dst=np.repeat([b for _, b in pairs], 2),
                t1=np.tile(t1s, len(pairs)),
            ),
        ]
    )


def tiny_table():
    rows = Rows(TINY)
    rows.number(tiny_paths())
    parts = Parts(TINY).around(np.arange(TINY.n_links))
    return rows, make_table(rows, parts)


ROWS, TABLE = tiny_table()


def plain_log_likelihood(n, x, faults, background):
    """The whole log-likelihood of counts when (directed links, rate) fail: a loop over rows, nothing shared."""
    crossed = links_crossed(TINY, tiny_paths())
    total = 0.0
    for i in range(len(n)):
        through = 1 - background
        for links, rate in faults:
            through *= (1 - rate) ** sum(1 for d in crossed[i] if d in links)
        total += x[i] * math.log(1 - through) + (n[i] - x[i]) * math.log(through)
    return total


def directed(hyp):
    return set(TABLE.parts[hyp // 3].directed(hyp % 3).tolist())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, TABLE.n_hyps - 1), st.floats(0.002, 0.9))
def test_score_and_fit_are_the_likelihood(seed, hyp, rate):
    rng = np.random.default_rng(seed)
    crossed = np.isin(ROWS.crossed, list(directed(hyp))).sum(axis=1)
    n = rng.integers(1, 60, len(ROWS)).astype(np.int64)
    x = rng.binomial(n, 1 - 0.999 * (1 - rate) ** crossed).astype(np.int64)
    row, times = TABLE.rows_of(hyp)
    survive = np.full(len(ROWS), 0.999)
    found = fit(n[row].astype(float), x[row].astype(float), survive[row], times)
    nothing = plain_log_likelihood(n, x, [], 1e-3)
    grid = 1 / (1 + np.exp(-np.linspace(-9, 7, 300)))
    plain = max(plain_log_likelihood(n, x, [(directed(hyp), r)], 1e-3) - nothing for r in grid)
    assert found.llr == pytest.approx(max(plain, 0.0), rel=0.01, abs=0.1)
    assert Scorer(TABLE, n, x).score(survive)[hyp] == pytest.approx(found.llr, rel=0.02, abs=0.2)
    assert sum(t for t in times) == crossed.sum()


def test_interval_covers_the_rate_as_often_as_it_says():
    rng, covered = np.random.default_rng(1), 0
    times, survive = np.array([1.0, 2.0]), np.full(2, 1 - 1e-5)
    for _ in range(300):
        n = np.array([500.0, 1000.0])
        x = rng.binomial(n.astype(int), 1 - (1 - 0.02) ** times).astype(float)
        f = with_interval(fit(n, x, survive, times), n, x, survive, times)
        covered += f.low <= 0.02 <= f.high
    assert 0.91 <= covered / 300 <= 0.985


def all_sets(n, x, background, most):
    """Score every set of up to `most` parts, rates on a grid: the slow second way."""
    grid = (0.02, 0.05, 0.1, 0.2, 0.4)
    nothing = plain_log_likelihood(n, x, [], background)
    best, best_score = (), 0.0
    for size in range(1, most + 1):
        for hyps in itertools.combinations(range(TABLE.n_hyps), size):
            if len({h // 3 for h in hyps}) < size:
                continue
            crossed = [np.isin(ROWS.crossed, list(directed(h))).sum(axis=1) for h in hyps]
            for rates in itertools.product(grid, repeat=size):
                through = np.full(len(n), 1 - background)
                for c, r in zip(crossed, rates, strict=True):
                    through *= (1 - r) ** c
                score = float((x * np.log(1 - through) + (n - x) * np.log(through)).sum()) - nothing - 10.0 * size
                if score > best_score:
                    best, best_score = hyps, score
    return {h // 3 for h in best}


@pytest.mark.parametrize("seed", range(6))
def test_greedy_explanation_is_the_best_of_all_sets(seed):
    rng = np.random.default_rng(seed)
    true = rng.choice(len(TABLE.parts), size=1 + seed % 2, replace=False)
    through = np.full(len(ROWS), 1 - 1e-4)
    for part in true:
        hyp = 3 * int(part) + int(rng.integers(3))
        through *= (1 - rng.choice([0.05, 0.1, 0.2])) ** np.isin(ROWS.crossed, list(directed(hyp))).sum(axis=1)
    n = np.full(len(ROWS), 400, dtype=np.int64)
    x = rng.binomial(n, 1 - through).astype(np.int64)
    window = Window(TABLE, n, x, np.ones(len(ROWS)), 1e-4)
    assert {h // 3 for h in explain(window, 15.0)} == all_sets(n, x, 1e-4, 2)


def test_two_links_of_a_switch_are_not_the_switch_and_four_are():
    fabric = Fabric(parse_spec("[fabric]\nplanes = 1\nt0_per_plane = 4\nt1_per_plane = 2\nnics_per_t0 = 2\n"))
    nics = np.arange(fabric.n_nics)
    rows = Rows(fabric)
    rows.number(make_paths(PathKind.T1_BOUNCE, np.repeat(nics, 2), 0, t1=np.tile([0, 1], len(nics))))
    table = make_table(rows, Parts(fabric).around(np.arange(fabric.n_links)))
    for bad in ((0, 1), (0, 1, 2, 3)):
        links = fabric.fabric_link(np.array(bad), 0)
        lossy = np.isin(rows.crossed // 2, links).any(axis=1)
        n = np.full(len(rows), 1000, dtype=np.int64)
        window = Window(table, n, np.where(lossy, 80, 0).astype(np.int64), np.ones(len(rows)), 1e-5)
        found = [table.parts[h // 3].component.kind.name for h in explain(window, 20.0)]
        assert found == (["LINK", "LINK"] if len(bad) == 2 else ["T1"])
