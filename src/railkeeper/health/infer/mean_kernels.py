"""Log-likelihood of lossy rows as a function of the mean rate of good parts, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from railkeeper.health.infer.score_kernels import LOSSY_ONLY, MOST_WAYS, _row, _ways, chance


@njit(cache=True, nogil=True)
def lossy_rows(means: Any, now: float, known: Any, mixed: Any, rate: Any, bad: Any, known_rate: Any, known_good: Any,
               path_rate: Any) -> Any:  # fmt: skip
    """Return (means,) what rows with a loss say of each mean, less what their packets say (which is linear).

    `now` is the mean that the present rates hold. Rows that were not chosen for their loss have n times the number of
    good parts times the mean given back, since the packets of all rows are counted by the caller.
    """
    out = np.zeros(len(means))
    for i in range(len(known.n)):
        if known.x[i] > 0:
            for k in range(len(means)):
                shift = known_good[i] * (means[k] - now)
                out[k] += chance(known.n[i], known.x[i], known_rate[i] + shift) + known.n[i] * known_good[i] * means[k]
    way_rate, way_share = np.empty(MOST_WAYS + 1), np.empty(MOST_WAYS + 1)
    way_in, shifted = np.zeros(MOST_WAYS + 1, dtype=np.int64), np.empty(MOST_WAYS + 1)
    for s in range(len(mixed.set_row) - 1):
        ways = 0
        for i in range(mixed.set_row[s], mixed.set_row[s + 1]):
            if mixed.x[i] == 0:
                continue
            if ways == 0:
                ways = _ways(-1, s, mixed, path_rate, 0.0, way_rate, way_share, way_in)
            p = mixed.set_path[mixed.set_start[s]]
            good = float(mixed.path_start[p + 1] - mixed.path_start[p])
            ends = 0.0
            for j in range(2):
                if mixed.ends[i, j] >= 0:
                    ends += rate[mixed.ends[i, j]]
                    good += not bad[mixed.ends[i, j]]
            for k in range(len(means)):
                shift = good * (means[k] - now)
                for w in range(ways):
                    shifted[w] = max(way_rate[w] + ends + shift, 1e-12)
                taken = path_rate[mixed.path[i]] + ends + shift if mixed.path[i] >= 0 else 0.0
                out[k] += _row(mixed.kind[i], mixed.n[i], mixed.x[i], taken, 0, shifted, way_share, way_in, ways, 0.0)
                if mixed.kind[i] != LOSSY_ONLY:
                    out[k] += mixed.n[i] * good * means[k]
    return out
