"""FEC arithmetic: bit error ratio before FEC, and what the histogram of codewords foretells.

RS(544,514), the code of 50G lanes and faster, has codewords of 544 symbols of 10 bits and repairs up to 15 symbols in
each. A codeword with 16 is lost, and with it the packets in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.known import at, column

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]

REPAIRS = 15
BINS = REPAIRS + 1
CODEWORD_BITS = 5440
# A lane of 100 Gb/s runs at 106.25 Gb/s: coding comes on top of the speed of a port.
LINE_SHARE = 1.0625
# Codewords with more wrong symbols than this do not matter for what is lost.
FURTHEST = 20


def line_bits(view: View) -> Floats | None:
    """Return (n,) bits a second that a port receives, idle or not: counted, else from its speed; else None."""
    counted = view.rate("rx_bits")
    if counted is not None:
        with np.errstate(invalid="ignore"):
            return np.where(counted > 0, counted, np.float32(np.nan))
    speed = view.gauge("speed_gbps")
    return None if speed is None else speed * np.float32(1e9 * LINE_SHARE)


def pre_fec_ber(view: View) -> Floats | None:
    """Return (n,) bit error ratio before FEC, by counters on true intervals, else as the device says; else None.

    Counters: repaired bits, else errors of all lanes, to the bits of the line. NaN where unknown.
    """
    wrong, bits = _wrong_bits(view), line_bits(view)
    said = view.gauge("pre_fec_ber")
    if wrong is None or bits is None:
        return said
    ratio = (wrong / bits).astype(np.float32)
    return ratio if said is None else np.where(np.isnan(ratio), said, ratio)


def _wrong_bits(view: View) -> Floats | None:
    repaired = view.rate("fec_corrected_bits")
    if repaired is not None:
        return repaired
    lanes = [lane for name in view.parts("lane_errors") if (lane := column(view, name)) is not None]
    return np.sum(lanes, axis=0, dtype=np.float32) if lanes else None


def pre_fec_ber_at(view: View, ids: Ids) -> Floats:
    """Return (m,) the same ratio as `pre_fec_ber`, of some ports only."""
    wrong, bits = at(view, "fec_corrected_bits", ids), at(view, "rx_bits", ids)
    if view.rate("fec_corrected_bits") is None and view.parts("lane_errors"):
        wrong = np.sum([at(view, name, ids) for name in view.parts("lane_errors")], axis=0, dtype=np.float32)
    if view.rate("rx_bits") is None:
        bits = at(view, "speed_gbps", ids) * np.float32(1e9 * LINE_SHARE)
    ratio = (wrong / np.where(bits > 0, bits, np.float32(np.nan))).astype(np.float32)
    return np.where(np.isnan(ratio), at(view, "pre_fec_ber", ids), ratio)


def by_chance(mean: Doubles, least: int) -> Doubles:
    """Return the share of codewords with `least` or more wrong symbols if they fall alone, `mean` (m,) in each."""
    k: Doubles = np.arange(least, FURTHEST + 20, dtype=np.float64)[:, None]
    log_factorial = np.cumsum(np.log(np.maximum(np.arange(FURTHEST + 20), 1)))[least:, None]
    m = np.maximum(mean, 1e-30)[None, :]
    terms: Doubles = np.exp(k * np.log(m) - m - log_factorial).sum(axis=0)
    return terms


def foretold(bins: Doubles, first: int) -> tuple[Doubles, Doubles]:
    """Return (slope, lost) from codewords a second by wrong symbols (16, m): what the bins `first` … 15 foretell.

    A line through the logarithms of the bins that are not empty, each weighed by its count: slope (m,) in decades per
    symbol, lost (m,) codewords a second beyond repair, 16 … 20. NaN where fewer than two bins are not empty. The
    weights are those of Poisson counts: the variance of a logarithm of a count is one over the count.
    """
    k = np.arange(first, BINS, dtype=np.float64)[:, None]
    tail = np.nan_to_num(bins[first:])
    w = tail
    y = np.log10(np.where(tail > 0, tail, 1.0))
    total = w.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_k, mean_y = (w * k).sum(axis=0) / total, (w * y).sum(axis=0) / total
        slope = (w * (k - mean_k) * (y - mean_y)).sum(axis=0) / (w * (k - mean_k) ** 2).sum(axis=0)
        beyond = np.arange(BINS, FURTHEST + 1)[:, None]
        lost = (10.0 ** (mean_y + slope * (beyond - mean_k))).sum(axis=0)
    enough = (tail > 0).sum(axis=0) >= 2
    return np.where(enough, slope, np.nan), np.where(enough, lost, np.nan)
