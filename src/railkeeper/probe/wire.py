"""The probe packet: 96 bytes and zeros after them, stamped and read as whole batches of 64-bit little-endian words.

====== ==================================================================================================
word   content
====== ==================================================================================================
0      magic (4 bytes), version (1), position in the train (1), probes of the train (1; 1 = no train), 0
1-2    path: src (4), dst (4), t1 (2), far (2), back (2; 0xffff = unused), kind (1), plane (1)
3      tick in which the probe was sent
4      check of words 1-3
5      time of sending, unix ns
6      number of the probe among those of its path and tick (4), number of the train (4)
7-10   words 1-4 once more: a damaged packet can still be put to its path
11     check of all other words and of the length
12-    zeros, in probes of trains
====== ==================================================================================================

A check is a sum of the words, each times an odd constant of its own, modulo 2**64: cheap for whole arrays, and every
change within one word is seen for certain, any other but for one in 2**64. It guards against damage, not malice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Words = npt.NDArray[np.uint64]
    Flags = npt.NDArray[np.bool_]

MAGIC, VERSION = 0x4B524B52, 1
PROBE_BYTES = 96
MAX_BYTES = 2048
DEFAULT_PORT = 9100
# What a probe is longer on the wire than its payload: UDP 8, IPv6 40, Ethernet 14.
FRAME_OVERHEAD_BYTES = 62

_WORD = np.dtype("<u8")
_PATH = np.dtype(
    [("src", "<u4"), ("dst", "<u4"), ("t1", "<u2"), ("far", "<u2"), ("back", "<u2"), ("kind", "u1"), ("plane", "u1")]
)
_UNUSED = 0xFFFF
_HEAD, _ID, _TICK, _ID_CHECK, _TIME, _NUMBERS, _COPY, _CHECK = 0, 1, 3, 4, 5, 6, 7, 11
_N_WORDS = PROBE_BYTES // 8
_HEAD_FIXED = MAGIC | VERSION << 32
_HEAD_MASK = np.uint64(0xFF0000FF_FFFFFFFF)


def _constants(n: int) -> Words:
    """Odd 64-bit numbers without pattern: the splitmix64 sequence from seed 0, lowest bit set."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray((z ^ (z >> np.uint64(31))) | np.uint64(1), dtype=np.uint64)


_ALL = _constants(MAX_BYTES // 8 + 8)
_PATH_FACTORS, _TICK_FACTOR, _ID_SALT, _LENGTH_FACTOR = _ALL[0:2], _ALL[2], _ALL[3], _ALL[4]
_FACTORS = _ALL[8:].copy()
_FACTORS[_CHECK] = 0  # the check does not count itself


def path_words(paths: Paths) -> Words:
    """Return (n, 2) words that name the paths."""
    out = np.empty(len(paths), dtype=_PATH)
    for name in _PATH.names or ():
        out[name] = getattr(paths, name).astype(_PATH[name])  # -1 becomes 0xffff
    return out.view(_WORD).reshape(-1, 2)


def paths_of(words: Words) -> Paths:
    """Return the paths that (n, 2) words name; they may be of another fabric, see `fits`."""
    raw = np.ascontiguousarray(words, dtype=_WORD).view(_PATH).reshape(-1)
    columns = {f.name: raw[f.name].astype(np.int64) for f in fields(Paths)}
    for name in ("t1", "far", "back"):
        columns[name][columns[name] == _UNUSED] = -1
    # Ids from 2**31 up are no fabric's: they become -1 instead of wrapping into something valid.
    return Paths(**{k: np.where(v > 0x7FFFFFFF, -1, v).astype(np.int32) for k, v in columns.items()})


def path_keys(words: Words) -> Words:
    """Return (n,) one number per path; different paths have different ones but for one in 2**64."""
    return np.asarray(words[:, 0] * _PATH_FACTORS[0] + words[:, 1] * _PATH_FACTORS[1], dtype=np.uint64)


def fits(fabric: Fabric, paths: Paths) -> Flags:
    """Return (n,) whether the rows are paths that this fabric has."""
    p, kind = paths, paths.kind
    nic = (p.src >= 0) & (p.src < fabric.n_nics) & (p.dst >= 0) & (p.dst < fabric.n_nics)
    ok = nic & (p.plane >= 0) & (p.plane < fabric.planes) & (kind <= PathKind.ONEWAY)
    ok &= (kind == PathKind.ONEWAY) | (p.src == p.dst)
    spine = (p.t1 >= 0) & (p.t1 < fabric.t1_per_plane)
    # one-way under one T0 crosses no T1, so a T1 there may be absent
    ok &= spine | ((p.t1 == -1) & ((kind == PathKind.T0_BOUNCE) | (kind == PathKind.ONEWAY)))
    is_far = kind == PathKind.FAR_BOUNCE
    far = (p.far >= 0) & (p.far < fabric.t0_per_plane) & (p.back >= 0) & (p.back < fabric.t1_per_plane)
    return np.asarray(ok & np.where(is_far, far, (p.far == -1) & (p.back == -1)))


@dataclass(frozen=True)
class Stamper:
    """Writes probes of a fixed table of paths: `words` (n, 2) names of the paths, `keys` (n,) their numbers."""

    words: Words
    keys: Words

    def stamp(
        self,
        out: npt.NDArray[np.uint8],
        rows: npt.NDArray[np.integer],
        *,
        tick: int,
        time_ns: int,
        seq: npt.NDArray[np.integer],
        train: int = 0,
        train_len: int = 1,
    ) -> None:
        """Write one probe to each row of `out` (n, bytes): for the paths `rows` (n,), numbered `seq` (n,).

        `bytes` is a multiple of 8 from 96 to 2048. With `train_len` > 1 the rows are one train, in order.
        """
        w = out.view(_WORD)
        position = np.arange(len(rows), dtype=np.uint64) if train_len > 1 else np.uint64(0)
        w[:, _HEAD] = np.uint64(_HEAD_FIXED | train_len << 48) | position << np.uint64(40)
        w[:, _ID:_TICK] = self.words[rows]
        w[:, _TICK] = tick
        w[:, _ID_CHECK] = self.keys[rows] + _tick_part(np.array([tick], dtype=np.uint64))
        w[:, _TIME] = time_ns
        w[:, _NUMBERS] = seq.astype(np.uint64) | np.uint64(train << 32)
        w[:, _COPY:_CHECK] = w[:, _ID:_TIME]
        w[:, _N_WORDS:] = 0
        w[:, _CHECK] = _check(w[:, :_N_WORDS], out.shape[1])


def make_stamper(paths: Paths) -> Stamper:
    """Return a stamper for a table of paths."""
    words = path_words(paths)
    return Stamper(words, path_keys(words))


@dataclass(frozen=True)
class Probes:
    """Probes read from packets whose path could be told, columns (n,) unless said otherwise.

    - words: (n, 2) name of the path; key: its number; tick: when it was sent
    - intact: nothing in the packet was damaged; the columns below mean something only there
    - seq; train, position, train_len; sent_ns
    - size: payload bytes; received_ns: time of arrival
    """

    words: Words
    key: Words
    tick: npt.NDArray[np.int64]
    intact: Flags
    seq: npt.NDArray[np.int64]
    train: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    train_len: npt.NDArray[np.int64]
    sent_ns: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    received_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: npt.NDArray[np.integer] | Flags) -> Probes:
        """Return the chosen rows."""
        return Probes(*(getattr(self, f.name)[rows] for f in fields(self)))


