"""Ceilings: the most that a counter can grow in a second, from its unit and the speed of the link."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_BIT = 1e9
_BYTE = _BIT / 8
# Packets are this long on average, if they are very short.
_PACKET = _BYTE / 256
_CODEWORD = _BIT / 5140
# What links carry, by signal: growth in a second for each Gbit/s of speed.
_TRAFFIC = {
    "tx_bytes": _BYTE, "rx_bytes": _BYTE, "rx_bits": _BIT, "tx_packets": _PACKET, "rx_packets": _PACKET,
}  # fmt: skip
_RARE = {"fec_corrected_codewords": _CODEWORD, "fec_bin_codewords": _CODEWORD}


def ceilings(kind: str, names: Sequence[str], gbps: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return (k,) most growth a second of each column, inf where unknown, and (k,) whether traffic really goes there.

    `gbps` is the speed of the fastest link, 0 if it is not known.
    """
    traffic = [_TRAFFIC.get(name) if kind == "port" else None for name in names]
    every = [
        t or (_RARE.get(name.split("[")[0]) if kind == "port" else None) for t, name in zip(traffic, names, strict=True)
    ]
    limits = [math.inf if e is None or gbps <= 0 else e * gbps for e in every]
    return np.array(limits, dtype=np.float64), np.array([t is not None for t in traffic], dtype=np.bool_)
