"""When many parts of one composite are at fault, the composite is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer.problem import csr

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Csr

LEAST_SHARE = 0.2
"""A composite at fault has from this share to all of its parts at fault, each share as likely."""

FOR_SURE = 3.0
"""Natural logarithm of the odds that must stand for the composite."""

_SHARES = np.linspace(LEAST_SHARE, 1.0 - 1e-9, 81)


@dataclass(frozen=True)
class Whole:
    """A composite at fault, its parts at fault, and the logarithm of the odds for it."""

    composite: int
    parts: tuple[int, ...]
    log_odds: float


def wholes(composites: Csr, used: npt.NDArray[np.bool_], faults: list[int]) -> list[Whole]:
    """Return the composites that explain faults better than their parts do, each part in one composite.

    `used` (parts,): parts that any packet crossed. Chances: of any composite one in all is expected to be at fault; of
    parts as many as are found outside the composite, and one.
    """
    out: list[Whole] = []
    left = set(faults)
    holders = _holders(composites, len(used))
    while left:
        found = [_judge(composites, used, left, j) for j in sorted({j for p in left for j in holders.row(p).tolist()})]
        best = max(found, key=lambda w: w.log_odds, default=None)
        if best is None or best.log_odds < FOR_SURE:
            break
        out.append(best)
        left -= set(best.parts)
    return out


def _holders(composites: Csr, parts: int) -> Csr:
    rows: list[list[int]] = [[] for _ in range(parts)]
    for j in range(len(composites)):
        for part in composites.row(j).tolist():
            rows[part].append(j)
    return csr(rows)


def _judge(composites: Csr, used: npt.NDArray[np.bool_], left: set[int], j: int) -> Whole:
    own = composites.row(j)
    own = own[used[own]]
    hit = tuple(int(p) for p in own if int(p) in left)
    alone = math.log((len(left) - len(hit) + 1) / max(int(used.sum()), 1))
    good = len(own) - len(hit)
    chances = len(hit) * np.log(_SHARES) + good * np.log1p(-_SHARES)
    together = float(np.logaddexp.reduce(chances)) - math.log(len(_SHARES) * len(composites))
    return Whole(j, hit, together - len(hit) * alone)
