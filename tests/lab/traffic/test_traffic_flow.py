"""Sender and receiver over a channel whose losses we know."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from traffic_channel import FABRIC, SIZE, Channel, always, at_once, never

from railkeeper.fabric.paths import PathKind, links_crossed, make_paths
from railkeeper.lab.traffic import receiver, sender
from railkeeper.lab.traffic.evstate import State


def test_a_clean_channel_delivers_everything_once():
    c = Channel()
    c.run(40)
    t = c.tx.tally
    assert t.lost.sum() == t.retransmitted.sum() == t.spurious.sum() == 0
    assert c.rx.cum >= 380
    assert c.rx.duplicate == 0
    assert t.delivered.sum() == SIZE * c.tx.cum


def test_planes_carry_the_same():
    c = Channel()
    c.run(40)
    by_plane = np.bincount(c.tx.paths.plane, weights=c.tx.tally.sent)
    assert abs(by_plane[0] - by_plane[1]) <= 4


def test_a_dead_path_is_left_within_a_few_turns_and_its_data_comes_over_another():
    c = Channel()
    c.run(5)
    dead = int(c.last_evs[0])
    c.drops = lambda ev: ev == dead
    c.run(8)
    assert c.states[dead] == State.ASSUMED_BAD
    sent_before = c.tx.tally.sent[dead]
    c.run(10)
    assert c.tx.tally.sent[dead] == sent_before
    assert c.tx.tally.lost.sum() == c.tx.tally.lost[dead] == c.dropped
    assert c.tx.tally.retransmitted.sum() == c.dropped
    assert not c.tx.again
    assert c.tx.cum > 200


def test_a_path_that_works_again_comes_back_by_probes():
    c = Channel(drops=lambda ev: ev == 0)
    c.run(20)
    assert c.states[0] == State.ASSUMED_BAD or not c.tx.evs.active[0]
    c.drops = never
    c.run(30)
    assert c.states == [State.GOOD] * 8


def test_a_slow_path_is_no_loss_after_all():
    c = Channel(delay_ms=lambda ev: 400 if ev == 1 else 0)
    c.run(200)
    t = c.tx.tally
    assert t.lost.sum() - t.spurious.sum() <= 5  # at most what is still on its way
    assert t.lost[np.arange(8) != 1].sum() == 0
    assert c.rx.cum > 1500


def test_a_last_packet_that_is_lost_is_missed_without_any_later_one():
    c = Channel(drops=always)
    c.step(budget=1, limit=1)
    c.drops = never
    c.run(12, limit=1)
    assert c.rx.cum == 1
    assert c.tx.tally.lost.sum() == 1


def test_a_silent_peer_is_not_the_paths_loss():
    c = Channel()
    c.run(5)
    c.deaf = True
    c.run(60)
    assert not c.tx.open
    assert c.tx.unanswered > 0
    assert c.tx.tally.lost.sum() == 0
    c.deaf = False
    c.run(40)
    assert c.tx.open
    assert c.rx.cum > 300
    assert c.states == [State.GOOD] * 8


def test_a_receiver_that_starts_anew_goes_on_where_the_old_one_was():
    c = Channel()
    c.run(30)
    before = c.tx.cum
    c.rx = receiver.make_receiver(FABRIC, 0, 2, np.random.default_rng(5))
    c.run(30)
    assert c.rx.cum > before + 200
    assert not c.tx.again


def test_a_sender_that_starts_anew_goes_on_where_the_old_one_was():
    c = Channel()
    c.run(30)
    before = c.rx.cum
    c.tx = sender.make_flow(FABRIC, 0, 2, np.random.default_rng(5))
    c.flying.clear()
    c.rx.epoch -= 1  # as if it had been a run before
    c.run(30)
    assert c.rx.cum > before + 200


def test_packets_of_an_earlier_run_are_left_out():
    rx = receiver.make_receiver(FABRIC, 0, 2, np.random.default_rng(5))
    assert receiver.enter_epoch(rx, 5)
    assert not receiver.enter_epoch(rx, 4)
    assert receiver.enter_epoch(rx, 6)
    assert not receiver.enter_epoch(rx, (6 - 7) % (1 << 32))


def test_retransmissions_take_another_path_even_on_the_floor():
    c = Channel()
    order = sender.spray(c.tx, np.full(20, -1))
    again = sender.spray(c.tx, np.full(20, order[0]))
    assert not (again == order[0]).any()


def test_the_window_and_the_ring_bound_what_is_sent():
    c = Channel(drops=always)
    c.run(3, budget=500)
    assert c.tx.next_psn == sender.WINDOW
    other = Channel()
    other.run(5, limit=7)
    assert other.tx.next_psn == 7


def test_what_never_left_the_host_is_sent_again_and_no_loss():
    c = Channel()
    psns, lost_on = sender.due(c.tx, 4, 100)
    evs = sender.spray(c.tx, lost_on)
    sender.sent(c.tx, psns, lost_on, evs, np.array([True, False, True, False]), now_ns=c.now)
    sender.refused(c.tx, evs[[1, 3]], c.now)
    assert [psn for psn, _ in c.tx.again] == psns[[1, 3]].tolist()
    assert c.tx.tally.sent.sum() == 2
    assert c.tx.tally.lost.sum() == 0
    assert {c.states[e] for e in evs[[1, 3]]} == {State.ASSUMED_BAD}


def test_a_path_that_damages_data_is_left_by_the_receivers_word():
    c = Channel()
    c.run(3)
    receiver.on_corrupt(c.rx, 3)
    c.step()
    assert c.states[3] == State.ASSUMED_BAD
    receiver.on_corrupt(c.rx, 4000)  # a number that the flow has no EV for
    c.step()


def test_a_queue_on_a_path_makes_it_skip_and_then_carry_again():
    c = Channel()
    c.run(5)
    c.delay_ms = lambda ev: 20 if ev == c.last_evs[0] else 0
    c.run(1)
    queued = int(c.last_evs[0])
    c.delay_ms = at_once
    c.run(1)
    assert c.states[queued] == State.SKIP
    c.run(6)
    assert c.states == [State.GOOD] * 8
    assert c.tx.tally.lost.sum() == 0


def test_a_path_that_is_merely_long_is_soon_not_marked():
    c = Channel()
    c.run(10)
    c.delay_ms = lambda ev: 8 if ev == 2 else 0
    c.run(400)
    before = c.tx.tally.sent.copy()
    c.run(100)
    carried = (c.tx.tally.sent - before)[(c.tx.paths.plane == 0) & c.tx.evs.active]
    assert carried.min() > 0.7 * carried.max()


def test_denials_go_by_the_links_that_paths_cross():
    c = Channel()
    path = make_paths(PathKind.ONEWAY, 0, 1, dst=2, t1=2)
    _, up, down, _ = links_crossed(FABRIC, path)[0, :4].tolist()
    assert sender.obey(c.tx, np.array([up]), c.now) == (1, 0)
    assert sender.obey(c.tx, np.array([down]), c.now) == (1, 0)
    assert [(int(c.tx.paths.plane[i]), int(c.tx.paths.t1[i])) for i in range(8) if c.states[i] == State.DENIED] == [
        (1, 2)
    ]
    assert sender.obey(c.tx, np.array([up ^ 1]), c.now) == (0, 0)  # the other direction is not ours
    first = 2 * int(FABRIC.port_link(0, 0))
    assert sender.obey(c.tx, np.array([first]), c.now) == (4, 0)
    assert sender.obey(c.tx, np.array([first, first + 2]), c.now) == (6, 2)


def test_the_way_back_avoids_denied_links_and_follows_answers():
    rx = receiver.make_receiver(FABRIC, 0, 2, np.random.default_rng(5))
    for ev in range(8):
        receiver.answered(rx, ev)
    assert rx.best.tolist() == [0, 4]
    port = 2 * int(FABRIC.port_link(2, 0))
    receiver.obey(rx, np.array([port]))
    assert rx.best.tolist() == [-1, 4]
    assert {receiver.way_back(rx) for _ in range(9)} == {4}
    asked = [receiver.ask(rx)[0] for _ in range(40)]
    assert all(rx.back.plane[ev] == 1 for ev in asked)
    assert rx.best.tolist() == [-1, -1]  # none of them was answered
    receiver.obey(rx, np.array([port, port + 2]))
    assert rx.allowed.all()  # better a bad way back than none


@settings(max_examples=60, deadline=None)
@given(
    loss=st.lists(st.sampled_from([0, 0, 0, 0.05, 0.5, 1]), min_size=8, max_size=8),
    delay=st.lists(st.sampled_from([0, 0, 10, 120]), min_size=8, max_size=8),
    seed=st.integers(0, 1 << 30),
)
def test_whatever_the_channel_does_all_data_comes_in_the_end(loss, delay, seed):
    rng = np.random.default_rng(seed)
    c = Channel(drops=lambda ev: rng.random() < loss[ev], delay_ms=lambda ev: delay[ev], seed=seed)
    c.run(30, limit=200)
    assert c.rx.in_order == c.rx.cum
    c.drops, c.delay_ms = never, at_once
    c.run(120, limit=200)
    t = c.tx.tally
    assert c.rx.cum == c.tx.cum == 200
    assert t.delivered.sum() == 200 * SIZE
    assert t.lost.sum() - t.spurious.sum() == c.dropped
    assert (t.lost >= t.spurious).all()
