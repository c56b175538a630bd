"""Planes of every NIC side by side, in one pass over a million NIC ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt


_DOWN = np.float32(-1.0)  # a mark within a pass


@njit(cache=True)
def compare_planes(
    ports: npt.NDArray[np.int32], other: npt.NDArray[np.int32], domain: npt.NDArray[np.int16],
    sent: npt.NDArray[np.float32], gauges: npt.NDArray[np.float32], states: npt.NDArray[np.int64], least: float,
    ratio: npt.NDArray[np.float32], total: npt.NDArray[np.float64], down: npt.NDArray[np.int64],
) -> None:  # fmt: skip
    """Fill in what the planes of each NIC carry.

    - ports: (N, P) ids, -1 none; other, domain, sent: (n,) over all ports
    - gauges: (g, n), of which the rows `states` are states: 0 is out of service
    - least: bytes per s in all, below which a NIC is not judged
    - ratio: (N, P) out: each port's bytes to the mean of its NIC's others; NaN where not judged
    - total: (D,) out: bytes by domain over NICs that are busy and have all ports; down: (D,) out: ports out of
      service of NICs that are busy
    """
    for i in range(ports.shape[0]):
        whole, known, every = True, 0, 0.0
        for k in range(ports.shape[1]):
            port = ports[i, k]
            ratio[i, k] = np.nan
            if port < 0:
                continue
            works = True
            far = other[port]
            for s in states:
                if gauges[s, port] == 0 or (far >= 0 and gauges[s, far] == 0):
                    works = False
            if not works:
                ratio[i, k] = _DOWN
            if works and not np.isnan(sent[port]):
                ratio[i, k] = sent[port]
                known += 1
                every += sent[port]
            else:
                whole = False
        _to_the_others(i, ports, domain, ratio, total, down, known, every, whole, every >= least)


@njit(cache=True)
def _to_the_others(
    i: int, ports: npt.NDArray[np.int32], domain: npt.NDArray[np.int16], ratio: npt.NDArray[np.float32],
    total: npt.NDArray[np.float64], down: npt.NDArray[np.int64], known: int, every: float, whole: bool, busy: bool,
) -> None:  # fmt: skip
    for k in range(ports.shape[1]):
        value = ratio[i, k]
        if np.isnan(value):
            continue
        if value == _DOWN:
            ratio[i, k] = np.nan
            if busy and domain[ports[i, k]] >= 0:
                down[domain[ports[i, k]]] += 1
            continue
        if busy and whole and domain[ports[i, k]] >= 0:
            total[domain[ports[i, k]]] += value
        rest = every - value
        ratio[i, k] = value * (known - 1) / rest if busy and known > 1 and rest > 0 else np.nan
