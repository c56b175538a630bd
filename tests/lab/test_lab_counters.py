"""Counters of all ports of a lab, on real packets, as frames that detectors judge."""

import time

import numpy as np
import pytest
from lab_packets import fault, send_over, t1_bounce

from railkeeper.app.detecting import begin_detecting, detect, entities_of
from railkeeper.app.lab_feed import LabFeed
from railkeeper.fabric.paths import links_crossed
from railkeeper.lab.counters import COLUMNS, CounterReader, pack_counters, unpack_counters
from railkeeper.lab.faults import Injector
from railkeeper.telemetry.frame import ABSENT, NO_TIME
from railkeeper.telemetry.frame_wire import decode_frame

pytestmark = pytest.mark.lab


def column(read, name):
    return read.counters[COLUMNS.index(name)]


def test_what_one_end_sends_the_other_receives(lab):
    reader = CounterReader(lab)
    before = reader.read()
    path = t1_bounce(0, 1, 0)
    assert send_over(lab, path, 300).good == 300
    after = reader.read()

    assert (after.t_ns > before.t_ns).all()
    assert (after.up == 1).all()
    ends = np.arange(len(after.t_ns))
    for sent, received in (("tx_packets", "rx_packets"), ("tx_bytes", "rx_bytes")):
        moved = column(after, sent) - column(before, sent)
        np.testing.assert_array_equal(moved, (column(after, received) - column(before, received))[ends ^ 1])
    crossed = links_crossed(lab.fabric, path)[0]
    senders = crossed[crossed >= 0]  # up leaves the lower end of a link, down the upper one: the same number
    grown = column(after, "tx_packets") - column(before, "tx_packets")
    assert (grown[senders] >= 300).all()


def test_a_switch_that_reboots_says_nothing_and_its_neighbours_ports_are_down(lab):
    reader, f = CounterReader(lab), lab.fabric
    injector = Injector(lab)
    injector.inject(fault(f, kind="reboot", target="p0/t1-0", seconds=60))
    read = reader.read()
    upper = 2 * f.n_ports + 1

    assert read.t_ns[upper] == NO_TIME
    assert (read.counters[:, upper] == ABSENT).all()
    assert read.up[upper] == -1
    assert read.up[upper ^ 1] == 0


def test_counters_survive_the_control_line(lab):
    read = CounterReader(lab).read()
    again = unpack_counters(pack_counters(read))
    for name, values in vars(read).items():
        np.testing.assert_array_equal(getattr(again, name), values)


def test_a_link_that_flaps_is_found_by_the_counters_of_its_ends(lab):
    reader, injector, f = CounterReader(lab), Injector(lab), lab.fabric
    feed = LabFeed(f, reader.read, frame_s=10.0, traffic=False)
    state, t_s = begin_detecting(entities_of(f), {}, 10.0), 1000.0
    name = "p0/t0-0--p0/t1-0"
    found = {}
    for number in range(8):
        if number >= 3:
            for _ in range(3):
                injector.inject(fault(f, kind="down", target=name))
                injector.clear("f")
        pieces, jobs = feed.take(t_s + 10 * number)
        if pieces:
            frame = decode_frame(pieces, state.entities)
            # frames are read one after the other here, and ten seconds apart for the detectors
            frame.blocks["port"].t_ns[:] = int((t_s + 10 * number) * 1e9)
            detect(state, frame)
            found |= {x.detector: state.entities["port"].name_of(x.entity) for x in state.said.values()}
        assert jobs in (None, ())
        time.sleep(0.01)

    assert found["link-flap"].startswith(name)
    assert set(found.values()) == {found["link-flap"]}
