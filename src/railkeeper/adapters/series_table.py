"""Series table: every series (name and labels) that was read, found again by the bytes it was written with."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from railkeeper.adapters.series_kernels import insert, look_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# The table is emptied when it holds more: names that come and go (of jobs, of containers) must not fill the memory.
MAX_SERIES = 2_000_000
MAX_BYTES = 512 * 2**20

_T = TypeVar("_T", bound=np.generic)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


@dataclass(frozen=True, slots=True)
class Series:
    """Name and labels of a series; `problem` says why it can't be one although each byte of it may stand there."""

    name: str
    labels: Mapping[str, str]
    problem: str = ""


def parse_series(text: str) -> Series:
    """Return name and labels of a series whose syntax was checked, as `up{job="a"}`."""
    name, brace, rest = text.partition("{")
    if not brace:
        return Series(name, {})
    pairs = [(key, _unescape(value)) for key, value in _LABEL.findall(rest)]
    labels = dict(pairs)
    if len(labels) < len(pairs):
        return Series(name.rstrip(), labels, "a label is there twice")
    if "__name__" in labels:
        return Series(name.rstrip(), labels, "a label is called __name__")
    return Series(name.rstrip(), labels)


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], value) if "\\" in value else value


class SeriesTable:
    """Ids of series by their bytes, in an open table of hashes; equal bytes are made sure of.

    `series[id]` is what an id stands for; `same[id]` is the least id of the same name and labels, for one series may be
    written in several ways; ids with the same labels have the same `label_sets[id]`. Not for use by several threads.
    """

    def __init__(self, max_series: int = MAX_SERIES, max_bytes: int = MAX_BYTES) -> None:
        # Nobody outside can know which names collide.
        self.seed = np.uint64(secrets.randbits(64))
        self.generation = 0
        self._max_series = max_series
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self.series: list[Series] = []
        self._names: dict[str, str] = {}
        self._label_sets: dict[frozenset[tuple[str, str]], tuple[int, Mapping[str, str]]] = {}
        self._by_meaning: dict[tuple[str, int], int] = {}
        self.same = np.zeros(512, np.int32)
        self.label_sets = np.zeros(512, np.int32)
        self._slot_hash = np.zeros(1024, np.uint64)
        self._slot_id = np.full(1024, -1, np.int64)
        self._hashes = np.zeros(512, np.uint64)
        self._arena = np.zeros(65536, np.uint8)
        self._offsets = np.zeros(513, np.int64)

    def __len__(self) -> int:
        return len(self.series)

    def make_room(self) -> None:
        """Forget everything if the table has grown over its limits: ids of before are then void."""
        if len(self) > self._max_series or self._offsets[len(self)] > self._max_bytes:
            self.generation += 1
            self._clear()

    def ids(self, body: bytes, spans: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the id of each series of `body` at spans (m, 2); those not known yet are added."""
        array = np.frombuffer(body, np.uint8)
        found = np.empty(len(hashes), np.int64)
        for _ in range(2):
            parts = (self._slot_hash, self._slot_id, self._arena, self._offsets)
            if not look_up(array, spans, hashes, *parts, found):
                break
            self._add(body, spans, hashes, np.nonzero(found < 0)[0])
        return found

    def _add(self, body: bytes, spans: NDArray[np.int64], hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> None:
        fresh: dict[bytes, int] = {}
        for row, (begin, end) in zip(rows.tolist(), spans[rows].tolist(), strict=True):
            fresh.setdefault(body[begin:end], row)
        first = len(self)
        self.same = _grown(self.same, first + len(fresh))
        self.label_sets = _grown(self.label_sets, first + len(fresh))
        for raw in fresh:
            self._name(parse_series(raw.decode()))
        self._store(first, list(fresh), hashes[list(fresh.values())])

    def _name(self, series: Series) -> None:
        own = len(self.series)
        name = self._names.setdefault(series.name, series.name)
        number, labels = self._label_sets.setdefault(
            frozenset(series.labels.items()), (len(self._label_sets), series.labels)
        )
        self.same[own] = self._by_meaning.setdefault((name, number), own)
        self.label_sets[own] = number
        self.series.append(Series(name, labels, series.problem))

    def _store(self, first: int, raws: list[bytes], hashes: NDArray[np.uint64]) -> None:
        lengths = np.fromiter(map(len, raws), np.int64, len(raws))
        count = first + len(raws)
        self._offsets = _grown(self._offsets, count + 1)
        self._offsets[first + 1 : count + 1] = self._offsets[first] + np.cumsum(lengths)
        begin, end = self._offsets[first], self._offsets[count]
        self._arena = _grown(self._arena, int(end))
        self._arena[begin:end] = np.frombuffer(b"".join(raws), np.uint8)
        self._hashes = _grown(self._hashes, count)
        self._hashes[first:count] = hashes
        if 2 * count > len(self._slot_id):
            size = 1 << int(4 * count - 1).bit_length()
            self._slot_hash, self._slot_id = np.zeros(size, np.uint64), np.full(size, -1, np.int64)
            first = 0
        insert(self._hashes[first:count], first, self._slot_hash, self._slot_id)


def _grown(array: NDArray[_T], size: int) -> NDArray[_T]:
    """Return an array of at least this size that begins as the given one."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown
