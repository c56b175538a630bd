"""The shape of losses over ticks: steady, in spells, or not yet to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

STEADY, SPELLS, UNCLEAR = "steady", "spells", "unclear"
UNEVEN_SIGMA = 4.5  # further from a constant rate than this: not steady
SPELL_SHARE = 0.3  # of the probes of a tick lost: the tick is part of a spell
QUIET_SHARE = 0.02
DEAD_TICKS = 4  # with a tick in which all was lost, so many are looked at: it may have been dead in between
DEEP_SHARE = 0.8
SWINGS, SWING_SIGMA = 3, 3.0  # changes from far above the mean to far below or back: spells shorter than a tick


def shape(n: Floats, x: Floats) -> str:
    """Judge (ticks,) crossings and losses, oldest first.

    The first tick with a loss is left out: what began in it held for a part of it only.
    """
    hit = np.flatnonzero(x > 0)
    if not len(hit):
        return UNCLEAR
    n, x = n[hit[0] :], x[hit[0] :]
    if spells(n, x) >= 2 or swings(n, x) >= SWINGS:
        return SPELLS
    n, x = n[1:][n[1:] > 0], x[1:][n[1:] > 0]
    if len(n) < (DEAD_TICKS if (x >= n).any() else 2) or not x.sum():
        return UNCLEAR
    return STEADY if unevenness(n, x) < UNEVEN_SIGMA else UNCLEAR


def unevenness(n: Floats, x: Floats) -> float:
    """Return by how many sigmas counts scatter more than one rate would make them."""
    rate = min(float(x.sum() / n.sum()), 0.999)
    expected = n * rate
    variance = expected * (1 - rate)
    chi2 = float((((x - expected) ** 2) / variance).sum())
    spread = 2.0 * len(n) + float((1.0 / variance).sum())
    return (chi2 - len(n)) / float(np.sqrt(spread))


def spells(n: Floats, x: Floats) -> int:
    """Return how many runs of heavy loss there are with quiet ticks between them."""
    count, quiet = 0, True
    for sent, lost in zip(n, x, strict=True):
        if sent < 8:
            continue
        share = lost / sent
        if share >= SPELL_SHARE and quiet:
            count, quiet = count + 1, False
        elif share <= QUIET_SHARE:
            quiet = True
    return count


def swings(n: Floats, x: Floats) -> int:
    """Return how often the share lost changes sides, from far above its mean to far below, or back."""
    rate = float(x.sum() / n.sum())
    if rate < SPELL_SHARE / 2:
        return 0
    sigma = np.sqrt(np.maximum(n * rate * (1 - min(rate, 0.999)), 1e-9))
    sides = np.sign(x - n * rate)[np.abs(x - n * rate) > SWING_SIGMA * sigma]
    return int((sides[1:] != sides[:-1]).sum())


def deep_spells(n: Floats, x: Floats) -> int:
    """Return how many runs of ticks with losses lost as much as a whole dead tick would."""
    count, lost = 0, 0.0
    for sent, gone in zip([*n, 1.0], [*x, 0.0], strict=True):
        if gone > QUIET_SHARE * sent:
            lost += gone / max(sent, 8.0)
            continue
        count, lost = count + (lost >= DEEP_SHARE), 0.0
    return count
