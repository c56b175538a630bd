"""Location where one good row clears all that it crosses: death, added delay, lack of speed.

A dead link lets nothing pass, a slow or delayed one nothing fast. So a single row that did well proves each of its
links innocent, and what is left must explain the bad rows with as few parts as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.parts import Part
    from railkeeper.health.rows import Table

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Culprit:
    """A part that explains bad rows.

    `directions` fit equally, `ties` are other parts that would explain as much; `hyp` is the table's number.
    """

    part: Part
    direction: int
    directions: tuple[int, ...]
    ties: tuple[Part, ...]
    hyp: int
    weight: float


def explain_strict(table: Table, bad: Floats, good: Bools, least: float, held: frozenset[int]) -> list[Culprit]:
    """Return the fewest parts that explain the bad rows.

    - bad: (rows,) weight of the evidence that a row is bad, 0 where it is not
    - good: (rows,) rows that clear what they cross
    - least: weight below which a remainder stays unexplained
    - held: numbers of parts already believed to fail: they win ties
    """
    innocent = table.total(good) > 0
    left = bad.copy()
    out: list[Culprit] = []
    while True:
        weight = table.total(left)
        weight[innocent] = 0.0
        top = float(weight.max(initial=0.0))
        if top < least:
            return out
        ties = np.flatnonzero(weight >= top * (1 - 1e-9))
        first = _preferred(table, ties, held)
        left[table.rows_of(first)[0]] = 0.0
        same = ties[table.total(left)[ties] <= top * 1e-9] if len(ties) > 1 else ties
        out.append(_culprit(table, same, first, top))


def _preferred(table: Table, ties: npt.NDArray[np.int64], held: frozenset[int]) -> int:
    """Among hypotheses that explain as much, take a part already believed, else the smallest; of directions, both."""
    return int(min(ties, key=lambda h: (h // 3 not in held, len(table.parts[h // 3].links), -(h % 3))))


def _culprit(table: Table, ties: npt.NDArray[np.int64], first: int, weight: float) -> Culprit:
    part = first // 3
    directions = tuple(int(h) % 3 for h in ties if int(h) // 3 == part)
    others = tuple(table.parts[p] for p in dict.fromkeys((ties // 3).tolist()) if p != part)
    return Culprit(table.parts[part], first % 3, directions, others, first, weight)
