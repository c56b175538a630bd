"""The tick log: every acknowledged message, appended to segment files before it is acknowledged.

A segment starts with `MAGIC`; frames follow: marker, length, CRC32 of the rest, then a MessagePack array
(t, kind, name, seq, body), compressed by zstd. `append` only remembers; `sync` writes, and returns when the bytes are
on disk: what was appended before it may then be acknowledged. A torn tail (the process or machine died in a write) is
skipped by readers, and so is a damaged frame, alone: reading goes on at the next marker whose frame checks out. A
writer never appends to a segment of an earlier life.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import msgpack
import zstandard

from railkeeper.base.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC = b"RKLOG\x01\x00\n"
MARKER = b"\xf5RK\xfe"
_HEAD = struct.Struct("<4sII")
SUFFIX = ".rklog"
MAX_FRAME_BYTES = 64 << 20
# Histograms are mostly zeros: the fastest level already makes a tick about ten times smaller.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


class LogRecord(NamedTuple):
    """One message: arrival time (unix seconds), kind (`tick`, `flows`, ...), sender, its number, its bytes."""

    t: float
    kind: str
    name: str
    seq: int
    body: bytes


@dataclass
class Damage:
    """What a reader had to skip."""

    frames: int = 0
    torn_bytes: int = 0


class TickLog:
    """The writer. One process at a time; a second one gets an OutsideError that names the first.

    Segments are numbered on from the highest one there, or from `after` where that is higher.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = 8 << 20, after: int = 0) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._lock = _lock(folder)
        self._pending: list[bytes] = []
        self._fd = -1
        self._size = 0
        self._number = max([after, *map(segment_number, segments(folder))])
        # Up to this number no segment is written any more; it only rises, so that another thread may rely on it.
        self._ended = self._number

    def append(self, record: LogRecord) -> None:
        """Remember a record for the next `sync`; raises InputError where it is too large to be read back."""
        if len(record.body) > MAX_FRAME_BYTES - 1024:
            raise InputError(f"{record.kind} of {record.name}", f"has {len(record.body)} bytes", "at most 64 MB")
        self._pending.append(frame(record))

    def sync(self) -> int:
        """Write what was appended, durably; return how many records.

        Raises OutsideError when the disk refuses: nothing of it may be acknowledged, and the next `sync` tries it all
        again in a new segment (after a failed fsync nobody knows what the old one holds).
        """
        if not self._pending:
            return 0
        try:
            self._write(b"".join(self._pending))
        except OSError as e:
            self._drop_segment()
            raise OutsideError(f"the tick log in {self._folder} can't be written: {e.strerror}", retry=True) from e
        done, self._pending = len(self._pending), []
        if self._size >= self._segment_bytes:
            self.rotate()
        return done

    def rotate(self) -> None:
        """End the segment, so that it can be compacted; the next record starts a new one."""
        self._drop_segment()

    def closed_segments(self) -> list[Path]:
        """Return the segments that nobody writes any more, oldest first; any thread may ask."""
        ended = self._ended
        return [p for p in segments(self._folder) if segment_number(p) <= ended]

    def close(self) -> None:
        """Write what is pending and let the folder go."""
        try:
            self.sync()
        finally:
            self._drop_segment()
            os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        if self._fd < 0:
            self._start_segment()
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        os.fdatasync(self._fd)
        self._size += len(data)

    def _start_segment(self) -> None:
        self._number += 1
        self._fd = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.write(self._fd, MAGIC)
        self._size = len(MAGIC)
        sync_folder(self._folder)

    def _drop_segment(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._ended = self._number

    def _path(self) -> Path:
        return self._folder / f"{self._number:012d}{SUFFIX}"


def segment_number(path: Path) -> int:
    """Return the number of a segment file, 0 where its name is not one of ours."""
    return int(path.stem) if path.stem.isdigit() else 0


def segments(folder: Path) -> list[Path]:
    """Return the segments of a log, oldest first."""
    return sorted(p for p in folder.glob(f"*{SUFFIX}") if segment_number(p))


def frame(record: LogRecord) -> bytes:
    """Return the bytes of one record."""
    payload = _COMPRESSOR.compress(msgpack.packb(tuple(record)))
    return _HEAD.pack(MARKER, len(payload), zlib.crc32(payload)) + payload


def read_log(folder: Path, damage: Damage | None = None) -> Iterator[LogRecord]:
    """Yield all records of a log in the order in which they were written; `damage` counts what could not be read."""
    for path in segments(folder):
        yield from read_segment(path, damage)


def read_segment(path: Path, damage: Damage | None = None) -> Iterator[LogRecord]:
    """Yield the records of one segment; whatever is torn or damaged is skipped and counted."""
    data = path.read_bytes()
    found = damage if damage is not None else Damage()
    at = len(MAGIC) if data.startswith(MAGIC) else 0
    while at < len(data):
        record, end = _frame_at(data, at)
        if record is not None:
            yield record
            at = end
            continue
        following = _next_frame(data, at + 1)
        if following < 0:
            found.torn_bytes += len(data) - at
            return
        found.frames += 1
        at = following


def _frame_at(data: bytes, at: int) -> tuple[LogRecord | None, int]:
    if at + _HEAD.size > len(data):
        return None, at
    marker, length, crc = _HEAD.unpack_from(data, at)
    start, end = at + _HEAD.size, at + _HEAD.size + length
    if marker != MARKER or length > MAX_FRAME_BYTES or end > len(data):
        return None, at
    payload = data[start:end]
    if zlib.crc32(payload) != crc:
        return None, at
    return _record(payload), end


def _record(payload: bytes) -> LogRecord | None:
    try:
        plain = _DECOMPRESSOR.decompress(payload, max_output_size=MAX_FRAME_BYTES)
        t, kind, name, seq, body = msgpack.unpackb(plain)
    except (ValueError, TypeError, msgpack.UnpackException, zstandard.ZstdError):
        return None
    return LogRecord(float(t), str(kind), str(name), int(seq), bytes(body))


def _next_frame(data: bytes, at: int) -> int:
    """Return where the next whole frame starts, -1 where there is none."""
    while (at := data.find(MARKER, at)) >= 0:
        if _frame_at(data, at)[0] is not None:
            return at
        at += 1
    return -1


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a new file is lost with the power as long as only its content is synced."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as e:
        raise InputError(str(folder), f"can't be written ({e.strerror})", "give a folder for the history") from e
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        pid = os.read(fd, 32).decode(errors="replace").strip()
        os.close(fd)
        raise OutsideError(f"{folder} is in use by another keeper (process {pid})") from e
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
