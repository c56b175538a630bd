"""Rows of known paths as parts of rows, for methods that know nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer.problem import Csr

if TYPE_CHECKING:
    from railkeeper.health.infer.problem import Longs, Problem


def parts_of_rows(problem: Problem, rows: Longs) -> Csr:
    """Return the parts (path and ends) of rows whose paths are known."""
    route = problem.obs.route[rows]
    begin, size = problem.paths.start[route], np.diff(problem.paths.start)[route]
    start = np.concatenate([[0], np.cumsum(size + 2)])
    out = np.full(start[-1], -1, dtype=np.int32)
    inside = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    out[np.repeat(start[:-1], size) + inside] = problem.paths.ids[np.repeat(begin, size) + inside]
    for j in range(2):
        out[start[:-1] + size + j] = problem.obs.ends[rows, j]
    kept = np.concatenate([[0], np.cumsum(out >= 0)])
    return Csr(kept[start].astype(np.int64), out[out >= 0])
