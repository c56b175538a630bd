"""Packets: what is written is read, and garbage is never more than counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.lab.traffic.wire import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NO_EV,
    REVERSE,
    SACK_BYTES,
    VERSION,
    Sack,
    Type,
    control,
    headers,
    parse,
    read_sack,
    seal,
)


def rows(*packets: bytes, size: int = 256):
    out = np.zeros((len(packets), size), dtype=np.uint8)
    for i, p in enumerate(packets):
        out[i, : min(len(p), size)] = np.frombuffer(p[:size], dtype=np.uint8)
    return out, np.array([len(p) for p in packets], dtype=np.int64)


def make(kind=Type.PROBE, **kwargs) -> bytes:
    fields = {"src": 70_000, "dst": 9, "plane": 1, "ev": 5, "t1": -1, "seq": 3, "mark": 4, "time_ns": 1 << 60}
    fields["epoch"] = (1 << 32) - 1
    return control(kind, **(fields | kwargs))


def test_the_header_has_48_bytes():
    assert HEADER.itemsize == HEADER_BYTES


@given(bits=st.lists(st.booleans(), min_size=256, max_size=256), top=st.integers(0, (1 << 32) - 1))
def test_a_sack_is_read_as_written(bits, top):
    sack = Sack(8, top, 1 << 60, 77, NO_EV, np.array(bits), np.array(bits[::-1]))
    payload, length = rows(make(Type.SACK, flags=REVERSE, sack=sack))
    got = parse(payload, length)
    assert got.head["flags"][0] == REVERSE
    assert got.head["t1"][0] == -1
    assert got.head["src"][0] == 70_000
    back = read_sack(payload[got.rows[0]])
    assert (back.top, back.hold_ns, back.peer_epoch, back.bad_ev) == (top, 77, 8, NO_EV)
    assert back.seen.tolist() == bits
    assert back.marked.tolist() == bits[::-1]


def test_data_is_sealed_and_any_flipped_bit_is_seen():
    packets = np.random.default_rng(1).integers(0, 256, (3, 200)).astype(np.uint8)
    head = packets[:, :HEADER_BYTES].view(HEADER).reshape(3)
    head["magic"], head["version"], head["type"], head["ev"] = MAGIC, VERSION, Type.DATA, [1, 2, 3]
    seal(packets)
    length = np.full(3, 200)
    assert parse(packets, length).rows.tolist() == [0, 1, 2]
    for at in (4, 56, 199):
        damaged = packets.copy()
        damaged[1, at] ^= 0x10
        got = parse(damaged, length)
        assert got.rows.tolist() == [0, 2]
        assert got.corrupt["ev"].tolist() == [2]
    assert headers(packets)["ev"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("n", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, SACK_BYTES - 1])
def test_a_packet_that_is_cut_is_not_whole(n):
    payload, length = rows(make(Type.SACK, sack=Sack(0, 0, 0, 0, NO_EV, *np.zeros((2, 256), dtype=bool)))[:n])
    got = parse(payload, length)
    assert not len(got.rows)
    assert got.stray + len(got.corrupt) == 1


def test_a_packet_beyond_the_buffer_is_stray():
    payload, length = rows(make() + bytes(500))
    assert parse(payload, length).stray == 1


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.booleans())
def test_garbage_is_counted_and_nothing_else(datagrams, dressed):
    dress = (MAGIC.to_bytes(2, "big") + bytes([VERSION])) if dressed else b""
    payload, length = rows(*(dress + d for d in datagrams))
    got = parse(payload, length)
    assert not len(got.rows)
    assert got.stray + len(got.corrupt) == len(datagrams)


@given(st.integers(0, 71), st.integers(1, 255))
def test_a_changed_byte_makes_no_other_packet(at, flip):
    packet = bytearray(make())
    packet[at] ^= flip
    got = parse(*rows(bytes(packet)))
    assert not len(got.rows)
