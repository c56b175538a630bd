"""The end of a tick: readings of one shape, a column at a time, become offers to the columns of entities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.telemetry.columns import RANKS, Offers
from railkeeper.telemetry.frame import ABSENT
from railkeeper.telemetry.plans import Strange, slot_values, spread
from railkeeper.telemetry.values import column_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from railkeeper.telemetry.bind import Bound
    from railkeeper.telemetry.plans import Plan, Slot
    from railkeeper.telemetry.reading import Reading
    from railkeeper.telemetry.unbound import Counts, Leftovers

UNPLACED, OUTSIDE = -1, -2


@dataclass
class Object:
    """One native object: its stream, the part that its labels say, and where it is by kind of signal."""

    stream: int
    part: str
    plan: Plan
    batch: Batch
    at: dict[str, tuple[str, int]]


@dataclass
class Batch:
    """Readings of one plan that wait for the end of the tick."""

    plan: Plan
    objects: list[Object] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)


@dataclass(frozen=True)
class _Rows:
    """Readings of a batch, (m,) each, and where signals of one kind of entity go.

    - kinds, kind: kinds of the entities, and which of them; row: their ids; good: placed and in time
    """

    t_ns: npt.NDArray[np.int64]
    stream: npt.NDArray[np.int64]
    kinds: tuple[str, ...]
    kind: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    good: npt.NDArray[np.bool_]

    def take(self, which: npt.NDArray[np.int64]) -> _Rows:
        """Return some of them."""
        return _Rows(
            self.t_ns[which], self.stream[which], self.kinds, self.kind[which], self.row[which], self.good[which]
        )


@dataclass
class Tick:
    """Works through the batches of one tick.

    - place: gives (kind, id) of an object for signals of a kind; holds_since: by stream; until_ns: latest sample
    - offers: by kind of entity, then (column, whether it is a counter); readable: native values in them
    - watermarks: columns that are cleared by being read
    """

    counts: Counts
    unbound: Leftovers
    unplaced: Leftovers
    place: Callable[[Object, str, Reading], tuple[str, int]]
    holds_since: npt.NDArray[np.int64]
    until_ns: int
    offers: dict[str, dict[tuple[str, bool], list[Offers]]] = field(default_factory=dict)
    readable: int = 0
    watermarks: set[str] = field(default_factory=set)

    def take(self, batch: Batch) -> None:
        """Turn all readings of a batch into offers, and count what does not become one."""
        self._count(batch)
        columns = list(zip(*(r.values.values() for r in batch.readings), strict=True))
        places: dict[str, _Rows] = {}
        for slot in batch.plan.slots:
            entity = slot.bound.signal.entity
            if entity not in places:
                places[entity] = self._rows(batch, entity)
            self._count_lost(places[entity], len(slot.takes))
            self._take_slot(batch, slot, columns, places[entity])

    def _count(self, batch: Batch) -> None:
        plan, m = batch.plan, len(batch.readings)
        self.counts.known += m * plan.known
        self.counts.unreadable += m * plan.broken
        self.counts.superseded += m * plan.beside
        self.counts.unbound += m * len(plan.unbound)
        last = batch.readings[-1]
        for i in plan.unbound:
            native = plan.names[i]
            self.unbound.note((last.dialect, native), last, sample=last.values[native], count=m)

    def _rows(self, batch: Batch, entity: str) -> _Rows:
        at = [self.place(o, entity, r) for o, r in zip(batch.objects, batch.readings, strict=True)]
        kinds = tuple(sorted({kind for kind, _ in at}))
        kind = np.array([kinds.index(k) for k, _ in at]) if len(kinds) > 1 else np.zeros(len(at), dtype=np.int64)
        row = np.array([i for _, i in at], dtype=np.int64)
        for j in np.flatnonzero(row == UNPLACED):
            reading = batch.readings[j]
            what = ", ".join(f"{k}={v}" for k, v in reading.labels.items())
            self.unplaced.note((reading.dialect, what), reading, sample=entity)
        t_ns = np.array([r.t_ns for r in batch.readings], dtype=np.int64)
        stream = np.array([o.stream for o in batch.objects], dtype=np.int64)
        in_time = (t_ns >= self.holds_since[stream]) & (t_ns <= self.until_ns)
        return _Rows(t_ns, stream, kinds, kind, row, (row >= 0) & in_time)

    def _count_lost(self, rows: _Rows, weight: int) -> None:
        unplaced = int(np.count_nonzero(rows.row == UNPLACED))
        outside = int(np.count_nonzero(rows.row == OUTSIDE))
        self.counts.unplaced += unplaced * weight
        self.counts.outside += outside * weight
        self.counts.late += (int(np.count_nonzero(~rows.good)) - unplaced - outside) * weight

    def _take_slot(self, batch: Batch, slot: Slot, columns: list[tuple[Any, ...]], rows: _Rows) -> None:
        strange = Strange()
        if not slot.spread:
            values = slot_values(slot, columns, strange)
            self._offer(slot.bound, rows, values, len(slot.takes), self._note(batch, rows, strange))
            return
        given = np.array([v is not None for v in columns[slot.takes[0]]])
        self.counts.unreadable += int(np.count_nonzero(rows.good & ~given))
        good = np.flatnonzero(rows.good & given)
        raw = [columns[slot.takes[0]][j] for j in good]
        lanes = spread(slot, raw, strange)
        strange.where = [(int(good[j]), i) for j, i in strange.where]
        noted = self._note(batch, rows, strange)
        self.counts.read += sum(len(which) for _, which, _ in lanes) + noted - len(good)
        for bound, which, says in lanes:
            column = column_of(bound.row, says)
            at = good[which]
            odd = self._note(batch, rows, Strange([(int(at[j]), slot.takes[0]) for j in column.strange]))
            self._offer(bound, rows.take(at), column.values, 1, odd)

    def _note(self, batch: Batch, rows: _Rows, strange: Strange) -> int:
        """Keep text that is neither a number nor a known state; return how many of it."""
        odd = [(j, i) for j, i in strange.where if rows.good[j]]
        for j, i in odd:
            reading, native = batch.readings[j], batch.plan.names[i]
            self.unbound.note((reading.dialect, native), reading, sample=reading.values[native])
        self.counts.unbound += len(odd)
        return len(odd)

    def _offer(self, bound: Bound, rows: _Rows, values: npt.NDArray[Any], weight: int, strange: int) -> None:
        counter = bound.signal.is_counter
        if bound.signal.kind == "watermark":
            self.watermarks.add(bound.column)
        readable = values != np.uint64(ABSENT) if counter else ~np.isnan(values)
        says = int(np.count_nonzero(readable & rows.good)) * weight
        self.readable += says
        self.counts.unreadable += int(np.count_nonzero(rows.good)) * weight - says - strange
        for i, kind in enumerate(rows.kinds):
            which = rows.good & (rows.kind == i) if len(rows.kinds) > 1 else rows.good
            if not which.any():
                continue
            offers = _offers(bound, rows, values, weight)
            chosen = offers if which.all() else offers.take(np.flatnonzero(which))
            self.offers.setdefault(kind, {}).setdefault((bound.column, counter), []).append(chosen)


def _offers(bound: Bound, rows: _Rows, values: npt.NDArray[Any], weight: int) -> Offers:
    m = len(values)
    return Offers(
        row=rows.row, t_ns=rows.t_ns, owner=rows.stream * RANKS + bound.row.rank, values=values,
        width=np.full(m, bound.row.counted_bits if bound.signal.is_counter else 64, dtype=np.uint8),
        weight=np.full(m, weight, dtype=np.uint8),
    )  # fmt: skip
