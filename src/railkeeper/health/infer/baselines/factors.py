"""NetBouncer: latent chances to pass each link, fitted by regularised least squares (Tan et al., NSDI 2019).

Rows are weighted by their packets: unweighted, a flow of seven packets counts as much as one of 70,000, and the method
blames good links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer.baselines.factor_kernels import descend
from railkeeper.health.infer.baselines.rows import parts_of_rows
from railkeeper.health.infer.ledger_kernels import turned

if TYPE_CHECKING:
    from railkeeper.health.infer.problem import Problem

PULL, LOST, UNCLEAN = 25.0, 1e-3, 0.3
_SWEEPS, _ENOUGH = 100, 1e-6


def blame_by_factors(
    problem: Problem, pull: float = PULL, lost: float = LOST, unclean: float = UNCLEAN
) -> tuple[int, ...]:
    """Return the parts and composites to blame.

    A composite is blamed first, if this share of the rows across it lost something; its parts and rows are put aside.
    Then parts that lose more than `lost` by the fit.
    """
    rows = np.flatnonzero(problem.obs.sent > 0)
    parts = parts_of_rows(problem, rows)
    n, x = problem.obs.sent[rows].astype(np.float64), problem.obs.lost[rows]
    start, of = turned(parts.start, parts.ids, problem.n_parts)
    out, aside = [], np.zeros(len(rows), dtype=np.bool_)
    for j in range(len(problem.composites)):
        own = [of[start[p] : start[p + 1]] for p in problem.composites.row(j)]
        over = np.unique(np.concatenate(own)) if own else np.zeros(0, dtype=np.int32)
        if len(over) and (x[over] > 0).mean() >= unclean:
            out.append(problem.n_parts + j)
            aside[over] = True
    weight = np.where(aside, 0.0, n)
    chance = descend(len(rows), start, of, 1.0 - x / n, weight, pull, _SWEEPS, _ENOUGH)
    crossed = np.bincount(parts.ids, np.repeat(weight, np.diff(parts.start)), problem.n_parts) > 0
    return (*out, *np.flatnonzero(crossed & (1.0 - chance > lost)).tolist())
