"""Plans: what to do with readings of one shape (same dialect, same names), worked out once and used for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.telemetry.bind import Bound, Known, bound, valid_part
from railkeeper.telemetry.frame import ABSENT
from railkeeper.telemetry.signals import NUMBERED
from railkeeper.telemetry.values import by_lane, column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.telemetry.bind import Binder
    from railkeeper.telemetry.bindings import Dialect

# Queues and lanes whose name ends with their number.
_QUEUE = re.compile(r"(?:queue|q|uc|tc|lane|channel|priority)?[-_ ]?0{0,8}(\d{1,4})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Slot:
    """One column that readings of a shape give: from which of their values, and what that is."""

    bound: Bound
    takes: tuple[int, ...]
    spread: bool = False  # one value holds those of all lanes


@dataclass(frozen=True)
class Plan:
    """What readings of one shape give.

    - slots: columns; beside: values of a column that another value of the same reading gives better
    - known: values that are understood and not wanted; unbound: values of unknown names; broken: values of a sum of
      which one is missing
    """

    names: tuple[str, ...]
    slots: tuple[Slot, ...]
    beside: int
    known: int
    unbound: tuple[int, ...]
    broken: int


@dataclass
class Strange:
    """Text that is neither a number nor a known state: index of the reading and of the value."""

    where: list[tuple[int, int]] = field(default_factory=list)


def make_plan(binder: Binder, dialect: Dialect | None, name: str, names: tuple[str, ...], part: str) -> Plan:
    """Work out what readings of these names give; `part` is what their label says."""
    found = [binder.look(name, native) for native in names]
    slots, beside, broken, unbound = _slots(dialect, found, part)
    known = sum(isinstance(f, Known) for f in found)
    unknown = [i for i, f in enumerate(found) if f is None]
    return Plan(names, tuple(slots), beside, known, tuple(sorted(unknown + unbound)), broken)


def _slots(
    dialect: Dialect | None, found: Sequence[Bound | Known | None], part: str
) -> tuple[list[Slot], int, int, list[int]]:
    groups: dict[tuple[str, str], list[tuple[int, Bound]]] = {}
    slots, unbound = [], []
    for i, hit in enumerate(found):
        if not isinstance(hit, Bound):
            continue
        if hit.row.form in ("lanes", "list"):
            slots.append(Slot(hit, (i,), spread=True))
            continue
        whole = _with_part(hit, part)
        if whole is None:
            unbound.append(i)
        else:
            groups.setdefault((whole.signal.entity, whole.column), []).append((i, whole))
    beside = broken = 0
    for members in groups.values():
        slot, left, lost = _slot(dialect, members)
        slots += [slot] if slot else []
        beside, broken = beside + left, broken + lost
    return slots, beside, broken, unbound


def _with_part(hit: Bound, part: str) -> Bound | None:
    """Give a name whose part is in a label that part; None where the label says none."""
    if not hit.signal.parts or hit.part:
        return hit
    numbered = _QUEUE.fullmatch(part) if hit.signal.parts in NUMBERED else None
    part = numbered[1] if numbered else part
    return bound(hit.row, part) if valid_part(hit.signal, part) else None


def _slot(dialect: Dialect | None, members: list[tuple[int, Bound]]) -> tuple[Slot | None, int, int]:
    """Return the slot of one column, how many values stand back for a better one, and how many make no whole sum."""
    ways: dict[tuple[int, str], list[tuple[int, Bound]]] = {}
    for i, hit in members:
        ways.setdefault((hit.row.rank, hit.row.adds or hit.row.native), []).append((i, hit))
    whole = [
        way for _, way in sorted(ways.items()) if not way[0][1].row.adds or len(way) == _wanted(dialect, way[0][1])
    ]
    if not whole:
        return None, 0, len(members)
    best = whole[0]
    return Slot(best[0][1], tuple(i for i, _ in best)), len(members) - len(best), 0


def _wanted(dialect: Dialect | None, hit: Bound) -> int:
    """Return how many native names make the whole sum."""
    rows = dialect.rows if dialect else ()
    return sum(r.adds == hit.row.adds and r.signal == hit.signal and r.part == hit.row.part for r in rows)


def slot_values(slot: Slot, columns: Sequence[Sequence[Any]], strange: Strange) -> npt.NDArray[Any]:
    """Return (m,) values of a column: a sum is absent where one of its parts is."""
    total: npt.NDArray[Any] | None = None
    for i in slot.takes:
        column = column_of(slot.bound.row, columns[i])
        strange.where += [(j, i) for j in column.strange]
        if total is None:
            total = column.values
        elif slot.bound.signal.is_counter:
            none = (total == np.uint64(ABSENT)) | (column.values == np.uint64(ABSENT))
            total = np.where(none, np.uint64(ABSENT), total + column.values)
        else:
            total = total + column.values
    assert total is not None
    return total


def spread(slot: Slot, values: Sequence[Any], strange: Strange) -> list[tuple[Bound, list[int], list[Any]]]:
    """Return, for each lane, which readings have it and what they say."""
    found: dict[str, tuple[list[int], list[Any]]] = {}
    for j, value in enumerate(values):
        lanes = by_lane(slot.bound.row, value)
        if lanes is None:
            strange.where.append((j, slot.takes[0]))
            continue
        for lane, one in lanes:
            if not valid_part(slot.bound.signal, lane):
                strange.where.append((j, slot.takes[0]))
                continue
            rows, says = found.setdefault(str(int(lane)), ([], []))
            rows.append(j)
            says.append(one)
    return [(bound(slot.bound.row, lane), rows, says) for lane, (rows, says) in found.items()]
