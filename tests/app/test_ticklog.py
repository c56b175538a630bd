"""The tick log gives back what was synced, whatever has happened to the rest of the file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from history_shapes import other_record
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.app import ticklog
from railkeeper.app.ticklog import MAGIC, MAX_FRAME_BYTES, Damage, LogRecord, TickLog, frame, read_log, read_segment
from railkeeper.base.errors import InputError, OutsideError

RECORDS = st.lists(
    st.builds(
        LogRecord,
        t=st.floats(allow_nan=False, allow_infinity=False),
        kind=st.sampled_from(["tick", "flows", "denied"]),
        name=st.text(max_size=20),
        seq=st.integers(0, 2**60),
        body=st.binary(max_size=300),
    ),
    max_size=8,
)


def numbered(n: int, first: int = 0) -> list[LogRecord]:
    return [other_record(float(k), k, bytes([k % 256]) * 50) for k in range(first, first + n)]


def write(folder: Path, records: list[LogRecord], **options) -> None:
    with TickLog(folder, **options) as log:
        for record in records:
            log.append(record)


def only_segment(folder: Path) -> Path:
    (path,) = ticklog.segments(folder)
    return path


@given(RECORDS)
def test_what_is_written_is_read(records):
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), records)
        assert records == list(read_log(Path(name)))


def test_nothing_is_written_before_sync(tmp_path):
    with TickLog(tmp_path) as log:
        log.append(numbered(1)[0])
        assert list(read_log(tmp_path)) == []
        assert log.sync() == 1
        assert log.sync() == 0
        assert numbered(1) == list(read_log(tmp_path))


@given(st.integers(0, 500), st.binary(max_size=40))
def test_a_torn_tail_costs_only_itself(cut, garbage):
    records = numbered(6)
    frames = [frame(r) for r in records]
    whole = MAGIC + b"".join(frames)
    kept = max(0, len(whole) - cut)
    ends = [len(MAGIC) + sum(map(len, frames[: k + 1])) for k in range(6)]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "000000000001.rklog"
        path.write_bytes(whole[:kept] + garbage)
        assert records[: sum(e <= kept for e in ends)] == list(read_segment(path))


@given(st.data())
def test_one_damaged_byte_costs_at_most_its_frame(data):
    records = numbered(6)
    whole = bytearray(MAGIC + b"".join(frame(r) for r in records))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "000000000001.rklog"
        path.write_bytes(whole)
        read = list(read_segment(path))
    assert set(read) <= set(records)
    assert len(read) >= 5


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(data):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "000000000001.rklog"
        path.write_bytes(data)
        assert list(read_segment(path)) == []


def test_damage_is_counted(tmp_path):
    write(tmp_path, numbered(4))
    path = only_segment(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + len(frame(numbered(1)[0])) + 15] ^= 1
    path.write_bytes(data[:-3])
    damage = Damage()
    assert [r.seq for r in read_segment(path, damage)] == [0, 2]
    assert damage.frames == 1
    assert damage.torn_bytes > 0


def test_a_new_life_starts_a_new_segment(tmp_path):
    write(tmp_path, numbered(2))
    path = only_segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    write(tmp_path, numbered(2, 10))
    assert [r.seq for r in read_log(tmp_path)] == [0, 10, 11]
    assert len(ticklog.segments(tmp_path)) == 2


def test_segments_end_by_size(tmp_path):
    with TickLog(tmp_path, segment_bytes=100) as log:
        for record in numbered(5):
            log.append(record)
            log.sync()
        assert len(log.closed_segments()) >= 2
    assert numbered(5) == list(read_log(tmp_path))


def test_numbers_go_on_after_those_that_are_archived(tmp_path):
    write(tmp_path, numbered(1), after=41)
    assert only_segment(tmp_path).name == "000000000042.rklog"


def test_an_open_segment_is_not_closed(tmp_path):
    with TickLog(tmp_path) as log:
        log.append(numbered(1)[0])
        log.sync()
        assert log.closed_segments() == []
        log.rotate()
        assert len(log.closed_segments()) == 1


def test_a_segment_that_comes_to_be_just_now_is_not_closed(tmp_path, monkeypatch):
    """Compaction, in another thread, would remove what is being written."""
    real_open, seen = os.open, []

    with TickLog(tmp_path) as log:

        def open_and_look(*args):
            fd = real_open(*args)
            seen.append(log.closed_segments())
            return fd

        monkeypatch.setattr(os, "open", open_and_look)
        log.append(numbered(1)[0])
        log.sync()
        monkeypatch.undo()
    assert seen
    assert not any(seen)


def test_a_second_writer_is_told_who_writes(tmp_path):
    with TickLog(tmp_path), pytest.raises(OutsideError, match=f"process {os.getpid()}"):
        TickLog(tmp_path)
    TickLog(tmp_path).close()


def test_a_folder_that_can_not_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written"):
        TickLog(tmp_path / "file" / "log")


def test_a_record_that_could_not_be_read_back_is_refused(tmp_path):
    with TickLog(tmp_path) as log, pytest.raises(InputError, match="at most 64 MB"):
        log.append(other_record(0.0, 1, bytes(MAX_FRAME_BYTES)))


def test_a_full_disk_acknowledges_nothing_and_loses_nothing(tmp_path, monkeypatch):
    real_write, room = os.write, [100]

    def write_until_full(fd, data):
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        done = real_write(fd, data[: room[0]])
        room[0] -= done
        return done

    with TickLog(tmp_path) as log:
        for record in numbered(5):
            log.append(record)
        monkeypatch.setattr(os, "write", write_until_full)
        with pytest.raises(OutsideError, match="No space left") as caught:
            log.sync()
        assert caught.value.retry
        monkeypatch.undo()
        assert log.sync() == 5
    seen = list(read_log(tmp_path))
    assert numbered(5) == seen[-5:]
