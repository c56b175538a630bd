"""Log-likelihoods of rows as functions of one part's rate, compiled.

Rates are -log(1 - share lost), so that they add along a path. A row that sent n and lost x over a path of rate R has
x log(1 - exp(-R)) - (n - x) R.
"""

from __future__ import annotations

from math import exp, expm1, lgamma, log, log1p
from typing import Any

import numpy as np
from numba import njit

ONE_OF, SPRAYED, LOSSY_ONLY = 1, 2, 3
MOST_WAYS = 64
_NONE = -1e300
_LEAST = 1e-12


@njit(cache=True, nogil=True)
def chance(n: float, x: float, rate: float) -> float:
    """Return the log-likelihood of a row over a path of this rate."""
    rate = max(rate, _LEAST)
    lost = log(rate) - 0.5 * rate if rate < 1e-4 else log(-expm1(-rate))
    return x * lost - (n - x) * rate if x > 0 else -n * rate


@njit(cache=True, nogil=True)
def uneven(n: float, x: float, rate: float, spread: float) -> float:
    """Return the same where the rate is uncertain with the variance `spread` (gamma): a negative binomial."""
    size = rate * rate / spread
    mean = n * rate
    if x == 0:
        return -size * log1p(mean / size)
    return lgamma(x + size) - lgamma(size) - size * log1p(mean / size) + x * log(mean / (size + mean))


