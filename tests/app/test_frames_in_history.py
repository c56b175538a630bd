"""Frames through the keeper: judged, told, kept, asked for in SQL, judged again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hub_lines import Line, tick_message
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, make_fabric

from railkeeper.app.closed import FRAME
from railkeeper.app.detecting import entities_of
from railkeeper.app.history import History, query
from railkeeper.app.inputs import decode_input, encode_input
from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.app.rejudge import rejudge
from railkeeper.app.ticklog import LogRecord
from railkeeper.app.world import HubWorld
from railkeeper.base.errors import InputError
from railkeeper.health.slo.scopes import Job
from railkeeper.telemetry import frame_wire
from railkeeper.telemetry.fabric_entities import nic_entities, port_entities
from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block, Frame
from railkeeper.telemetry.frame_wire import decode_frame, encode_frame
from railkeeper.telemetry.named_places import NamedKind

FABRIC = make_fabric()
ENTITIES = entities_of(FABRIC)
SETUP = Setup(FABRIC, "live", frame_s=1.0)
BAD = 5  # a port whose frames are damaged
NAMES = ("rx_packets", "rx_crc_errors", "rx_bytes")


def frame(number, t_s):
    """Counters of all ports after so many frames: steady traffic, damage at one port, one port unread."""
    ports = ENTITIES["port"]
    n = len(ports)
    counters = np.zeros((3, n), dtype=np.uint64)
    counters[0], counters[2] = 1_000_000 * number, 1_000_000_000 * number
    counters[1, BAD] = 20_000 * number
    counters[:, 3] = ABSENT
    t_ns = np.full(n, int(t_s * 1e9))
    t_ns[3] = NO_TIME
    gauges = np.ones((1, n), dtype=np.float32)
    gauges[0, 3] = np.nan
    return Frame(t_s, {"port": Block(ports, t_ns, NAMES, np.full(3, 64, np.uint8), counters, ("oper_up",), gauges)})


class Feed:
    """Sources that give a frame each second."""

    def __init__(self):
        self.number = 0

    def take(self, t_s):
        if t_s % 1.0:
            return (), None
        self.number += 1
        return encode_frame(frame(self.number, t_s)), (Job("j7", (0, 1)),)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    made, line, events = SynthWorld(FABRIC, ticks=130), Line(FIRST_TICK * TICK_S), []
    for k in range(130):
        for r in made.next_tick().reports:
            line.say(tick_message(r), at=(FIRST_TICK + k + 1) * TICK_S + 0.15)
    with History(folder, segment_s=20.0) as history:
        world = HubWorld(FABRIC, line, history, tick_s=TICK_S, clock=line.clock, feed=Feed())
        keeper = Keeper(SETUP, world, history=history, clock=line.clock)
        for _ in range(126):
            events += keeper.answer(world.next_tick()).events
        history.sync()
    with History(folder) as history:
        history.upkeep(line.now)
    return folder, keeper, events, line.now


def test_damage_is_found_and_told(ran):
    told = [e for e in ran[2] if e["type"] == "finding" and "signal" in e]
    name = ENTITIES["port"].name_of(BAD)
    assert name in {e["entity"] for e in told}
    assert all(e["verdict"] != "ok" for e in told if e["entity"] == name)


def test_a_port_that_was_not_read_is_never_ok(ran):
    judged = ran[1].state.detecting.judged
    seen = [j.verdicts[3] for name, j in judged.items() if len(j.verdicts) == len(ENTITIES["port"])]
    assert seen
    assert 0 not in seen


def test_signals_can_be_asked_for_by_name(ran):
    rows = query(ran[0], "SELECT DISTINCT name_of('port', id) AS name FROM port_signals WHERE rx_crc_errors > 0")
    assert rows == [{"name": ENTITIES["port"].name_of(BAD)}]
    found = query(ran[0], "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM port_signals")[0]
    assert found["ids"] == len(ENTITIES["port"]) - 1
    assert found["n"] == found["ids"] * 63
    assert query(ran[0], "SELECT name_of('cup', 1) AS a, name_of('nic', 999) AS b") == [{"a": None, "b": None}]


def test_it_can_be_judged_again(ran):
    found = rejudge(ran[0], ran[3], whole=True)
    assert (found.compared, found.differ) == (126, 0)
    assert found.state.jobs == (Job("j7", (0, 1)),)


def test_jobs_have_levels(ran):
    rows = query(ran[0], "SELECT DISTINCT scope FROM slis WHERE sli = 'packet-loss' ORDER BY scope")
    assert "job/j7" in {r["scope"] for r in rows}


def same(a, b):
    assert (a.t_s, a.blocks.keys()) == (b.t_s, b.blocks.keys())
    for kind, one in a.blocks.items():
        other = b.blocks[kind]
        assert (one.counter_names, one.gauge_names) == (other.counter_names, other.gauge_names)
        seen = one.t_ns != NO_TIME
        for name in ("t_ns", "counters", "gauges", "times", "widths", "time_of", "widths_at", "anew"):
            x, y = getattr(one, name), getattr(other, name)
            assert (x is None) == (y is None), name
            if x is not None and name in {"t_ns", "counters", "gauges", "times", "widths_at"}:
                np.testing.assert_array_equal(x[..., seen], y[..., seen])
            elif x is not None and name != "anew":
                np.testing.assert_array_equal(x, y)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_frames_survive_their_wire_form(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    blocks = {}
    for entities in (port_entities(FABRIC), nic_entities(FABRIC)):
        n, k = len(entities), data.draw(st.integers(0, 3))
        t_ns = np.where(rng.random(n) < data.draw(st.sampled_from([0.2, 1.0])), rng.integers(1, 10**18, n), NO_TIME)
        if (t_ns == NO_TIME).all():
            t_ns[0] = 1
        mixed = data.draw(st.booleans()) and k > 0
        blocks[entities.kind] = Block(
            entities, t_ns, tuple(f"c{i}" for i in range(k)), np.full(k, 64, np.uint8),
            rng.integers(0, 2**63, (k, n)).astype(np.uint64), ("g",), rng.random((1, n)).astype(np.float32),
            times=rng.integers(1, 10**18, (2, n)) if mixed else None,
            time_of=np.array([*range(2), 0][:k], dtype=np.int32) if mixed and k >= 2 else (np.array([1], np.int32) if mixed else None),
            widths_at=rng.choice(np.array([32, 64], np.uint8), (k, n)) if mixed else None,
            anew=np.array([[0, int(np.flatnonzero(t_ns != NO_TIME)[0])]], np.int32) if mixed else None,
        )  # fmt: skip
    whole = Frame(12.5, blocks)
    same(whole, decode_frame(encode_frame(whole), ENTITIES))


def test_large_frames_come_in_pieces(monkeypatch):
    monkeypatch.setattr(frame_wire, "PIECE_BYTES", 300)
    whole = frame(3, 1000.0)
    pieces = encode_frame(whole)
    assert len(pieces) > 3
    same(whole, decode_frame(pieces, ENTITIES))


def test_pieces_of_many_columns_fit_into_records():
    """Hundreds of columns, as from switches with queues: no piece may be larger than a record."""
    n, k = 2000, 900
    names = tuple(f"c{i}" for i in range(k))
    block = Block(ENTITIES["port"], np.ones(n, np.int64), names, np.full(k, 64, np.uint8), np.ones((k, n), np.uint64), (),
                  np.empty((0, n), np.float32))  # fmt: skip
    sizes = [len(piece) for piece in frame_wire.encode_block(block, 1.0)]
    assert max(sizes) < 1.1 * frame_wire.PIECE_BYTES
    assert len(sizes) == 1
    many = replace(block, counters=np.ones((k, 3 * n), np.uint64), t_ns=np.ones(3 * n, np.int64),
                   gauges=np.empty((0, 3 * n), np.float32))  # fmt: skip
    assert len(list(frame_wire.encode_block(many, 1.0))) == 3


def test_gpus_are_kept_by_name_and_stop_nothing(tmp_path):
    """They are no part of the fabric: their numbers are given as they come."""
    gpus = NamedKind("gpu")
    for name in ("n0/gpu0", "n0/gpu1"):
        gpus.add(name)
    block = Block(gpus.entities(), np.array([NO_TIME, 5]), (), np.empty(0, np.uint8), np.empty((0, 2), np.uint64),
                  ("xid",), np.array([[np.nan, 79.0]], np.float32))  # fmt: skip
    whole = frame(1, 1000.0)
    pieces = encode_frame(Frame(whole.t_s, {**whole.blocks, "gpu": block}))
    same(whole, decode_frame(pieces, ENTITIES))
    with History(tmp_path) as history:
        for piece in pieces:
            history.append(LogRecord(1000.0, FRAME, "keeper/1", 1, piece))
        history.sync()
    assert query(tmp_path, "SELECT name, xid FROM gpu_signals") == [{"name": "n0/gpu1", "xid": 79.0}]


def test_columns_may_come_and_go(tmp_path):
    """Of a segment, of parts of the archive, and of the log beside them."""
    none = np.empty((0, 2), np.float32)
    nics = NamedKind("nic")
    nics.add("a")
    nics.add("b")
    with History(tmp_path) as history:
        for t, names in [(1.0, ("x",)), (2.0, ("y", "x")), (4000.0, ("z",)), (4001.0, ())]:
            k = len(names)
            block = Block(nics.entities(), np.ones(2, np.int64), names, np.full(k, 64, np.uint8),
                          np.full((k, 2), ABSENT - 1, np.uint64), (), none)  # fmt: skip
            for piece in frame_wire.encode_block(block, t):
                history.append(LogRecord(t, FRAME, "keeper/1", 1, piece))
        history.sync()
    with History(tmp_path) as history:
        history.upkeep(5000.0)
        for piece in frame_wire.encode_block(replace(block, counter_names=("w",), widths=np.full(1, 64, np.uint8),
                                                     counters=np.full((1, 2), 7, np.uint64)), 4002.0):  # fmt: skip
            history.append(LogRecord(4002.0, FRAME, "keeper/1", 1, piece))
        history.sync()
    found = query(tmp_path, "SELECT t, max(x) x, max(y) y, max(z) z, max(w) w FROM nic_signals GROUP BY t ORDER BY t")
    most = ABSENT - 1
    assert [tuple(r.values())[1:] for r in found] == [
        (most, None, None, None), (most, most, None, None), (None, None, most, None), (None,) * 4, (None, None, None, 7),
    ]  # fmt: skip


@pytest.mark.parametrize("broken", [b"", b"\xc1", b"\x80", encode_frame(frame(1, 1.0))[0][:-9]])
def test_broken_pieces_are_refused(broken):
    with pytest.raises(InputError, match="broken frame"):
        decode_frame((broken,), ENTITIES)


def test_frames_of_another_fabric_are_refused():
    other = entities_of(make_fabric(planes=1))
    with pytest.raises(InputError, match="another fabric"):
        decode_frame(encode_frame(frame(1, 1.0)), other)


def test_ticks_with_frames_survive_their_wire_form():
    given_ = replace(SynthWorld(FABRIC).next_tick(), frame=encode_frame(frame(1, 1.0)), jobs=(Job("a", (1,)),))
    again = decode_input(encode_input(given_))
    assert (again.frame, again.jobs) == (given_.frame, given_.jobs)
