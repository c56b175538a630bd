"""Binomial likelihood of losses under sets of failing parts.

A probe that crosses a failing part `m` times survives it with (1 - r) ** m. With `survive`, the chance to survive
everything already believed, a row that sent n and lost x has

    log L(r) = x log(1 - survive (1 - r)**m) + (n - x) (log survive + m log(1 - r))

All hypotheses are scored at once on a grid of rates; only rows with losses need the first term, and those are
counted together by (survive, m).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import MAX_LINKS

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.rows import Table

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

_LOGIT = np.linspace(np.log(1e-5), np.log(500.0), 44)
RATES = 1 / (1 + np.exp(-_LOGIT))
_STEP = float(_LOGIT[1] - _LOGIT[0])
_FINE = np.linspace(-_STEP, _STEP, 9)
REFINED = 40
DROP_95 = 1.92  # half the 95% point of chi-square with one degree of freedom


@dataclass(frozen=True)
class Fit:
    """A rate, its 95% interval by profile likelihood, and how far it lifts the log-likelihood above rate 0."""

    rate: float
    low: float
    high: float
    llr: float


class Scorer:
    """Scores all hypotheses on one set of counts, again and again over different beliefs."""

    def __init__(self, table: Table, n: Longs, x: Longs) -> None:
        self.n_hyps = table.n_hyps
        clean = table.total_crossings((n - x).astype(np.float64))
        entry = np.flatnonzero(x[table.row] > 0)
        self._lossy, self._place = np.unique(table.row[entry], return_inverse=True)
        self._hit, self._hyp = np.unique(table.hyp[entry], return_inverse=True)
        self._times, self._lost = table.times[entry].astype(np.int64), x[table.row[entry]].astype(np.float64)
        self._clean = clean[self._hit]

    def score(self, survive: Floats) -> Floats:
        """Return (hypotheses,) best log-likelihood ratio of each against nothing more than `survive` (rows,)."""
        out = np.zeros(self.n_hyps)
        if not len(self._hit):
            return out
        counts, chance, times = self._classes(survive)
        coarse = counts @ _gain(RATES, chance, times).T + self._clean[:, None] * np.log1p(-RATES)
        best = coarse.argmax(axis=1)
        llr = np.maximum(coarse[np.arange(len(best)), best], 0.0)
        top = np.argsort(llr)[-REFINED:]
        rates = 1 / (1 + np.exp(-(_LOGIT[best[top], None] + _FINE)))
        gain = _gain(rates.ravel(), chance, times).reshape(len(top), len(_FINE), -1)
        fine = np.einsum("hk,hgk->hg", counts[top], gain) + self._clean[top, None] * np.log1p(-rates)
        llr[top] = np.maximum(llr[top], fine.max(axis=1))
        out[self._hit] = llr
        return out

    def _classes(self, survive: Floats) -> tuple[Floats, Floats, Floats]:
        """Return losses (hypotheses hit, classes), and each class's chance to survive and number of crossings."""
        chance, of_row = np.unique(np.round(survive[self._lossy], 7), return_inverse=True)
        label = of_row[self._place] * (MAX_LINKS + 1) + self._times
        k = len(chance) * (MAX_LINKS + 1)
        flat = np.bincount(self._hyp * k + label, weights=self._lost, minlength=len(self._hit) * k)
        counts = flat.reshape(len(self._hit), k).astype(np.float64)
        used = np.flatnonzero(counts.any(axis=0))
        return counts[:, used], chance[used // (MAX_LINKS + 1)], (used % (MAX_LINKS + 1)).astype(np.float64)


def _gain(rates: Floats, chance: Floats, times: Floats) -> Floats:
    """Return (rates, classes) log-likelihood that a loss of each class adds at each rate."""
    passed = np.exp(np.log1p(-rates)[:, None] * times)
    return np.log1p(-chance * passed) - np.log1p(-np.minimum(chance, 1 - 1e-9))


def log_ratio(n: Floats, x: Floats, survive: Floats, times: Floats, rates: Floats) -> Floats:
    """Return (rates,) log-likelihood ratio of one hypothesis on its rows against rate 0."""
    lossy = x > 0
    clean = float(((n - x) * times).sum())
    passed = np.exp(np.log1p(-rates)[:, None] * times[lossy])
    chance = np.minimum(survive[lossy], 1 - 1e-9)
    gain = np.log1p(-chance * passed) - np.log1p(-chance)
    return np.asarray(gain @ x[lossy] + clean * np.log1p(-rates))


_DENSE_LOGIT = np.linspace(np.log(1e-6), np.log(2000.0), 110)
_DENSE = 1 / (1 + np.exp(-_DENSE_LOGIT))
_BETWEEN = np.linspace(-1.0, 1.0, 33) * float(_DENSE_LOGIT[1] - _DENSE_LOGIT[0])


def fit(n: Floats, x: Floats, survive: Floats, times: Floats) -> Fit:
    """Fit one hypothesis's rate on its rows, without an interval (NaN)."""
    curve = log_ratio(n, x, survive, times, _DENSE)
    best = int(curve.argmax())
    if curve[best] <= 0:
        return Fit(0.0, math.nan, math.nan, 0.0)
    rates = 1 / (1 + np.exp(-(_DENSE_LOGIT[best] + _BETWEEN)))
    fine = log_ratio(n, x, survive, times, rates)
    top = int(fine.argmax())
    return Fit(float(rates[top]), math.nan, math.nan, float(fine[top]))


def with_interval(fitted: Fit, n: Floats, x: Floats, survive: Floats, times: Floats) -> Fit:
    """Add the 95% interval: where the likelihood has fallen `DROP_95` below its peak on either side."""
    rate = min(max(fitted.rate, 1e-7), 1 - 1e-6)
    reach = 4.0 / math.sqrt(max(float(x.sum()), 1.0)) + 0.5
    logit = math.log(rate / (1 - rate)) + np.linspace(-reach, reach, 129)
    rates = 1 / (1 + np.exp(-logit))
    inside = log_ratio(n, x, survive, times, rates) >= fitted.llr - DROP_95
    if not inside.any():
        return fitted
    low, high = float(rates[inside.argmax()]), float(rates[len(rates) - 1 - inside[::-1].argmax()])
    return replace(fitted, low=0.0 if fitted.llr < DROP_95 else low, high=high)
