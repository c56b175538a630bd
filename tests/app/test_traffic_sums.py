"""Sums over flow reports, against sums made one packet row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_world import TICK_S, make_fabric

from railkeeper.app.traffic import REMEMBER_TICKS, TrafficTick, merge, span, sum_flows
from railkeeper.fabric.paths import PathKind, links_crossed, make_paths
from railkeeper.lab.traffic.flowstats import FlowReport, FlowStats
from railkeeper.respond.verify import Traffic

FABRIC = make_fabric(t0_per_plane=3)
rows = st.tuples(
    st.integers(0, 5), st.integers(0, 1), st.integers(0, 3), st.integers(0, 50), st.integers(0, 9), st.integers(0, 9)
)


@st.composite
def flow_reports(draw):
    node, tick = draw(st.integers(0, FABRIC.n_nodes - 1)), draw(st.integers(10, 13))
    table = np.array(draw(st.lists(rows, max_size=6)), dtype=np.int64).reshape(-1, 6)
    dst, plane, t1, sent, lost, spurious = table.T
    stats = FlowStats(
        make_paths(PathKind.ONEWAY, np.full(len(dst), node), plane, dst=dst, t1=t1) if len(dst) else no_paths(),
        sent, lost // 2, lost, spurious, sent * 1000, sent * 0, sent * 0,
    )  # fmt: skip
    return FlowReport(node, tick, TICK_S, stats, busbw_bps=float(draw(st.integers(0, 1000))))


def no_paths():
    return make_paths(PathKind.ONEWAY, 0, 0).take(slice(0, 0))


def by_hand(reports, tick):
    """The same sums, with nothing but loops."""
    mine = [r for r in reports if r.tick == tick]
    link_sent, link_lost = {}, {}
    for r in mine:
        for row, links in enumerate(links_crossed(FABRIC, r.stats.paths).tolist()):
            sent, lost = int(r.stats.sent[row]), max(0, int(r.stats.lost[row] - r.stats.spurious[row]))
            for link in links:
                if link >= 0 and sent:
                    link_sent[link] = link_sent.get(link, 0) + sent
                if link >= 0 and lost:
                    link_lost[link] = link_lost.get(link, 0) + lost
    return TrafficTick(
        tick, len(mine), sum(int(r.stats.sent.sum()) for r in mine),
        sum(int((r.stats.lost - r.stats.spurious).sum()) for r in mine),
        sum(int(r.stats.retransmitted.sum()) for r in mine), sum(int(r.stats.delivered_bytes.sum()) for r in mine),
        sum(r.busbw_bps for r in mine) / len(mine), link_sent, link_lost,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(flow_reports(), min_size=1, max_size=8))
def test_sums_are_those_made_by_hand(reports):
    got = sum_flows(FABRIC, reports)

    assert [t.tick for t in got] == sorted({r.tick for r in reports})
    for t in got:
        want = by_hand(reports, t.tick)
        assert t.busbw_bps == pytest.approx(want.busbw_bps)
        assert {**vars(t), "busbw_bps": 0} == {**vars(want), "busbw_bps": 0}


@settings(max_examples=60, deadline=None)
@given(st.lists(flow_reports(), min_size=1, max_size=8), st.integers(0, 8))
def test_what_comes_in_two_parts_adds_up(reports, cut):
    whole = merge((), sum_flows(FABRIC, reports))
    parts = merge(merge((), sum_flows(FABRIC, reports[:cut])), sum_flows(FABRIC, reports[cut:]))

    assert [{**vars(t), "busbw_bps": 0} for t in parts] == [{**vars(t), "busbw_bps": 0} for t in whole]
    assert [t.busbw_bps for t in parts] == pytest.approx([t.busbw_bps for t in whole])


def tick(number, *, sent=100, lost=1, links=()):
    return TrafficTick(number, 1, sent, lost, 0, 0, 0.0, {i: 10 * i for i in links}, {i: i for i in links})


def test_the_oldest_is_forgotten():
    kept = merge([tick(n) for n in range(REMEMBER_TICKS)], [tick(REMEMBER_TICKS + 3)])

    assert len(kept) == REMEMBER_TICKS
    assert (kept[0].tick, kept[-1].tick) == (1, REMEMBER_TICKS + 3)


def test_a_span_counts_both_ends_and_the_busiest_link():
    ticks = [tick(1, links=[1]), tick(2, links=[1, 3]), tick(3, links=[2]), tick(4)]

    assert span(ticks, 2, 3, [1, 2, 3]) == Traffic(200, 2, 30 + 20, 3 + 2)
    assert span(ticks, 2, 3, []) == Traffic(200, 2, 0, 0)
    assert span(ticks, 9, 20, [1]) == Traffic()
