"""Compiled loops of the likelihood: which rows of a neighbourhood cross which suspects, and each suspect's best rate.

A hypothesis is 3 * part + direction (0 up, 1 down, 2 both). A row of n probes that lost x and crosses a hypothesis m
times survives it with exp(-m u), where u = -log(1 - rate):

    log L(u) = sum over rows of x log(1 - S exp(-m u)) - (n - x) m u,    S: chance to survive all else

which is concave in u.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

U_MAX = 16.0  # a rate of 1 - 1e-7: as good as dead
STEPS = 30


@njit(cache=True)
def incidence(rows: Longs, crossed: Ints, parts_of_link: Ints, local: Ints, n_local: int) -> tuple[Longs, Ints, Floats]:
    """Return (start, row, times) by hypothesis; `local` (parts,) numbers the suspected parts, -1 for others."""
    start = np.zeros(3 * n_local + 1, dtype=np.int64)
    hyps, times = np.empty(72, dtype=np.int64), np.empty(72, dtype=np.int64)
    for i in range(len(rows)):
        for j in range(_hyps_of(rows[i], crossed, parts_of_link, local, hyps, times)):
            start[hyps[j] + 1] += 1
    for h in range(3 * n_local):
        start[h + 1] += start[h]
    at = start.copy()
    row, count = np.empty(start[-1], dtype=np.int32), np.empty(start[-1], dtype=np.float64)
    for i in range(len(rows)):
        for j in range(_hyps_of(rows[i], crossed, parts_of_link, local, hyps, times)):
            row[at[hyps[j]]], count[at[hyps[j]]] = i, times[j]
            at[hyps[j]] += 1
    return start, row, count


@njit(cache=True)
def _hyps_of(row: int, crossed: Ints, parts_of_link: Ints, local: Ints, hyps: Longs, times: Longs) -> int:
    n = 0
    for c in crossed[row]:
        if c < 0:
            continue
        for k in range(parts_of_link.shape[1]):
            part = parts_of_link[c >> 1, k]
            if part >= 0 and local[part] >= 0:
                n = _count(hyps, times, n, 3 * local[part] + (c & 1))
                n = _count(hyps, times, n, 3 * local[part] + 2)
    return n


@njit(cache=True)
def _count(hyps: Longs, times: Longs, n: int, hyp: int) -> int:
    for i in range(n):
        if hyps[i] == hyp:
            times[i] += 1
            return n
    hyps[n], times[n] = hyp, 1
    return n + 1


@njit(cache=True)
def score(
    start: Longs, row: Ints, times: Floats, todo: Bools, n: Floats, x: Floats, survive: Floats, u: Floats, llr: Floats
) -> None:
    """Write each hypothesis's best u and its gain in log-likelihood over u = 0, where `todo` says so."""
    for h in range(len(start) - 1):
        if todo[h]:
            u[h], llr[h] = _best(row[start[h] : start[h + 1]], times[start[h] : start[h + 1]], n, x, survive)


@njit(cache=True)
def _best(row: Ints, times: Floats, n: Floats, x: Floats, survive: Floats) -> tuple[float, float]:
    clean, lost, slope = 0.0, 0.0, 0.0
    for k in range(len(row)):
        i, m = row[k], times[k]
        clean += m * (n[i] - x[i])
        if x[i] > 0:
            lost += x[i]
            slope += x[i] * m * survive[i] / (1 - survive[i])
    if lost == 0 or slope <= clean:
        return 0.0, 0.0
    u = U_MAX if clean == 0 else _root(row, times, x, survive, clean, lost)
    gain = -u * clean
    for k in range(len(row)):
        i = row[k]
        if x[i] > 0:
            gain += x[i] * (math.log1p(-survive[i] * math.exp(-times[k] * u)) - math.log1p(-survive[i]))
    return u, max(gain, 0.0)


@njit(cache=True)
def _root(row: Ints, times: Floats, x: Floats, survive: Floats, clean: float, lost: float) -> float:
    """Return where the slope of the log-likelihood is 0, by Newton's steps within shrinking bounds."""
    low, high = 0.0, U_MAX
    u = min(lost / clean, 1.0)
    for _ in range(STEPS):
        slope, bend = -clean, 0.0
        for k in range(len(row)):
            i, m = row[k], times[k]
            if x[i] > 0:
                q = survive[i] * math.exp(-m * u)
                slope += x[i] * m * q / (1 - q)
                bend += x[i] * m * m * q / (1 - q) ** 2
        if slope > 0:
            low = u
        else:
            high = u
        if abs(slope) <= 1e-7 * clean or high - low <= 1e-12:
            break
        # Newton in log u: the slope falls about as 1/u, so that this is nearly straight.
        step = u * math.exp(min(slope / (u * bend), 3.0)) if bend > 0 else high
        u = step if low < step < high else (0.5 * (low + high) if low == 0 else math.sqrt(low * high))
    return u


@njit(cache=True)
def mark_sharing(start: Longs, row: Ints, touched: Bools, out: Bools) -> None:
    """Write which hypotheses have a row that is touched."""
    for h in range(len(start) - 1):
        out[h] = False
        for k in range(start[h], start[h + 1]):
            if touched[row[k]]:
                out[h] = True
                break
