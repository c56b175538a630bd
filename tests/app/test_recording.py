"""Recordings: the same answers again, and nothing but an InputError for whatever else is in the file."""

from __future__ import annotations

import io
import random

import msgpack
import pytest
from history_shapes import tick_record
from hypothesis import example, given, settings
from hypothesis import strategies as st
from recordings import FABRIC, SETUP, TICKS, record, recorded
from synthetic_world import SynthWorld, make_fabric

from railkeeper.app.compose import recording_keeper
from railkeeper.app.inputs import decode_input, encode_input
from railkeeper.app.recording import Digest, Recorder, RecordingWorld, open_recording
from railkeeper.app.ticklog import MAGIC, LogRecord, frame, read_segment
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.respond.responder import ResponseState


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.rkrec"


@pytest.fixture
def records(path):
    """The records of a whole recording."""
    path.write_bytes(recorded())
    found = list(read_segment(path))
    path.unlink()
    return found


def replay(path):
    """Return (ticks, answers that differ, events, notes) of a replay."""
    digest, wrong, events, ticks = Digest(), 0, [], 0
    with recording_keeper(path) as (keeper, world):
        while (given := world.next_tick()) is not None:
            outcome = keeper.answer(given)
            ticks += 1
            wrong += world.expected not in {None, digest.add(outcome.events)}
            events += outcome.events
    return ticks, wrong, events, world.notes


def write(path, records):
    path.write_bytes(MAGIC + b"".join(map(frame, records)))


def test_a_replay_gives_the_same_answers(path):
    keeper, events = record(path)
    ticks, wrong, again, notes = replay(path)

    assert (ticks, wrong, notes) == (TICKS, 0, ["something was broken ✂"])
    assert again == events
    assert keeper.state.response.denied
    assert open_recording(path).setup == SETUP


def test_a_recording_that_begins_in_an_incident_goes_on_from_there(path, tmp_path):
    first, _ = record(tmp_path / "first")
    record(path, response=first.state.response)

    assert open_recording(path).response == first.state.response
    assert replay(path)[:2] == (TICKS, 0)


def test_other_answers_are_noticed_from_the_first_that_differs(path, records):
    digests = [i for i, r in enumerate(records) if r.kind == "digest"]
    records[digests[9]] = records[digests[9]]._replace(body=b"\0" * 32)
    write(path, records)
    assert replay(path)[:2] == (TICKS, 1)

    lost = [i for i, r in enumerate(records) if r.kind == "input"][5]
    del records[lost : lost + 2]
    write(path, records)
    ticks, wrong, _, _ = replay(path)
    assert (ticks, wrong > TICKS // 2) == (TICKS - 1, True)


def test_a_tick_without_digest_is_replayed_and_not_compared(path, records):
    write(path, [r for r in records if r.kind != "digest"])
    assert replay(path)[:2] == (TICKS, 0)


def test_a_torn_tail_loses_the_last_tick_at_most(path):
    data = recorded()
    for cut in [1, 2, 40, 41, 42, 100, 1000]:
        path.write_bytes(data[:-cut])
        ticks, wrong, _, _ = replay(path)
        assert wrong == 0
        assert ticks in {TICKS - 1, TICKS}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(recorded()) - 1), st.integers(1, 255))
@example(3, 1)
@example(len(MAGIC), 1)
@example(len(MAGIC) + 20, 1)
def test_a_damaged_byte_is_an_input_error_or_a_torn_tail(tmp_path_factory, at, flip):
    path = tmp_path_factory.mktemp("damage") / "r"
    data = bytearray(recorded())
    data[at] ^= flip
    path.write_bytes(data)
    try:
        ticks, wrong, _, _ = replay(path)
    except InputError as e:
        named = str(path) in str(e)
    else:
        named = True
        # Only the magic, which is but a name, and the last frame can be hurt without a word.
        assert at < len(MAGIC) or (ticks >= TICKS - 1 and not wrong)
    assert named


@pytest.mark.parametrize("content", [
    b"", b"\0", MAGIC, MAGIC * 3, b"\xf5RK\xfe" * 1000, bytes(100_000), b"[fabric]\nplanes = 2\n", recorded()[:40],
    random.Random(1).randbytes(20_000), MAGIC + frame(tick_record(0, 7)), MAGIC + frame(LogRecord(0.0, "header", "", 0, b"")),
    MAGIC + frame(LogRecord(0.0, "header", "keeper", 0, b"\xc1")), MAGIC + frame(LogRecord(0.0, "note", "keeper", 0, b"x")),
], ids=str)  # fmt: skip
def test_foreign_files_are_refused_by_name(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"recording|record it again") as e:
        replay(path)
    assert str(path) in str(e.value)