def join_probes(parts: list[Probes]) -> Probes:
    """Put rows of several tables one behind the other; at least one table."""
    return Probes(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Probes)))


def read_probes(
    payload: npt.NDArray[np.uint8], length: npt.NDArray[np.integer], received_ns: npt.NDArray[np.int64]
) -> Probes:
    """Read packets: `payload` (n, size), size a multiple of 8 of at least 96; `length` (n,) true lengths.

    Packets whose path can't be told (no probes, another version, damaged in both copies) are left out; nothing here
    raises on what a packet says.
    """
    words = payload.view(_WORD)
    known, second = _tell_paths(words, length)
    whole = np.zeros(len(words), dtype=np.bool_)
    whole[known] = _whole(words[known], length[known])
    ours = (words[:, _HEAD] & _HEAD_MASK) == np.uint64(_HEAD_FIXED)
    # A whole packet with another head is of another version: no probe of ours, and no damage.
    rows = np.flatnonzero(known & ~(whole & ~ours))
    w, size = words[rows], length[rows].astype(np.int64)
    block = np.where(second[rows, None], w[:, _COPY:_CHECK], w[:, _ID:_TIME])
    numbers, head = w[:, _NUMBERS], w[:, _HEAD]
    return Probes(
        words=block[:, :2],
        key=path_keys(block),
        tick=block[:, 2].astype(np.int64),
        intact=whole[rows],
        seq=(numbers & np.uint64(0xFFFFFFFF)).astype(np.int64),
        train=(numbers >> np.uint64(32)).astype(np.int64),
        position=(head >> np.uint64(40) & np.uint64(0xFF)).astype(np.int64),
        train_len=(head >> np.uint64(48) & np.uint64(0xFF)).astype(np.int64),
        sent_ns=w[:, _TIME].astype(np.int64),
        size=size,
        received_ns=received_ns[rows],
    )


def _tell_paths(words: Words, length: npt.NDArray[np.integer]) -> tuple[Flags, Flags]:
    """Return which packets name their path, and which of them only in the second copy."""
    fits_in = (length >= PROBE_BYTES) & (length <= words.shape[1] * 8) & (length % 8 == 0)
    first = _block_right(words[:, _ID:_TIME]) & fits_in
    second = _block_right(words[:, _COPY:_CHECK]) & fits_in & ~first
    return first | second, second


def _block_right(block: Words) -> Flags:
    return np.asarray(path_keys(block) + _tick_part(block[:, 2]) == block[:, 3])


def _tick_part(tick: Words) -> Words:
    return np.asarray(tick * _TICK_FACTOR + _ID_SALT, dtype=np.uint64)


def _whole(words: Words, size: npt.NDArray[np.integer]) -> Flags:
    out = np.zeros(len(words), dtype=np.bool_)
    for n in np.unique(size):
        rows = size == n
        out[rows] = _check(words[rows, : n // 8], int(n)) == words[rows, _CHECK]
    return out


def _check(words: Words, n_bytes: int) -> Words:
    """Sum up; trailing zeros may be left away, since they add nothing."""
    total = (words * _FACTORS[: words.shape[1]]).sum(axis=1, dtype=np.uint64)
    return np.asarray(total + np.array([n_bytes], dtype=np.uint64) * _LENGTH_FACTOR, dtype=np.uint64)
