"""Readings to frames: names bound, objects placed, the newest value of each column that still holds.

Nothing is lost in silence: every value that was read is in the frame, or counted as what it is instead (see `Counts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from railkeeper.telemetry.bind import binder as shipped_binder
from railkeeper.telemetry.blocks import Table
from railkeeper.telemetry.frame import Frame
from railkeeper.telemetry.labels import part_of
from railkeeper.telemetry.plans import make_plan
from railkeeper.telemetry.tick import UNPLACED, Batch, Object, Tick
from railkeeper.telemetry.unbound import Counts, Leftovers

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from railkeeper.telemetry.bind import Binder
    from railkeeper.telemetry.bindings import Dialect
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.reading import Reading

MAX_WAITING = 20_000_000  # values between two frames
MAX_OBJECTS = 4_000_000  # distinct objects that are remembered
MAX_PLANS = 100_000


class Places(Protocol):
    """Says which entity an object of a source is."""

    version: int

    def entities(self, kind: str) -> Entities | None:
        """Return the entities of a kind, None where there are none."""
        ...

    def place(self, kind: str, dialect: Dialect, reading: Reading) -> tuple[str, int]:
        """Return kind and id of the entity that signals of a kind are about: UNPLACED or OUTSIDE where it is none."""
        ...

    def learn(self, dialect: str, reading: Reading) -> bool:
        """Take in what a reading says of where things are (neighbours, names); return whether it says any."""
        ...


class Assembler:
    """Takes readings in and gives a frame at the end of each tick."""

    def __init__(
        self, places: Places, *, binder: Binder | None = None, max_age_s: float = 30.0, max_ahead_s: float = 60.0
    ) -> None:
        """Take in who is where.

        - max_age_s: how long a reading holds where its dialect does not say; max_ahead_s: how far a target's clock may
          be ahead of the tick
        """
        self.places = places
        self.counts = Counts()
        self.unbound = Leftovers()
        self.unplaced = Leftovers()
        self._binder = binder or shipped_binder()
        self._age_ns, self._ahead_ns = round(max_age_s * 1e9), round(max_ahead_s * 1e9)
        self._plans: dict[tuple[str, tuple[str, ...], str], Batch] = {}
        self._objects: dict[Any, Object] = {}
        self._streams: dict[tuple[str, str, str], int] = {}
        self._holds_ns: list[int] = []
        self._tables: dict[str, Table] = {}
        self._version = places.version
        self._waiting = 0

    def add(self, readings: Iterable[Reading]) -> None:
        """Take readings in, of any sources and in any order."""
        objects, waiting = self._objects, 0
        for reading in readings:
            key = (reading.source, reading.target, reading.dialect, tuple(reading.labels.items()))
            found = objects.get(key)
            if found is None:
                found = self._new_object(key, reading)
            names = tuple(reading.values)
            if names != found.plan.names:
                self._replan(found, reading, names)
            waiting += len(names)
            if self._waiting + waiting > MAX_WAITING:
                self.counts.no_room += len(names)
                continue
            found.batch.objects.append(found)
            found.batch.readings.append(reading)
        self._waiting += waiting
        self.counts.read += waiting

    def frame(self, t_s: float) -> Frame:
        """Return the frame of the tick that ends at a unix time (s), and begin the next tick."""
        now = round(t_s * 1e9)
        self._settle(now)
        blocks = {}
        for kind, table in self._tables.items():
            entities = self.places.entities(kind)
            if entities is not None:
                blocks[kind] = table.block(entities, self._holds_since(now))
        return Frame(t_s, blocks)

    # -- objects and plans --------------------------------------------------------------------------------------------
    def _new_object(self, key: tuple[Any, ...], reading: Reading) -> Object:
        dialect = self._binder.dialect(reading.dialect)
        part = part_of(reading.labels, dialect.part_label) if dialect and dialect.part_label else ""
        names = tuple(reading.values)
        batch = self._batch(dialect, reading.dialect, names, part)
        found = Object(self._stream(reading, dialect), part, batch.plan, batch, {})
        if len(self._objects) >= MAX_OBJECTS:
            self._objects.clear()
        self._objects[key] = found
        return found

    def _replan(self, found: Object, reading: Reading, names: tuple[str, ...]) -> None:
        found.batch = self._batch(self._binder.dialect(reading.dialect), reading.dialect, names, found.part)
        found.plan = found.batch.plan

    def _batch(self, dialect: Dialect | None, name: str, names: tuple[str, ...], part: str) -> Batch:
        key = (name, names, part)
        if key not in self._plans:
            self._plans[key] = Batch(make_plan(self._binder, dialect, name, names, part))
        return self._plans[key]

    def _stream(self, reading: Reading, dialect: Dialect | None) -> int:
        key = (reading.source, reading.target, reading.dialect)
        if key not in self._streams:
            self._streams[key] = len(self._streams)
            own = dialect.max_age_s if dialect else None
            self._holds_ns.append(self._age_ns if own is None else round(own * 1e9))
        return self._streams[key]

    # -- the end of a tick --------------------------------------------------------------------------------------------
    def _settle(self, now: int) -> None:
        self._learn()
        holds, order = self._holds_since(now), self._order()
        tick = Tick(self.counts, self.unbound, self.unplaced, self._place, holds, now + self._ahead_ns)
        for batch in self._plans.values():
            if batch.readings:
                tick.take(batch)
                batch.objects, batch.readings = [], []
        self._forget()
        framed = 0
        for kind in sorted({*self._tables, *tick.offers}):
            entities = self.places.entities(kind)
            table = self._tables.setdefault(kind, Table())
            framed += table.settle(
                tick.offers.get(kind, {}), len(entities) if entities else 0, holds, order, tick.watermarks
            )
        self.counts.framed += framed
        self.counts.superseded += tick.readable - framed

    def _place(self, found: Object, kind: str, reading: Reading) -> tuple[str, int]:
        at = found.at.get(kind)
        if at is None:
            dialect = self._binder.dialect(reading.dialect)
            at = found.at[kind] = ("", UNPLACED) if dialect is None else self.places.place(kind, dialect, reading)
        return at

    def _forget(self) -> None:
        self._waiting = 0
        if len(self._plans) > MAX_PLANS:  # sources that invent names: all is worked out again
            self._plans.clear()
            self._objects.clear()

    def _learn(self) -> None:
        for batch in self._plans.values():
            for reading in batch.readings:
                if not self.places.learn(reading.dialect, reading):
                    break
        if self.places.version != self._version:
            self._version = self.places.version
            for found in self._objects.values():
                found.at.clear()

    def _holds_since(self, now: int) -> npt.NDArray[np.int64]:
        return now - np.array(self._holds_ns or [0], dtype=np.int64)

    def _order(self) -> npt.NDArray[np.int64]:
        order = np.empty(max(1, len(self._streams)), dtype=np.int64)
        order[[self._streams[key] for key in sorted(self._streams)]] = np.arange(len(self._streams))
        return order
