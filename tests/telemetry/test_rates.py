"""Counters to rates: the scripts, the reference in plain integers, and what must hold for any series."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rates_reference import Entity
from rates_script import every_case

from railkeeper.telemetry import rates
from railkeeper.telemetry.entities import Entities
from railkeeper.telemetry.frame import ABSENT, FLAG_NAMES, GAP, NO_TIME, OK, RESET, WRAPPED, Block
from railkeeper.telemetry.rates_ceilings import ceilings

CASES = every_case()


def entities(n, kind="port"):
    zeros = np.zeros(n, dtype=np.int32)
    return Entities(
        kind=kind, domain=zeros.astype(np.int16), role=zeros.astype(np.int8), owner=zeros, other=zeros,
        group=zeros.astype(np.int16), n_groups=1, name_of=str, id_of=int,
    )  # fmt: skip


def block(times_ns, counters, names=None, widths=None, gbps=None):
    counters = np.asarray(counters, dtype=np.uint64)
    k, n = counters.shape
    gauges = np.full((1, n), np.nan if gbps is None else gbps, dtype=np.float32)
    return Block(
        entities(n), np.asarray(times_ns, dtype=np.int64), tuple(names or (f"c{c}" for c in range(k))),
        np.asarray(widths or [64] * k, dtype=np.uint8), counters, ("speed_gbps",), gauges,
    )  # fmt: skip


def shown(flags_and_rates):
    return [(FLAG_NAMES[flag], rate) for flag, rate in flags_and_rates]


def same(found, wanted):
    assert [f for f, _ in shown(found)] == [w for w, _ in shown(wanted)]
    assert [f for _, f in found] == pytest.approx([w for _, w in wanted], rel=1e-6, nan_ok=True)


def run(case, take):
    """What is said of each point of each column of a case."""
    out = {name: [] for name in case.columns}
    for i, t_ns in enumerate(case.times_ns):
        for name, said in zip(out, take(t_ns, [rows["value"][i] for rows in case.columns.values()]), strict=True):
            out[name].append(said)
    return out


def names_of(case):
    return [case.settings.get("signal", name) for name in case.columns]


def config_of(case):
    return rates.RatesConfig(float(case.settings.get("gap", 25)), float(case.settings.get("back", 60)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_cases(case):
    state, widths = rates.new(1, config_of(case)), [case.width] * len(case.columns)
    gbps = float(case.settings["gbps"]) if "gbps" in case.settings else None

    def take(t_ns, values):
        found = rates.rates_of(state, block([t_ns], [[v] for v in values], names_of(case), widths, gbps))
        return [(int(f), float(r)) for f, r in zip(found.flags[:, 0], found.per_s[:, 0], strict=True)]

    for name, said in run(case, take).items():
        same(said, list(zip(case.columns[name]["flag"], case.columns[name]["rate"], strict=True)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_reference_agrees_with_the_cases(case):
    most = list(zip(*ceilings("port", names_of(case), float(case.settings.get("gbps", 0))), strict=True))
    config = config_of(case)
    one = Entity([case.width] * len(most), most, config.gap_s, config.back_s)

    for name, said in run(case, one.take).items():
        same(said, list(zip(case.columns[name]["flag"], case.columns[name]["rate"], strict=True)))


def test_there_are_enough_cases_and_no_two_alike():
    assert len(CASES) >= 60
    assert len({c.name for c in CASES}) == len(CASES)
    assert len({(str(c.settings), str(c.times_ns), str(c.columns)) for c in CASES}) == len(CASES)
    assert {f for c in CASES for rows in c.columns.values() for f in rows["flag"]} == set(range(len(FLAG_NAMES)))


SECONDS = st.one_of(st.just(NO_TIME), st.integers(0, 40).map(lambda s: s * 5 * 10**9), st.integers(10**12, 10**12 + 9))
VALUES = st.one_of(
    st.integers(0, 50), st.integers(0, 2**32 + 5), st.integers(2**32 - 30, 2**32), st.integers(2**64 - 30, 2**64 - 1),
    st.just(ABSENT), st.integers(0, 2**64 - 1),
)  # fmt: skip
COLUMNS = (("rx_bytes", 32), ("rx_bytes2", 32), ("tx_bytes", 64), ("rx_crc_errors", 64))


@st.composite
def telemetry(draw):
    """Ticks of (times (n,), values (k, n)), and which columns are in each."""
    n = draw(st.integers(1, 3))
    ticks = draw(st.integers(1, 8))
    at = st.lists(SECONDS, min_size=n, max_size=n)
    row = st.lists(VALUES, min_size=n, max_size=n)
    columns = st.lists(st.integers(0, 3), unique=True, max_size=4)
    fixed = draw(st.one_of(st.none(), columns))
    out = []
    for _ in range(ticks):
        mine = fixed if fixed is not None else draw(columns)
        out.append((draw(at), mine, [draw(row) for _ in mine]))
    return n, out


@settings(max_examples=400, deadline=None)
@given(telemetry())
def test_the_compiled_pass_says_what_the_reference_says(told):
    n, ticks = told
    state = rates.new(n, rates.RatesConfig(25.0))
    most = list(zip(*ceilings("port", [name for name, _ in COLUMNS], 100.0), strict=True))
    ones = [Entity([w for _, w in COLUMNS], most) for _ in range(n)]
    for times, mine, values in ticks:
        counters = np.array(values, dtype=np.uint64).reshape(len(mine), n)
        names, widths = [COLUMNS[c][0] for c in mine], [COLUMNS[c][1] for c in mine]
        found = rates.rates_of(state, block(times, counters, names, widths, 100.0))
        for i, one in enumerate(ones):
            every = [ABSENT] * len(COLUMNS)
            for c, row in zip(mine, values, strict=True):
                every[c] = row[i]
            said = one.take(times[i], every)
            same(
                list(zip(found.flags[:, i].tolist(), found.per_s[:, i].tolist(), strict=True)), [said[c] for c in mine]
            )


@settings(max_examples=200, deadline=None)
@given(
    start=st.integers(0, 2**32 - 2), width=st.sampled_from([32, 64]),
    grown=st.lists(st.integers(0, 2**16), min_size=2, max_size=30),
    lost=st.sets(st.integers(0, 29)), again=st.sets(st.integers(0, 29)), order=st.randoms(use_true_random=False),
)  # fmt: skip
def test_growth_is_counted_once_whatever_is_lost_doubled_or_late(start, width, grown, lost, again, order):
    """The sum of what was counted is the last sample that stands minus the first."""
    true, points = start, []
    for tick, more in enumerate(grown):
        true += more
        value = ABSENT if tick in lost else true % 2**width
        points += [(tick * 2 * 10**9, value, true)] * (2 if tick in again else 1)
    late = [(p[0] + order.choice([0, 0, 7 * 10**9]), p) for p in points]
    points = [p for _, p in sorted(late, key=lambda pair: pair[0])]

    state, total, stands, latest = rates.new(1, rates.RatesConfig(5.0)), 0, [], 0
    for t_ns, value, real in points:
        found = rates.rates_of(state, block([t_ns], [[value]], widths=[width]))
        flag, rate = int(found.flags[0, 0]), float(found.per_s[0, 0])
        assert flag != RESET
        if flag in (OK, WRAPPED, GAP):
            total += round(rate * (t_ns - stands[-1][0]) / 1e9)
        # what comes first must not be late
        if value not in (ABSENT, 2**width - 1) and (t_ns > stands[-1][0] if stands else t_ns >= latest):
            stands.append((t_ns, real))
        latest = max(latest, t_ns)

    assert total == (stands[-1][1] - stands[0][1] if stands else 0)


def test_intervals_are_those_of_each_entity():
    state = rates.new(3, rates.RatesConfig(25.0))
    rates.rates_of(state, block([0, 0, NO_TIME], [[0, 0, 0]]))
    found = rates.rates_of(state, block([10**10, 2 * 10**10, 0], [[0, 0, 0]]))

    assert found.dt_s.tolist() == pytest.approx([10, 20, math.nan], nan_ok=True)


def test_many_entities_over_several_pieces_of_work():
    n = 10_000
    state, start = rates.new(n, rates.RatesConfig(25.0)), np.arange(n, dtype=np.uint64)
    rates.rates_of(state, block(np.zeros(n), [start, start]))
    now = np.array([start * 3, start])
    now[1, 9_999] = ABSENT
    found = rates.rates_of(state, block(np.full(n, 10**10), now))

    assert found.per_s[0] == pytest.approx(np.arange(n) * 0.2)
    assert np.flatnonzero(np.isnan(found.per_s[1])).tolist() == [9_999]
    found = rates.rates_of(state, block(np.full(n, 2 * 10**10), [start * 3, start + np.uint64(20)]))
    assert found.per_s[1, 9_998:].tolist() == [2, 1]


def test_a_column_that_was_away_goes_on_from_its_last_sample():
    state = rates.new(1, rates.RatesConfig(25.0))
    rates.rates_of(state, block([0], [[0], [100]], ["a", "b"]))
    rates.rates_of(state, block([10**10], [[5]], ["a"]))
    found = rates.rates_of(state, block([2 * 10**10], [[160], [15]], ["b", "a"]))

    assert found.names == ("b", "a")
    assert found.per_s[:, 0].tolist() == [3, 1]


def test_ticks_do_not_change_what_they_are_given():
    given_block = block([0, 10], [[1, 2]])
    before = given_block.counters.copy()
    state = rates.new(2, rates.RatesConfig(25.0))
    rates.rates_of(state, given_block)
    rates.rates_of(state, block([10**10, 10**10], [[5, 5]]))

    assert (given_block.counters == before).all()


def test_columns_have_times_of_their_own():
    state = rates.new(2, rates.RatesConfig(25.0))

    def tick(fast_s, slow_s, fast, slow):
        times = np.array([[fast_s] * 2, [slow_s] * 2], dtype=np.int64) * 10**9
        given_block = replace(block(times[0], [fast, slow]), times=times, time_of=np.array([0, 1], dtype=np.int32))
        found = rates.rates_of(state, given_block)
        return found.per_s.tolist(), [[FLAG_NAMES[f] for f in row] for row in found.flags]

    tick(10, 5, [0, 0], [0, 0])
    assert tick(20, 5, [10, 20], [0, 0])[0][0] == [1, 2]
    per_s, flags = tick(30, 25, [20, 40], [100, 20])

    assert per_s == [[1, 2], [5, 1]]
    assert flags[1] == ["ok", "ok"]
    assert tick(40, 25, [20, 40], [100, 20])[1][1] == ["duplicate", "duplicate"]


def test_values_have_widths_of_their_own_and_another_source_begins_anew():
    state = rates.new(2, rates.RatesConfig(25.0))
    widths = np.array([[32, 64]], dtype=np.uint8)
    rates.rates_of(state, replace(block([0, 0], [[2**32 - 10, 2**32 - 10]]), widths_at=widths))
    found = rates.rates_of(state, replace(block([10**10] * 2, [[10, 10]]), widths_at=widths))
    assert [FLAG_NAMES[f] for f in found.flags[0]] == ["wrapped", "reset"]

    anew = np.array([[0, 1]], dtype=np.int32)
    found = rates.rates_of(state, replace(block([2 * 10**10] * 2, [[20, 20]]), widths_at=widths, anew=anew))
    assert [FLAG_NAMES[f] for f in found.flags[0]] == ["ok", "first"]
