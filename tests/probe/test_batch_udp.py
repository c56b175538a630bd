from __future__ import annotations

import socket
import time

import numpy as np
import pytest

from railkeeper.base.errors import OutsideError
from railkeeper.probe.sockets import BatchUdp

LOOPBACK = np.frombuffer(socket.inet_pton(socket.AF_INET6, "::1"), dtype=np.uint8)
NOWHERE = np.frombuffer(socket.inet_pton(socket.AF_INET6, "fcbb:99::1"), dtype=np.uint8)


def to(address, n):
    return np.broadcast_to(address, (n, 16))


def drain(udp, n, patience_s=5.0):
    """All packets that arrive, as bytes with their times, until there are n."""
    out, end = [], time.monotonic() + patience_s
    while len(out) < n and time.monotonic() < end:
        got = udp.receive()
        out += [(bytes(p[:k]), t) for p, k, t in zip(got.payload, got.length, got.time_ns, strict=True)]
    return out


def test_more_than_one_batch_arrives_whole_in_order_and_stamped():
    with BatchUdp(0, batch=16, size=128) as a, BatchUdp(0, batch=16, size=128) as b:
        payload = np.arange(50 * 40, dtype=np.uint64).astype(np.uint8).reshape(50, 40)
        lengths = np.arange(50) % 40 + 1
        before = time.time_ns()
        sent = a.send(payload, to(LOOPBACK, 50), b.port, lengths=lengths)
        got = drain(b, 50)

        assert sent.sent.all()
        assert (sent.unsent, sent.refused) == (0, 0)
        assert [bytes(p[:n]) for p, n in zip(payload, lengths, strict=True)] == [p for p, _ in got]
        assert all(before <= t <= time.time_ns() for _, t in got)


def test_what_has_no_way_out_is_refused_and_the_rest_goes():
    with BatchUdp(0) as a, BatchUdp(0) as b:
        addresses = np.stack([LOOPBACK, NOWHERE, LOOPBACK, NOWHERE])
        sent = a.send(np.zeros((4, 8), dtype=np.uint8), addresses, b.port, interfaces=np.array([1, 1, 1, 1]))

        assert sent.sent.tolist() == [True, False, True, False]
        assert (sent.unsent, sent.refused) == (0, 2)
        assert len(drain(b, 2)) == 2


def test_an_interface_that_is_not_there_refuses():
    with BatchUdp(0) as a:
        sent = a.send(np.zeros((2, 8), dtype=np.uint8), to(LOOPBACK, 2), a.port, interfaces=999_999)

        assert sent.refused == 2


def test_a_full_socket_counts_its_own_drops():
    with BatchUdp(0) as a, BatchUdp(0, buffer_bytes=4096) as b:
        assert b.dropped == 0
        a.send(np.zeros((300, 1000), dtype=np.uint8), to(LOOPBACK, 300), b.port)
        got = len(drain(b, 300, patience_s=0.3))

        assert 0 < got < 300
        assert got + b.dropped == 300


def test_a_longer_packet_than_the_buffer_shows_its_true_length():
    with BatchUdp(0) as a, BatchUdp(0, size=64) as b:
        a.send(np.zeros((1, 100), dtype=np.uint8), to(LOOPBACK, 1), b.port)
        end = time.monotonic() + 5
        got = b.receive()
        while not len(got) and time.monotonic() < end:
            got = b.receive()

        assert got.length.tolist() == [100]


def test_rows_of_a_wider_table_can_be_sent_without_a_copy():
    with BatchUdp(0) as a, BatchUdp(0) as b:
        table = np.arange(64, dtype=np.uint8).reshape(4, 16)
        a.send(table[::2, 4:8], to(LOOPBACK, 2), b.port)

        assert [bytes(table[0, 4:8]), bytes(table[2, 4:8])] == [p for p, _ in drain(b, 2)]


def test_a_taken_port_is_an_outside_error_that_may_pass():
    with BatchUdp(0) as a, pytest.raises(OutsideError) as e:
        BatchUdp(a.port)
    assert e.value.retry
