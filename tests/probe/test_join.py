from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from probe_fabrics import fabric

from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.probe.join import join_reports
from railkeeper.probe.pathstats import TickReport, decode_report, empty_stats, encode_report

F = fabric(planes=1, t0=2, t1=2, nics=1)  # two nodes, one NIC each, under a T0 each
BOUNCE, ONEWAY = PathKind.T1_BOUNCE, PathKind.ONEWAY


def report(node, rows, **how):
    """A report with rows of (kind, src, dst, t1, sent, received)."""
    rows = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    paths = make_paths(rows[0], rows[1], 0, dst=rows[2], t1=rows[3]) if rows.size else empty_paths()
    stats = replace(empty_stats(paths), sent=rows[4], received=rows[5], delay_min_ns=rows[5] * 1000)
    return TickReport(node=node, tick=8, tick_s=0.5, stats=stats, **how)


def empty_paths():
    return make_paths(np.zeros(0, dtype=int), 0, 0)


def table(joined):
    s = joined.stats
    return sorted(zip(s.paths.kind.tolist(), s.paths.src.tolist(), s.paths.dst.tolist(), s.paths.t1.tolist(),
                      s.sent.tolist(), s.received.tolist(), strict=True))  # fmt: skip


SENDER = [(BOUNCE, 0, 0, 1, 5, 4), (ONEWAY, 0, 1, 0, 9, -1), (ONEWAY, 0, 1, 1, 9, -1)]
RECEIVER = [(BOUNCE, 1, 1, 1, 5, 5), (ONEWAY, 0, 1, 1, -1, 7)]


def test_halves_meet_and_an_absent_row_received_nothing():
    got = join_reports(F, [report(0, SENDER), report(1, RECEIVER)])

    assert table(got) == [(1, 0, 0, 1, 5, 4), (1, 1, 1, 1, 5, 5), (3, 0, 1, 0, 9, 0), (3, 0, 1, 1, 9, 7)]
    assert (got.silent, got.unclean) == ((), ())
    row = np.flatnonzero((got.stats.paths.kind == ONEWAY) & (got.stats.paths.t1 == 1))
    assert got.stats.delay_min_ns[row].tolist() == [7000]  # the receiver's


def test_a_silent_receiver_is_no_loss():
    got = join_reports(F, [report(0, SENDER)])

    assert table(got) == [(1, 0, 0, 1, 5, 4)]
    assert got.silent == (1,)


def test_a_silent_sender_leaves_nothing_to_judge():
    assert table(join_reports(F, [report(1, RECEIVER)])) == [(1, 1, 1, 1, 5, 5)]


@pytest.mark.parametrize("trouble", [{"unsent": 1}, {"socket_dropped": 1}, {"host_dropped": 1}])
@pytest.mark.parametrize("node", [0, 1])
def test_an_unclean_reporter_takes_its_rows_away(trouble, node):
    reports = [report(0, SENDER, **(trouble if node == 0 else {})), report(1, RECEIVER, **(trouble if node else {}))]
    got = join_reports(F, reports)

    assert table(got) == [(1, 1 - node, 1 - node, 1, 5, 4 + (1 - node))]
    assert got.unclean == (node,)


def test_a_second_report_of_the_same_tick_is_left_out():
    assert len(join_reports(F, [report(0, SENDER), report(1, RECEIVER), report(1, RECEIVER)]).stats) == 4


def test_nobody_can_report_for_others_or_of_other_fabrics():
    liar = [(BOUNCE, 0, 0, 1, 5, 0), (ONEWAY, 0, 1, 0, 99, -1), (BOUNCE, 7, 7, 1, 5, 0), (BOUNCE, 1, 1, 9, 5, 0)]
    got = join_reports(F, [report(1, liar), report(0, [])])

    assert table(got) == []


def test_one_way_to_oneself_has_both_halves_in_one_row():
    f = fabric(planes=1, t0=2, t1=2, nics=1, per_node=2)
    got = join_reports(f, [report(0, [(ONEWAY, 0, 1, 0, 9, 8)])])

    assert table(got) == [(3, 0, 1, 0, 9, 8)]


def test_no_report_at_all():
    got = join_reports(F, [])

    assert (len(got.stats), got.silent) == (0, (0, 1))


def test_different_ticks_are_refused():
    with pytest.raises(ValueError, match="different ticks"):
        join_reports(F, [report(0, []), replace(report(1, []), tick=9)])


def test_reports_survive_the_wire():
    a, b = report(0, SENDER), report(1, RECEIVER)
    through = [decode_report(encode_report(r)) for r in (a, b)]

    assert table(join_reports(F, through)) == table(join_reports(F, [a, b]))