@njit(cache=True, nogil=True)
def add_logs(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a + log1p(exp(b - a)) if b > _NONE / 2 else a


@njit(cache=True, nogil=True)
def refresh(known: Any, mixed: Any, rate: Any, bad: Any, known_rate: Any, known_good: Any, path_rate: Any) -> None:
    """Fill the rates of known rows (all parts; number of good parts) and of all paths, in place."""
    for i in range(len(known.n)):
        total, good = 0.0, 0
        for j in range(known.start[i], known.start[i + 1]):
            total += rate[known.part[j]]
            good += not bad[known.part[j]]
        known_rate[i], known_good[i] = total, good
    if len(mixed.n):
        for p in range(len(path_rate)):
            total = 0.0
            for j in range(mixed.path_start[p], mixed.path_start[p + 1]):
                total += rate[mixed.path_part[j]]
            path_rate[p] = total


@njit(cache=True, nogil=True)
def shift(part: int, more: float, good: int, known: Any, mixed: Any, known_rate: Any, known_good: Any,
          path_rate: Any, seen: Any, mark: int) -> None:  # fmt: skip
    """Bring the rates up to date, in place, after a part's rate rose by `more`.

    `good`: 1 if the part became good, -1 if it became bad, else 0. `seen` (paths,) remembers by a new `mark` each time
    which paths were done, since sets share them.
    """
    for j in range(known.of_start[part], known.of_start[part + 1]):
        known_rate[known.of_row[j]] += more
        known_good[known.of_row[j]] += good
    for a in range(mixed.of_start[part], mixed.of_start[part + 1]):
        s = mixed.of_set[a]
        for b in range(mixed.set_start[s], mixed.set_start[s + 1]):
            p = mixed.set_path[b]
            if seen[p] == mark:
                continue
            seen[p] = mark
            for j in range(mixed.path_start[p], mixed.path_start[p + 1]):
                path_rate[p] += more if mixed.path_part[j] == part else 0.0
        for i in range(mixed.set_row[s], mixed.set_row[s + 1]):
            p = mixed.path[i]
            if p >= 0 and seen[p] != mark:
                seen[p] = mark
                for j in range(mixed.path_start[p], mixed.path_start[p + 1]):
                    path_rate[p] += more if mixed.path_part[j] == part else 0.0


@njit(cache=True, nogil=True)
def _ways(part: int, s: int, mixed: Any, path_rate: Any, own: float, way_rate: Any, way_share: Any, way_in: Any) -> int:
    """Group the paths of a set by rate and by whether they cross the part; returns the number of groups.

    `own` is the part's present rate, which is taken off the paths that cross it. part -1: none crosses.
    """
    ways = 0
    weight = 1.0 / (mixed.set_start[s + 1] - mixed.set_start[s])
    for a in range(mixed.set_start[s], mixed.set_start[s + 1]):
        p = mixed.set_path[a]
        inside = 0
        for j in range(mixed.path_start[p], mixed.path_start[p + 1]):
            inside += mixed.path_part[j] == part
        rate = path_rate[p] - inside * own
        w = 0
        while w < ways and (way_in[w] != inside or abs(way_rate[w] - rate) > 1e-9 + 1e-3 * rate):
            w += 1
        if w == MOST_WAYS:
            w -= 1
        if w == ways:
            way_rate[w], way_share[w], way_in[w] = rate, 0.0, inside
            ways += 1
        way_share[w] += weight
    return ways


@njit(cache=True, nogil=True, inline="always")
def _one_of(n: float, x: float, rate: Any, share: Any, times: Any, ways: int, r: float) -> float:
    total = _NONE
    for w in range(ways):
        total = add_logs(total, log(share[w]) + chance(n, x, rate[w] + times[w] * r))
    return total


@njit(cache=True, nogil=True, inline="always")
def _some_loss(n: float, rate: Any, share: Any, times: Any, ways: int, r: float) -> float:
    total = 0.0
    for w in range(ways):
        total += share[w] * -expm1(-n * max(rate[w] + times[w] * r, _LEAST))
    return log(total)


@njit(cache=True, nogil=True, inline="always")
def _sprayed(n: float, x: float, rate: Any, share: Any, times: Any, ways: int, r: float) -> float:
    total = 0.0
    for w in range(ways):
        total += share[w] * -expm1(-max(rate[w] + times[w] * r, _LEAST))
    return x * log(total) + (n - x) * log1p(-min(total, 1 - 1e-15))


@njit(cache=True, nogil=True, inline="always")
def _row(kind: int, n: float, x: float, taken: float, on: int, rate: Any, share: Any, times: Any, ways: int,
         r: float) -> float:  # fmt: skip
    """Return the log-likelihood of a mixed row; `taken` and `on`: rate of the path taken, crossings of the part."""
    if kind == ONE_OF:
        return _one_of(n, x, rate, share, times, ways, r)
    if kind == SPRAYED:
        return _sprayed(n, x, rate, share, times, ways, r)
    return chance(n, x, taken + on * r) - _some_loss(n, rate, share, times, ways, r)


@njit(cache=True, nogil=True, inline="always")
def _end_rate(i: int, mixed: Any, rate: Any) -> float:
    total = 0.0
    for j in range(2):
        if mixed.ends[i, j] >= 0:
            total += rate[mixed.ends[i, j]]
    return total


@njit(cache=True, nogil=True)
def curve(part: int, grid: Any, plain: Any, known: Any, mixed: Any, rate: Any, spread: float, known_rate: Any,
          known_good: Any, path_rate: Any, good: bool) -> Any:  # fmt: skip
    """Return (rates of the grid,) log-likelihood of the part's rate, all other rates as they are.

    `spread` is the variance of good parts' rates; `good` tells whether this part is counted as good now.
    """
    out = -plain[part] * grid
    own = rate[part]
    j, end = known.of_start[part], known.of_start[part + 1]
    while j < end:
        i, times = known.of_row[j], 1
        while j + times < end and known.of_row[j + times] == i:
            times += 1
        j += times
        rest = max(known_rate[i] - times * own, 0.0)
        n, x = known.n[i], known.x[i]
        v = spread * (known_good[i] - (times if good else 0))
        loose = n * n * v > 0.1 * n * rest and v > 0
        for k in range(len(grid)):
            r = rest + times * grid[k]
            out[k] += uneven(n, x, r, v) if loose else chance(n, x, r)
    if len(mixed.n):
        _curve_mixed(part, grid, mixed, rate, path_rate, out)
    return out


@njit(cache=True, nogil=True)
def _curve_mixed(part: int, grid: Any, mixed: Any, rate: Any, path_rate: Any, out: Any) -> None:
    """Add the log-likelihood of rows of sets whose paths or ends cross the part."""
    own = rate[part]
    way_rate, way_share = np.empty(MOST_WAYS + 1), np.empty(MOST_WAYS + 1)
    way_in, shifted = np.empty(MOST_WAYS + 1, dtype=np.int64), np.empty(MOST_WAYS + 1)
    for a in range(mixed.of_start[part], mixed.of_start[part + 1]):
        s = mixed.of_set[a]
        ways = _ways(part, s, mixed, path_rate, own, way_rate, way_share, way_in)
        for i in range(mixed.set_row[s], mixed.set_row[s + 1]):
            if mixed.kind[i] == ONE_OF and mixed.x[i] == 0:
                _no_loss(mixed.n[i], mixed.weight[i], way_rate, way_share, way_in, ways, grid, out)
                continue
            ends, on, taken = _end_rate(i, mixed, rate), 0, 0.0
            for w in range(ways):
                shifted[w] = way_rate[w] + ends
            if mixed.path[i] >= 0:
                p = mixed.path[i]
                for b in range(mixed.path_start[p], mixed.path_start[p + 1]):
                    on += mixed.path_part[b] == part
                taken = path_rate[p] - on * own + ends
            if mixed.kind[i] == ONE_OF:
                _some_lost(mixed.n[i], mixed.x[i], mixed.weight[i], shifted, way_share, way_in, ways, grid, out)
                continue
            if mixed.kind[i] == LOSSY_ONLY:
                _reported(mixed.n[i], mixed.x[i], taken, on, shifted, way_share, way_in, ways, grid, out)
                continue
            for k in range(len(grid)):
                out[k] += mixed.weight[i] * _row(
                    mixed.kind[i], mixed.n[i], mixed.x[i], taken, on, shifted, way_share, way_in, ways, grid[k]
                )
    for a in range(mixed.end_start[part], mixed.end_start[part + 1]):
        i = mixed.end_row[a]
        s = mixed.of_row[i]
        ways = _ways(-1, s, mixed, path_rate, 0.0, way_rate, way_share, way_in)
        ends = _end_rate(i, mixed, rate) - own
        for w in range(ways):
            shifted[w], way_in[w] = way_rate[w] + ends, 1
        taken = path_rate[mixed.path[i]] + ends if mixed.path[i] >= 0 else 0.0
        for k in range(len(grid)):
            out[k] += mixed.weight[i] * _row(
                mixed.kind[i], mixed.n[i], mixed.x[i], taken, 1, shifted, way_share, way_in, ways, grid[k]
            )


@njit(cache=True, nogil=True)
def _no_loss(n: float, weight: float, rate: Any, share: Any, times: Any, ways: int, grid: Any, out: Any) -> None:
    """Add what rows say that lost nothing on one of a set's paths: the common case, without a logarithm a path."""
    least = rate[0]
    for w in range(1, ways):
        least = min(least, rate[w])
    without, across, twice = 0.0, 0.0, False
    for w in range(ways):
        passed = share[w] * exp(-n * (rate[w] - least))
        if times[w] == 0:
            without += passed
        else:
            across += passed
            twice = twice or times[w] > 1
    for k in range(len(grid)):
        total = without + across * exp(-n * grid[k])
        if twice:
            total = without
            for w in range(ways):
                total += share[w] * exp(-n * (rate[w] - least + times[w] * grid[k])) if times[w] else 0.0
        out[k] += weight * log(max(total, 1e-300))


@njit(cache=True, nogil=True)
def _some_lost(n: float, x: float, weight: float, rate: Any, share: Any, times: Any, ways: int, grid: Any,
               out: Any) -> None:  # fmt: skip
    """Add what rows say that lost something on one of a set's paths; ways around the part are summed up once."""
    without = _NONE
    for w in range(ways):
        if times[w] == 0:
            without = add_logs(without, log(share[w]) + chance(n, x, rate[w]))
    for k in range(len(grid)):
        total = without
        for w in range(ways):
            if times[w]:
                total = add_logs(total, log(share[w]) + chance(n, x, rate[w] + times[w] * grid[k]))
        out[k] += weight * total


@njit(cache=True, nogil=True)
def _reported(n: float, x: float, taken: float, on: int, rate: Any, share: Any, times: Any, ways: int, grid: Any,
              out: Any) -> None:  # fmt: skip
    """Add what a row says that was reported for its loss; ways around the part are summed up once."""
    without = 0.0
    for w in range(ways):
        if times[w] == 0:
            without -= share[w] * expm1(-n * max(rate[w], _LEAST))
    own = chance(n, x, taken)
    for k in range(len(grid)):
        total = without
        for w in range(ways):
            if times[w]:
                total -= share[w] * expm1(-n * max(rate[w] + times[w] * grid[k], _LEAST))
        out[k] += (chance(n, x, taken + on * grid[k]) if on else own) - log(total)


@njit(cache=True, nogil=True)
def screen(grid: Any, plain: Any, known: Any, mixed: Any, rate: Any, mean: float, spread: float, known_rate: Any,
           known_good: Any, path_rate: Any) -> Any:  # fmt: skip
    """Return (parts, grid) roughly how much the log-likelihood grows when a part's rate rises by so much."""
    parts, m = len(plain), len(grid)
    out = np.zeros((parts, m))
    gain = np.empty(m)
    for part in range(parts):
        for k in range(m):
            out[part, k] = -plain[part] * grid[k]
    for i in range(len(known.n)):
        n, x, r, v = known.n[i], known.x[i], known_rate[i], spread * (known_good[i] - 1)
        loose = n * v > 0.1 * r and v > 0
        for k in range(m):
            after = max(r + grid[k], _LEAST)
            gain[k] = uneven(n, x, after, v) - uneven(n, x, r, v) if loose else chance(n, x, after) - chance(n, x, r)
        for j in range(known.start[i], known.start[i + 1]):
            for k in range(m):
                out[known.part[j], k] += gain[k]
    if len(mixed.n):
        _screen_mixed(grid, mixed, rate, mean, path_rate, out)
    return out


@njit(cache=True, nogil=True)
def _screen_mixed(grid: Any, mixed: Any, rate: Any, mean: float, path_rate: Any, out: Any) -> None:
    m = len(grid)
    way_rate, way_share = np.empty(MOST_WAYS + 1), np.empty(MOST_WAYS + 1)
    way_in, shares, gains = np.empty(MOST_WAYS + 1, dtype=np.int64), np.empty(MOST_WAYS), np.empty((MOST_WAYS, m))
    shifted = np.empty(MOST_WAYS + 1)
    for s in range(len(mixed.set_row) - 1):
        if mixed.set_row[s] == mixed.set_row[s + 1]:
            continue
        ways = _ways(-1, s, mixed, path_rate, 0.0, way_rate, way_share, way_in)
        kinds = 0
        for a in range(mixed.in_start[s], mixed.in_start[s + 1]):
            b = 0
            while b < kinds and abs(shares[b] - mixed.in_share[a]) > 1e-6:
                b += 1
            if b == kinds and kinds < MOST_WAYS:
                shares[b] = mixed.in_share[a]
                gains[b, :] = 0.0
                kinds += 1
        p = mixed.set_path[mixed.set_start[s]]
        clean = mean * (mixed.path_start[p + 1] - mixed.path_start[p])
        for i in range(mixed.set_row[s], mixed.set_row[s + 1]):
            ends = _end_rate(i, mixed, rate)
            for w in range(ways):
                shifted[w] = way_rate[w] + ends
            _screen_row(i, grid, mixed, shifted, way_share, way_in, ways, clean + ends, shares, gains, kinds,
                        path_rate, ends, out)  # fmt: skip
        for a in range(mixed.in_start[s], mixed.in_start[s + 1]):
            b = 0
            while b < kinds - 1 and abs(shares[b] - mixed.in_share[a]) > 1e-6:
                b += 1
            for k in range(m):
                out[mixed.in_part[a], k] += gains[b, k]


@njit(cache=True, nogil=True)
def _screen_row(i: int, grid: Any, mixed: Any, rate: Any, share: Any, times: Any, ways: int, clean: float,
                shares: Any, gains: Any, kinds: int, path_rate: Any, ends: float, out: Any) -> None:  # fmt: skip
    """Add what a row says for each share of paths to `gains`, for its ends and the path it took to `out`."""
    n, x, weight, kind = mixed.n[i], mixed.x[i], mixed.weight[i], mixed.kind[i]
    if kind == ONE_OF and x == 0:
        passed = 0.0
        for w in range(ways):
            passed += share[w] * exp(-n * (rate[w] - clean))
        for k in range(len(grid)):
            lift = exp(-n * grid[k]) / max(passed, 1e-300) - 1.0
            for b in range(kinds):
                gains[b, k] += weight * log(max(1.0 + shares[b] * lift, 1e-300))
        return
    taken = path_rate[mixed.path[i]] + ends if mixed.path[i] >= 0 else 0.0
    now = _row(mixed.kind[i], mixed.n[i], mixed.x[i], taken, 0, rate, share, times, ways, 0.0)
    seen = _some_loss(n, rate, share, times, ways, 0.0) if kind == LOSSY_ONLY else 0.0
    for k in range(len(grid)):
        for b in range(kinds):
            if kind == ONE_OF:
                more = chance(n, x, clean + grid[k]) - now + log(shares[b])
                less = log(max(1.0 - shares[b], 1e-300))
                gains[b, k] += weight * add_logs(more, less)
            elif kind == SPRAYED:
                total = 0.0
                for w in range(ways):
                    total += share[w] * -expm1(-max(rate[w], _LEAST))
                after = min(total + shares[b] * -expm1(-grid[k]), 1 - 1e-15)
                gains[b, k] += weight * (x * log(after / total) + (n - x) * (log1p(-after) - log1p(-total)))
            else:
                after = exp(seen) + shares[b] * (exp(-n * clean) - exp(-n * (clean + grid[k])))
                gains[b, k] -= weight * (log(after) - seen)
        on = 0.0
        if kind == LOSSY_ONLY:
            on = chance(n, x, taken + grid[k]) - chance(n, x, taken)
            p = mixed.path[i]
            for j in range(mixed.path_start[p], mixed.path_start[p + 1]):
                out[mixed.path_part[j], k] += weight * on
        if mixed.ends[i, 0] >= 0 or mixed.ends[i, 1] >= 0:
            for w in range(ways):
                times[w] = 1
            own = _row(mixed.kind[i], mixed.n[i], mixed.x[i], taken, 1, rate, share, times, ways, grid[k]) - now
            for w in range(ways):
                times[w] = 0
            for j in range(2):
                if mixed.ends[i, j] >= 0:
                    out[mixed.ends[i, j], k] += weight * own
