"""007: every flow with a loss gives each of the h links of its path 1/h of a vote (Arzani et al., NSDI 2018).

The link with the most votes is blamed, the flows over it are explained and take their votes back, and so on while the
top link holds at least a share of all votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer.baselines.rows import parts_of_rows
from railkeeper.health.infer.ledger_kernels import turned

if TYPE_CHECKING:
    from railkeeper.health.infer.problem import Problem

SHARE = 0.01
"""The paper's: blamed is who holds at least one percent of the votes."""


def blame_by_votes(problem: Problem, share: float = SHARE) -> tuple[int, ...]:
    """Return the parts to blame, the most voted first."""
    rows = np.flatnonzero(problem.obs.lost > 0)
    parts = parts_of_rows(problem, rows)
    hops = np.diff(parts.start)
    each = 1.0 / np.maximum(hops, 1)
    votes = np.bincount(parts.ids, np.repeat(each, hops), problem.n_parts)
    start, of = turned(parts.start, parts.ids, problem.n_parts)
    least, left = share * votes.sum(), np.ones(len(rows), dtype=np.bool_)
    out: list[int] = []
    while votes.max(initial=0.0) >= max(least, 1e-9) and len(out) < problem.n_parts:
        top = int(votes.argmax())
        out.append(top)
        for row in of[start[top] : start[top + 1]]:
            if left[row]:
                left[row] = False
                votes[parts.row(row)] -= each[row]
        votes[top] = -1.0
    return tuple(out)