def test_a_missing_file_and_a_folder_are_refused(path, tmp_path):
    for bad in (path, tmp_path):
        with pytest.raises(InputError, match="can't be read"):
            open_recording(bad)


def header_with(records, **changes):
    header = msgpack.unpackb(records[0].body)
    for key, value in changes.items():
        if value is None:
            del header[key]
        else:
            header[key] = value
    return [records[0]._replace(body=msgpack.packb(header)), *records[1:]]


INCIDENT = {"id": "inc-1", "fault": {"key": "x", "target": "p9/t1-0", "kind": "loss"}, "impact": {"severity": "minor"}, "opened_at": 1.0, "updated_at": 1.0, "status": "open"}  # fmt: skip
ACTION = {"key": "a", "incident": "i", "target": "t", "links": [10**6], "reason": "", "proposed_at": 0.0, "updated_at": 0.0, "status": "applied"}  # fmt: skip


@pytest.mark.parametrize("changes", [
    {"schema": 99}, {"schema": None}, {"spec": None}, {"spec": {}}, {"spec": 5}, {"spec": {"fabric": {"planes": -1}}},
    {"tick_s": None}, {"tick_s": 0.0}, {"tick_s": -1.0}, {"tick_s": float("nan")}, {"tick_s": "x"}, {"tick_s": 1.0},
    {"locator": {"no_such": 1}}, {"locator": {"tick_s": "x"}}, {"locator": {"false_alarms_per_day": 0.0}}, {"locator": []},
    {"limits": {"no_such": 1}}, {"limits": {"frozen": 5}}, {"limits": {"min_plane_share": 9}}, {"limits": 3},
    {"incidents": 5}, {"incidents": [5]}, {"incidents": [{}]}, {"incidents": [INCIDENT]},
    {"actions": [{}]}, {"actions": ["x"]}, {"actions": [ACTION]}, {"actions": [ACTION | {"links": [-1]}]},
    {"actions": [ACTION | {"status": "no such"}]}, {"next_incident": "x"}, {"version": None}, {"version": []},
], ids=str)  # fmt: skip
def test_headers_that_can_not_be_are_refused(path, records, changes):
    write(path, header_with(records, **changes))
    with pytest.raises(InputError, match=r"r\.rkrec"):
        replay(path)


def test_ticks_of_another_fabric_are_refused(path, records):
    other = SynthWorld(make_fabric(planes=3)).next_tick()
    for given_ in (other, decode_input(encode_input(other))):
        write(path, [records[0], LogRecord(0.0, "input", "keeper", 0, encode_input(given_))])
        with pytest.raises(InputError, match=r"ports|lower|paths|port_state"):
            replay(path)


@pytest.mark.parametrize("change", [
    lambda d: d.pop("tick"), lambda d: d.update(tick=-1), lambda d: d.update(tick=1), lambda d: d.update(tick="x"),
    lambda d: d.update(schema=2), lambda d: d.update(reports=[b"x"]), lambda d: d.update(late=5),
    lambda d: d.update(flows=[b""]), lambda d: d.update(ports={}), lambda d: d.update(confirmations=[{"no": 1}]),
    lambda d: d["ports"].update(lower=b"123"), lambda d: d["ports"].update(lower_downs=b"123"),
], ids=range(12))  # fmt: skip
def test_ticks_that_can_not_be_are_refused(path, records, change):
    d = msgpack.unpackb(records[1].body)
    change(d)
    write(path, [records[0], records[1]._replace(body=msgpack.packb(d)), *records[2:]])
    with pytest.raises(InputError, match=r"r\.rkrec"):
        replay(path)


def test_a_recording_is_never_written_over(path):
    path.write_text("precious")
    with pytest.raises(InputError, match="already"):
        Recorder(path, SETUP, ResponseState())
    assert path.read_text() == "precious"


def test_a_place_that_can_not_be_written_is_said(tmp_path):
    with pytest.raises(InputError, match="folder that exists"):
        Recorder(tmp_path / "no" / "r", SETUP, ResponseState())


def test_a_full_disk_is_said(path):
    recorder = Recorder(path, SETUP, ResponseState())

    class Full(io.BytesIO):
        name = "r"

        def write(self, _data):
            raise OSError(28, "No space left on device")

    recorder._file.close()
    recorder._file = Full()
    with pytest.raises(OutsideError, match="No space left"):
        recorder.add(SynthWorld(FABRIC).next_tick(), [], 1.0)


def test_a_replay_asks_nobody_and_writes_nothing(path, tmp_path):
    record(path)
    before = path.read_bytes()
    replay(path)
    world = RecordingWorld(open_recording(path))
    world.deny(1, [2])
    world.close()

    assert [p.name for p in tmp_path.iterdir()] == ["r.rkrec"]
    assert path.read_bytes() == before
