"""The case of an open fault: all evidence on it and on what could be at fault in its place.

It is gathered from before the fault was told, and explained anew from time to time: a fault that was told too narrowly,
or of one direction too soon, is put right while it is young.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fleet.solve import CLOSE, Counted, Suspect, explain, neighbourhood
from railkeeper.health.fleet.state import PER_NEAR, Case
from railkeeper.health.fleet.take import counts_of
from railkeeper.health.fleet.windows import NOW
from railkeeper.health.track import CORRUPT, HARD, LOSS, SLOW

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.state import Columns, FleetLocator, Followed, Memory

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

BIG = 64  # links from which on a part is one of few that are worth their rows
LASTS_TICKS = 256
EVERY_TICKS = 4


def open_case(s: FleetLocator, m: Memory, family: str, part: int, columns: Columns, *, scale: int) -> Case:
    """Gather what is known around a part; its evidence is still in the windows."""
    parts = _around(s, part)
    links = np.unique(s.space.links_of_all(parts)[0]).astype(np.int64)
    rows = m.index.rows_over(np.concatenate([2 * links, 2 * links + 1]))
    hood = neighbourhood(m.index, s.space, np.union1d(parts, links), rows, m.part_scratch)
    n, x = counts_of(m, family, columns, rows, scale)
    clear = m.believed[family][rows] == 1
    keep = clear | (scale == NOW)
    return Case(
        family, hood, np.where(keep, n, 0).astype(float), np.where(keep, np.minimum(x, n), 0).astype(float), s.tick
    )


def _around(s: FleetLocator, part: int) -> Longs:
    """Return a part, what holds its links, and what it holds; of big parts only itself, or those of a single link."""
    links = s.space.links(part)
    held = s.space.parts_of_link[links]
    near: Longs = np.unique(held[held >= 0]).astype(np.int64)
    few = s.space.size(near) < BIG
    if len(links) < BIG and len(near) < 2 * BIG:
        return near
    return np.unique(np.array([*near[few].tolist(), part], dtype=np.int64))


def widen_case(s: FleetLocator, m: Memory, case: Case) -> Case:
    """Return a case with the rows that have come since; it is young again, since they may split what it could not."""
    links = np.unique(s.space.links_of_all(case.hood.parts)[0]).astype(np.int64)
    rows = m.index.rows_over(np.concatenate([2 * links, 2 * links + 1]))
    hood = neighbourhood(m.index, s.space, case.hood.parts, rows, m.part_scratch)
    at, there = _places(rows, case.hood.rows)
    n, x = np.zeros(len(rows)), np.zeros(len(rows))
    n[at], x[at] = case.n[there], case.x[there]
    return Case(case.family, hood, n, x, s.tick)


def add_tick(m: Memory, case: Case, columns: Columns) -> None:
    """Add a tick to a case."""
    n, x = counts_of(m, case.family, columns, case.hood.rows, NOW)
    case.n += n
    case.x += np.minimum(x, n)


def reconsider(s: FleetLocator, m: Memory, case: Case, f: Followed) -> list[Suspect]:
    """Return what explains a case, best first; open faults that the case can't explain are taken as given."""
    n, x = case.n.copy(), case.x.copy()
    survive = 1 - s.background[case.family] * PER_NEAR[m.index.group[case.hood.rows]].astype(np.float64)
    inside = set(case.hood.parts.tolist())
    for other in s.followed_of(LOSS, CORRUPT, HARD, SLOW):
        if other is f or (other.part in inside and other.tracked.family == case.family):
            continue
        at, there = _places(case.hood.rows, other.rows)
        if other.tracked.family in {HARD, SLOW}:
            n[at], x[at] = 0, 0
        elif other.tracked.family == case.family:
            survive[at] *= np.exp(-other.u * other.times[there])
    return explain(Counted(case.hood, n, x, survive), s.threshold)


def _places(rows: Longs, others: Longs) -> tuple[Longs, npt.NDArray[np.bool_]]:
    """Return places in `rows` of those `others` that are there, and which of them are."""
    at = np.minimum(np.searchsorted(rows, others), max(len(rows) - 1, 0))
    there = rows[at] == others if len(rows) else np.zeros(len(others), dtype=np.bool_)
    return at[there], there


def better(s: FleetLocator, found: list[Suspect], f: Followed, wanted: int = -1) -> Suspect | None:
    """Return the suspect that a fault is of after all; None where none is clearly better.

    A part that is `wanted` for other evidence need not be clearly better: one of the two explains both.
    """
    mine = set(s.space.links(f.part).tolist())
    for suspect in sorted(found, key=lambda x: -x.llr):
        if suspect.part == f.part:
            return suspect
        if not mine.isdisjoint(s.space.links(suspect.part).tolist()):
            sure = suspect.part == wanted or suspect.margin >= CLOSE or f.part not in suspect.rivals
            return suspect if sure else None
    return None


def old(s: FleetLocator, case: Case) -> bool:
    """Return whether a case has lasted long enough."""
    return s.tick - case.opened > LASTS_TICKS
