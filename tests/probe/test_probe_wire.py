from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_fabrics import fabric

from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.probe import wire
from railkeeper.probe.wire import (
    MAX_BYTES,
    PROBE_BYTES,
    fits,
    make_stamper,
    path_keys,
    path_words,
    paths_of,
    read_probes,
)

PATHS = make_paths(
    [0, 1, 2, 3, 3], [0, 1, 2, 3, 131071], [1, 2, 7, 0, 3], dst=[0, 1, 2, 15, 1],
    t1=[-1, 2, 0x5FFF, 2, -1], far=[-1, -1, 0x7EFF, -1, -1], back=[-1, -1, 1, -1, -1],
)  # fmt: skip


def stamped(rows, *, size=PROBE_BYTES, **how):
    rows = np.asarray(rows)
    out = np.full((len(rows), size), 0xAB, dtype=np.uint8)
    how = {"tick": 3_600_000_000_000, "time_ns": 1_800_000_000_123_456_789, "seq": np.arange(len(rows)) + 7} | how
    make_stamper(PATHS).stamp(out, rows, **how)
    return out


def read(packets, length=None, buffer=None):
    n, size = packets.shape
    payload = np.zeros((n, buffer or size), dtype=np.uint8)
    payload[:, :size] = packets
    return read_probes(
        payload, np.full(n, size) if length is None else np.asarray(length), np.arange(n, dtype=np.int64)
    )


def test_names_of_paths_read_back():
    words = path_words(PATHS)

    assert (paths_of(words).key() == PATHS.key()).all()
    assert len(set(path_keys(words).tolist())) == len(PATHS)


@pytest.mark.parametrize("size", [PROBE_BYTES, 1000, MAX_BYTES])
def test_what_is_stamped_is_read(size):
    got = read(stamped([4, 0, 2], size=size, train=9, train_len=3), buffer=MAX_BYTES)

    assert got.intact.all()
    assert (paths_of(got.words).key() == PATHS.take(np.array([4, 0, 2])).key()).all()
    assert got.tick.tolist() == [3_600_000_000_000] * 3
    assert got.seq.tolist() == [7, 8, 9]
    assert (got.train.tolist(), got.position.tolist(), got.train_len.tolist()) == ([9] * 3, [0, 1, 2], [3] * 3)
    assert got.sent_ns.tolist() == [1_800_000_000_123_456_789] * 3
    assert got.size.tolist() == [size] * 3
    assert got.received_ns.tolist() == [0, 1, 2]


def test_any_changed_bit_is_seen_and_never_names_another_path():
    packet = stamped([2])
    flipped = np.repeat(packet, PROBE_BYTES * 8, axis=0)
    bit = np.arange(PROBE_BYTES * 8)
    flipped[bit, bit // 8] ^= (1 << bit % 8).astype(np.uint8)
    got = read(flipped)

    assert len(got) == PROBE_BYTES * 8  # one copy is always whole
    assert not got.intact.any()
    assert (paths_of(got.words).key() == PATHS.take(np.array([2])).key()).all()
    assert (got.tick == 3_600_000_000_000).all()


def test_damage_behind_the_head_keeps_the_path():
    packet = stamped([1, 3], size=1000)
    packet[:, 56:58] = 0xAD
    packet[1, 700] ^= 1
    got = read(packet)

    assert len(got) == 2
    assert not got.intact.any()
    assert paths_of(got.words).kind.tolist() == [PathKind.T1_BOUNCE, PathKind.ONEWAY]


@pytest.mark.parametrize("length", [0, 8, 88, 95, 97, 104, 992, 1001, 5000])
def test_a_wrong_length_is_not_intact(length):
    got = read(stamped([0], size=1000), length=[length])

    assert not got.intact.any()


def test_another_version_is_no_probe_and_no_damage(monkeypatch):
    monkeypatch.setattr(wire, "_HEAD_FIXED", wire._HEAD_FIXED + (1 << 32))
    packet = stamped([0])
    monkeypatch.undo()

    assert len(read(packet)) == 0


@given(st.lists(st.tuples(st.binary(max_size=MAX_BYTES), st.integers(0, 3000)), max_size=20))
def test_noise_is_left_out(packets):
    payload = np.zeros((len(packets), MAX_BYTES), dtype=np.uint8)
    for row, (data, _) in zip(payload, packets, strict=True):
        row[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    got = read_probes(
        payload, np.array([n for _, n in packets], dtype=np.int64), np.zeros(len(packets), dtype=np.int64)
    )

    assert not got.intact.any()
    assert len(paths_of(got.words)) == len(got)


@given(st.data())
def test_damaged_probes_never_raise_and_never_pass(data):
    packet = stamped([3], size=data.draw(st.sampled_from([96, 200, 1000])))
    before = packet.copy()
    for at in data.draw(st.lists(st.integers(0, packet.shape[1] - 1), min_size=1, max_size=40)):
        packet[0, at] = data.draw(st.integers(0, 255))
    got = read(packet)

    assert bool(got.intact.any()) == bool((packet == before).all())


def test_only_paths_that_the_fabric_has_fit():
    f = fabric()
    good = make_paths(
        [0, 1, 2, 3, 3], [0, 1, 15, 3, 0], [1, 0, 1, 0, 0], dst=[0, 1, 15, 15, 1], t1=[-1, 3, 0, 2, -1],
        far=[-1, -1, 3, -1, -1], back=[-1, -1, 1, -1, -1],
    )  # fmt: skip
    bad = make_paths(
        [0, 1, 2, 3, 4, 1, 3, 2, 0], [16, 1, 15, 3, 0, 1, -1, 0, 0], [1, 2, 1, 0, 0, 0, 0, 0, 0],
        dst=[16, 1, 15, 16, 0, 2, 1, 0, 0], t1=[-1, 3, 0, 2, 0, 1, 1, 1, -1], far=[-1, -1, 4, -1, -1, -1, -1, 1, 2],
        back=[-1, -1, 1, -1, -1, -1, -1, -1, -1],
    )  # fmt: skip

    assert fits(f, good).all()
    assert not fits(f, bad).any()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2))
def test_any_words_are_some_rows_that_can_be_judged(words):
    fits(fabric(), paths_of(np.array([words], dtype=np.uint64)))
