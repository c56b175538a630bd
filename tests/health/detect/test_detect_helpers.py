"""What detectors build on: screens, quantiles of peers, own past, open findings, surprise of a count."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from railkeeper.health.detect import peers, screen
from railkeeper.health.detect.past import Past, update
from railkeeper.health.detect.poisson import surprise
from railkeeper.health.detect.track import Tracker, follow
from railkeeper.health.detect.view import View
from railkeeper.telemetry.entities import Entities
from railkeeper.telemetry.frame import Block, Rates

NAN = np.nan


def column(*values):
    return np.array(values, dtype=np.float32)


def ids(*values):
    return np.array(values, dtype=np.int32)


def view_of(values, group):
    n = len(values)
    zeros = np.zeros(n, dtype=np.int32)
    entities = Entities(
        kind="port", domain=zeros.astype(np.int16), role=zeros.astype(np.int8), owner=zeros, other=zeros,
        group=np.asarray(group, dtype=np.int16), n_groups=int(max(group)) + 1, name_of=str, id_of=int,
    )  # fmt: skip
    block = Block(
        entities, np.zeros(n, dtype=np.int64), ("c",), np.array([64], dtype=np.uint8),
        np.zeros((1, n), dtype=np.uint64), (), np.zeros((0, n), dtype=np.float32),
    )  # fmt: skip
    per_s = np.asarray(values, dtype=np.float32).reshape(1, n)
    return View(0.0, 1.0, block, Rates(("c",), np.ones(n, dtype=np.float32), per_s, np.zeros((1, n), dtype=np.uint8)))


def test_above_and_below_one_limit():
    values = column(1, NAN, 3, 2, 2.5)

    assert screen.above(values, 2).tolist() == [2, 4]
    assert screen.below(values, 2).tolist() == [0]
    assert screen.above(values, NAN).tolist() == []
    assert screen.above(values, 2).dtype == np.int32


def test_above_a_limit_for_each_group():
    values, group = column(1, 5, 3, 5, NAN), np.array([0, 0, 1, 1, 0], dtype=np.int16)

    assert screen.above(values, column(0.5, 4), group).tolist() == [0, 1, 3]
    assert screen.below(values, column(2, NAN), group).tolist() == [0]


def test_quantiles_are_within_one_per_cent_of_the_exact_ones():
    chance = np.random.default_rng(1)
    values = np.concatenate([chance.lognormal(5, 3, 5000), np.zeros(300), chance.normal(-40, 10, 700)])
    group = chance.integers(0, 3, len(values))
    view = view_of(values, group)

    found = peers.quantiles(view, view.rate("c"), (0.01, 0.5, 0.9, 0.999))

    for g in range(3):
        exact = np.quantile(values[group == g], (0.01, 0.5, 0.9, 0.999), method="inverted_cdf")
        assert found[:, g] == pytest.approx(exact, rel=0.0101)


def test_too_few_peers_have_no_quantile_and_missing_values_do_not_count():
    view = view_of([1.0] * 8 + [2.0] * 8 + [NAN], [0] * 8 + [1] * 9)
    assert peers.quantiles(view, view.rate("c"), (0.5,))[0] == pytest.approx([1, 2], rel=0.0101)

    view = view_of([1.0] * 7 + [NAN] + [2.0] * 9, [0] * 8 + [1] * 9)
    assert np.isnan(peers.quantiles(view, view.rate("c"), (0.5,))[0]).tolist() == [True, False]


def test_quantiles_are_computed_once_a_tick():
    view = view_of([1.0] * 9, [0] * 9)
    first = peers.quantiles(view, view.rate("c"), (0.5,))

    assert peers.quantiles(view, view.rate("c"), (0.5,)) is first
    assert peers.quantiles(view, view.rate("c") * 2, (0.5,)) is not first
    assert peers.quantiles(view, view.rate("c") * 2, (0.5,), key="twice")[0, 0] == pytest.approx(2, rel=0.0101)


def test_past_learns_mean_spread_and_weight():
    past, chance = Past(2, half_life_s=600), np.random.default_rng(2)
    for second in range(4000):
        update(past, column(chance.normal(10, 2), NAN), second)

    assert past.mean[0] == pytest.approx(10, abs=0.4)
    assert past.spread[0] == pytest.approx(2, rel=0.15)
    assert past.weight_s[0] == pytest.approx(600 / math.log(2), rel=0.02)
    assert math.isnan(past.mean[1])
    assert past.weight_s[1] == 0


def test_past_forgets_by_half_in_a_half_life_however_it_is_sampled():
    often, seldom = Past(1, half_life_s=100), Past(1, half_life_s=100)
    for past, step in ((often, 1), (seldom, 10)):
        for second in range(0, 2000, step):
            update(past, column(0.0), second)
        for second in range(2000, 2100, step):
            update(past, column(8.0), second)

    assert often.mean[0] == pytest.approx(4, rel=0.03)
    assert seldom.mean[0] == pytest.approx(4, rel=0.03)


def test_past_does_not_learn_what_is_suspected_nor_the_same_moment_twice():
    past = Past(2, half_life_s=10)
    update(past, column(1, 1), 0)
    before = past.weight_s.copy()
    update(past, column(9, 9), 0)
    update(past, column(9, 9), -5)
    assert past.mean.tolist() == [1, 1]

    update(past, column(9, 9), 60, skip=ids(1))
    assert past.mean[0] > 8
    assert past.mean[1] == 1
    assert past.weight_s[1] == before[1]


def run(hits, need=2, hold_s=2.0, of=None, blind=()):
    """Open or not, tick by tick, for one entity; in blind ticks it hits nothing and has no data."""
    tracker, out = Tracker(), []
    for tick, hit in enumerate(hits):
        dark = ids(7) if tick in blind else None
        found, since = follow(tracker, ids(7) if hit else ids(), float(tick), need, hold_s, blind=dark, of=of)
        out.append(since[0] if len(found) else None)
    return out


def test_opens_after_enough_hits_in_a_row_and_is_held_after_the_last():
    assert run([1, 0, 1, 1, 0, 0, 0, 0]) == [None, None, None, 2, 2, 2, None, None]


def test_opens_after_enough_hits_among_the_last_ticks():
    assert run([1, 0, 1, 0, 0, 0], of=3) == [None, None, 0, 0, 0, None]


def test_a_closed_finding_needs_all_its_hits_again():
    assert run([1, 1, 0, 1, 1], hold_s=0, of=4) == [None, 0, None, None, 3]


def test_ticks_without_data_neither_hit_nor_heal():
    assert run([1, 0, 0, 1, 0, 0, 0, 0, 0], blind={1, 2, 4, 5}) == [None, None, None, 0, 0, 0, 0, 0, None]


def test_entities_without_data_can_be_a_mask():
    tracker = Tracker()
    follow(tracker, ids(3), 0, 1, 0.0)
    found, _ = follow(tracker, ids(), 5, 1, 0.0, blind=np.array([False, False, False, True]))
    assert found.tolist() == [3]


def test_many_entities_keep_their_order_and_their_values():
    tracker = Tracker()
    follow(tracker, ids(5, 9), 0, 1, 1.0, column(50, 90))
    found, since = follow(tracker, ids(2, 9), 1, 1, 1.0, column(20, 91))

    assert found.tolist() == [2, 5, 9]
    assert since.tolist() == [1, 0, 0]
    assert tracker.open_values.tolist() == [20, 50, 91]


def tail(count, expected):
    """Chance of at least count events, summed term by term in floats of 60 digits."""
    with localcontext() as context:
        context.prec = 60
        mean = Decimal(repr(expected))
        term = (-mean).exp()
        below = term if count else Decimal(0)
        for k in range(1, count):
            term *= mean / k
            below += term
        return -float((1 - below).log10())


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 0.001), (1, 1.0), (3, 0.5), (5, 5.0), (2, 9.0), (20, 4.0), (50, 60.0), (90, 60.0), (700, 600.0), (1400, 1300.0)],
)  # fmt: skip
def test_surprise_is_the_poisson_tail(count, expected):
    assert surprise(count, expected) == pytest.approx(tail(count, expected), rel=3e-3, abs=1e-9)


def test_surprise_at_the_edges():
    assert surprise([0, 0.4, 1, NAN, 2], [5, 5, 0, 1, NAN]).tolist() == pytest.approx(
        [0, 0, np.inf, NAN, NAN], nan_ok=True
    )
    assert surprise(1e9, 9.99e8) > 100
    assert surprise(9.99e8, 1e9) == pytest.approx(0, abs=1e-3)
    assert np.isfinite(surprise(1e12, 1e-6))
    assert surprise(np.ones((2, 3)), 1.0).shape == (2, 3)
