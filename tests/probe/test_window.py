from __future__ import annotations

import numpy as np
import pytest
from probe_fabrics import fabric

from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.probe import window as window_module
from railkeeper.probe.aggregate import Table
from railkeeper.probe.window import Window
from railkeeper.probe.wire import PROBE_BYTES, make_stamper

F = fabric()
PATHS = make_paths([PathKind.T0_BOUNCE, PathKind.ONEWAY], [0, 0], [0, 1], dst=[0, 4], t1=[-1, 2])
STAMPER = make_stamper(PATHS)
TABLE = Table(PATHS, STAMPER.keys, np.array([True, False]))
S = 1_000_000_000
MS = 1_000_000


def new(start_s=100.3):
    return Window(F, 0, TABLE, tick_s=0.5, grace_s=0.2, start_ns=round(start_s * S))


def arrive(w, at_s, *, row=0, tick, seq=0, now_s=None, damage=None):
    packet = np.zeros((1, PROBE_BYTES), dtype=np.uint8)
    STAMPER.stamp(packet, np.array([row]), tick=tick, time_ns=round(tick * 0.5 * S), seq=np.array([seq]))
    if damage is not None:
        packet[0, damage] ^= 0xFF
    t = round(at_s * S)
    w.arrived(packet, np.array([PROBE_BYTES]), np.array([t]), t if now_s is None else round(now_s * S))


def close(w, now_s):
    return list(w.close(round(now_s * S)))


def test_the_tick_in_which_the_agent_starts_is_not_reported():
    w = new(100.3)  # in the middle of tick 200
    arrive(w, 100.35, tick=200)

    assert not w.started(round(100.4 * S))
    assert w.started(round(100.5 * S))
    assert close(w, 100.8) == []
    (r,) = close(w, 101.2)
    assert (r.tick, r.late, r.stats.received[0]) == (201, 0, 0)


def test_a_tick_closes_when_the_grace_is_over_and_counts_what_was_sent_in_it():
    w = new()
    w.sent(201, np.array([0, 0, 1]), 0)
    w.sent(202, np.array([0]), 0)
    arrive(w, 100.9, tick=201)
    arrive(w, 101.1, tick=201, seq=1)  # in the next tick, but within the grace
    arrive(w, 101.1, tick=202)
    assert close(w, 101.19) == []
    (r,) = close(w, 101.2)
    (q,) = close(w, 101.7)

    assert (r.tick, r.stats.sent.tolist(), r.stats.received.tolist()) == (201, [2, 1], [2, -1])
    assert (q.tick, q.stats.sent.tolist(), q.stats.received.tolist()) == (202, [1, 0], [1, -1])


def test_what_came_in_time_counts_however_late_it_is_read():
    w = new()
    arrive(w, 101.0, tick=201, now_s=105.0)
    r = close(w, 105.0)[0]

    assert (r.tick, r.stats.received[0], r.late) == (201, 1, 0)


def test_a_late_one_is_told_as_such_with_its_delay():
    w = new()
    close(w, 101.2)
    arrive(w, 101.6, tick=201)
    (r,) = close(w, 101.7)

    assert (r.tick, r.late, r.stats.received[0]) == (202, 1, 0)
    assert r.stats.delay_min_ns[0] == round(101.6 * S) - round(201 * 0.5 * S)


def test_own_losses_fall_on_all_ticks_that_may_have_suffered():
    w = new()
    w.lost(round(101.2 * S), socket_dropped=3)  # 201 and the one just begun
    w.sent(201, np.array([0]), 5)
    first, second, third = close(w, 102.2)

    assert (first.socket_dropped, first.unsent, first.clean) == (3, 5, False)
    assert (second.socket_dropped, second.unsent, second.clean) == (3, 0, False)
    assert third.clean


def test_strangers_and_garbage_are_stray_and_counted_once():
    w = new()
    garbage = np.random.default_rng(1).integers(0, 256, (7, PROBE_BYTES)).astype(np.uint8)
    w.arrived(garbage, np.full(7, PROBE_BYTES), np.zeros(7, dtype=np.int64), round(100.6 * S))
    arrive(w, 100.6, tick=999)  # from the future
    a, b = close(w, 101.7)

    assert (a.stray, b.stray) == (8, 0)
    assert a.clean


def test_damaged_ones_are_corrupt():
    w = new()
    arrive(w, 100.6, tick=201, damage=56)
    (r,) = close(w, 101.2)

    assert (r.stats.corrupt[0], r.stats.received[0], r.stray) == (1, 0, 0)


def test_one_way_probes_of_others_make_rows():
    w = new()
    other = make_stamper(make_paths([3], [9], [1], dst=[0], t1=[2]))
    packet = np.zeros((1, PROBE_BYTES), dtype=np.uint8)
    other.stamp(packet, np.array([0]), tick=201, time_ns=round(100.6 * S), seq=np.array([0]))
    w.arrived(packet, np.array([PROBE_BYTES]), np.array([round(100.7 * S)]), round(100.7 * S))
    (r,) = close(w, 101.2)

    assert r.stats.paths.src.tolist() == [0, 0, 9]
    assert (r.stats.sent[2], r.stats.received[2]) == (-1, 1)


def test_after_a_long_pause_only_the_last_ticks_are_reported():
    w = new()
    reports = close(w, 200.0)

    assert len(reports) == window_module.MAX_BEHIND
    assert reports[-1].tick == 398
    assert reports[0].ticks_dropped == 398 - window_module.MAX_BEHIND - 200
    assert sum(r.ticks_dropped for r in reports[1:]) == 0


def test_a_clock_set_back_is_noticed():
    w = new()
    close(w, 200.0)

    assert w.set_back(round(150 * S))
    assert not w.set_back(round(199.9 * S))


def test_memory_is_bounded_and_the_rest_is_own_loss(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_PENDING", 3)
    w = new()
    for i in range(5):
        arrive(w, 100.6, tick=201, seq=i)
    (r,) = close(w, 101.2)

    assert (r.stats.received[0], r.socket_dropped) == (3, 2)


@pytest.mark.parametrize("rows", [[0, 1, 0, 0, 1], [1], [0, 0]])
def test_numbers_go_on_within_a_tick_per_path(rows):
    w = new()
    a = w.number(201, np.array(rows))
    b = w.number(201, np.array(rows))
    for row in set(rows):
        mine = np.array(rows) == row
        assert np.concatenate([a[mine], b[mine]]).tolist() == list(range(2 * mine.sum()))
    assert w.number(202, np.array([rows[0]])).tolist() == [0]
