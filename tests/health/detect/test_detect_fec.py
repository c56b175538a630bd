"""FEC: arithmetic, margin and its drift, codewords lost and foretold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from physical_worlds import World

from railkeeper.health.detect.fec_arithmetic import by_chance, foretold
from railkeeper.health.detect.fec_codewords import FecCodewords
from railkeeper.health.detect.fec_margin import FecMargin
from railkeeper.health.detect.finding import V_NO_DATA, V_OK

LINE = 400e9


# ---- arithmetic -----------------------------------------------------------------------------------------------------
@given(st.floats(1e-3, 3.0), st.integers(2, 15))
def test_lone_errors_are_poisson(mean, least):
    below = sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(least))

    assert by_chance(np.array([mean]), least)[0] == pytest.approx(1 - below, rel=1e-6, abs=1e-12)


@given(st.floats(-1.5, -0.1), st.floats(0, 6))
def test_a_straight_tail_is_carried_on(slope, start):
    bins = 10.0 ** (start + slope * np.arange(16))[:, None]
    found, lost = foretold(bins, 8)

    assert found[0] == pytest.approx(slope, abs=1e-6)
    assert lost[0] == pytest.approx(sum(10.0 ** (start + slope * k) for k in range(16, 21)), rel=1e-6)


def test_one_bin_foretells_nothing():
    bins = np.zeros((16, 1))
    bins[10] = 5
    slope, lost = foretold(bins, 8)

    assert np.isnan(slope[0])
    assert np.isnan(lost[0])


# ---- margin ---------------------------------------------------------------------------------------------------------
def margin(ber=1e-7, **parameters):
    w = World(
        FecMargin(),
        ports={"fec_corrected_bits": ber * LINE, "rx_bits": LINE},
        gauges={"oper_up": 1},
        parameters=parameters,
    )
    spread = np.random.default_rng(1).normal(0, 0.2, len(w.ports.entities))
    w.ports.per_s["fec_corrected_bits"] *= 10**spread
    return w


def test_a_healthy_fleet_is_ok():
    w = margin()

    assert w.tick(30) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(
    ("ber", "verdict", "against"), [(2e-4, "degraded", "peers"), (5e-4, "failed", "peers"), (2e-5, "degraded", "peers")]
)
def test_a_bad_port_among_good_peers(ber, verdict, against):
    w = margin()
    w.tick(2)
    w.ports.per_s["fec_corrected_bits"][10] = ber * LINE
    (finding,) = w.tick(3)

    assert (finding.entity, finding.others) == (10, (11,))
    assert finding.value == pytest.approx(ber, rel=0.01)
    assert (finding.verdict, finding.against) == (verdict, against)
    assert "peers" in " ".join(finding.evidence)


def test_a_whole_group_over_the_limit_is_against_the_limit():
    w = margin(ber=1.5e-4)

    assert {f.against for f in w.tick(5)} == {"limit"}


def test_many_times_worse_than_peers_and_still_harmless_is_ok():
    w = margin(ber=1e-12)
    w.ports.per_s["fec_corrected_bits"][10] = 1e-8 * LINE

    assert w.tick(5) == []


def test_a_drift_against_own_past_is_seen():
    w = margin(past_least_s=600)
    w.tick(60)
    w.ports.per_s["fec_corrected_bits"][10] *= 20
    found = w.tick(4)

    assert [f.entity for f in found] == [10]
    assert found[0].against == "past"


def test_a_drift_that_all_peers_share_blames_nobody():
    w = margin(past_least_s=600)
    w.tick(60)
    w.ports.per_s["fec_corrected_bits"] *= 20

    assert w.tick(4) == []


def test_the_ratio_follows_the_speed_where_bits_are_not_counted():
    w = World(FecMargin(), ports={"fec_corrected_bits": 1e-7 * LINE}, gauges={"speed_gbps": 400})
    w.ports.per_s["fec_corrected_bits"][3] = 3e-4 * LINE * 1.0625
    (finding,) = w.tick(5)

    assert finding.value == pytest.approx(3e-4, rel=0.01)


def test_the_device_s_own_ratio_serves_where_nothing_is_counted():
    w = World(FecMargin(), gauges={"pre_fec_ber": 1e-8})
    w.ports.gauge["pre_fec_ber"][3] = 3e-4

    assert [f.entity for f in w.tick(5)] == [3]


def test_no_data_is_not_ok_and_a_link_that_trains_is_not_judged():
    w = margin()
    w.ports.absent["fec_corrected_bits"] = [0]
    w.ports.gauge["oper_up"][4] = 0
    w.ports.per_s["fec_corrected_bits"][4] = 0.01 * LINE

    assert w.tick(5) == []
    assert (w.verdicts()[[0, 4]] == V_NO_DATA).all()


def test_without_any_column_all_is_no_data():
    w = World(FecMargin())
    w.tick(3)

    assert (w.verdicts() == V_NO_DATA).all()


# ---- codewords ------------------------------------------------------------------------------------------------------
def histogram(mean=0.02, codewords=7.8e7):
    return {f"fec_bin_codewords[{k}]": codewords * math.exp(-mean) * mean**k / math.factorial(k) for k in range(16)}


def codewords(**more):
    ports = {"fec_uncorrected_codewords": 0, "link_downs": 0} | histogram() | more
    return World(FecCodewords(), ports=ports, gauges={"oper_up": 1})


def burst(w, port, decades=-0.3, at_8=1000.0):
    for k in range(8, 16):
        w.ports.per_s[f"fec_bin_codewords[{k}]"][port] = at_8 * 10 ** (decades * (k - 8))


def test_codewords_healthy():
    w = codewords(fec_uncorrected_codewords=5e-5)

    assert w.tick(200) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(("rate", "verdict"), [(1, "degraded"), (500, "failed")])
def test_lost_codewords_are_told(rate, verdict):
    w = codewords()
    w.tick(2)
    w.ports.per_s["fec_uncorrected_codewords"][5] = rate
    (finding,) = w.tick(3)

    assert (finding.entity, finding.others, finding.verdict) == (5, (4,), verdict)
    assert "loses none" in " ".join(finding.evidence)


def test_full_last_bins_foretell():
    w = codewords()
    w.tick(2)
    burst(w, 7)
    (finding,) = w.tick(3)

    assert finding.entity == 7
    assert finding.signal == "fec_bin_codewords[15]"
    assert "-0.30 decades" in finding.evidence[0]


def test_more_lone_errors_fill_the_first_bins_only_and_are_not_told():
    w = codewords()
    for name, rate in histogram(mean=0.4).items():
        w.ports.per_s[name][7] = rate

    assert w.tick(10) == []


def test_a_steep_tail_foretells_nothing_that_matters():
    w = codewords()
    burst(w, 7, decades=-2.0)

    assert w.tick(10) == []


def test_a_link_that_trains_counts_nonsense():
    w = codewords()
    w.tick(2)
    w.ports.per_s["fec_uncorrected_codewords"][5] = 1e6
    w.ports.gauge["oper_up"][5] = 0
    assert w.tick(4) == []
    w.ports.gauge["oper_up"][5] = 1
    w.ports.per_s["link_downs"][5] = 1 / 15

    assert w.tick(4) == []


def test_codewords_missing_is_no_data():
    w = codewords()
    w.ports.silent[3] = True
    w.tick(3)

    assert w.verdicts()[3] == V_NO_DATA
