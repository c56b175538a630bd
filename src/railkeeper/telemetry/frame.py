"""Frame: one tick of telemetry, dense by entity; and Rates: what its counters did since the tick before.

A column is a signal, or one part of it: `rx_crc_errors`, `pfc_rx_frames[3]`. What was not read is ABSENT (counters) or
NaN (all else): no value ever stands for "nothing was read".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

# All ones is also what devices answer for a statistic that they can't read.
ABSENT = 2**64 - 1
NO_TIME = np.iinfo(np.int64).min

# Flags of a rate; 0 is a rate that holds.
OK, NO_SAMPLE, FIRST, WRAPPED, RESET, STALE, DUPLICATE, OUT_OF_ORDER, GAP = range(9)
FLAG_NAMES = ("ok", "no sample", "first", "wrapped", "reset", "stale", "duplicate", "out of order", "gap")


@dataclass(frozen=True)
class Block:
    """All columns of one kind of entity in one tick.

    - t_ns: (n,) int64 unix time at which each entity was sampled; NO_TIME where it was not
    - counters: (k, n) uint64 in the order of `counter_names`; widths: (k,) 32 or 64 bits
    - gauges: (g, n) float32 in the order of `gauge_names`: gauges, states (0, 1), watermarks

    Where sources of one column differ (vendors mixed in one fabric, sysfs beside ethtool), these say so; else None:

    - times, time_of: (m, n) int64 and (k,) int: counter j was sampled at `times[time_of[j]]`, which is never later than
      `t_ns`; NO_TIME where it was not
    - widths_at: (k, n) uint8 in place of `widths`
    - anew: (q, 2) int32 pairs (counter, entity) that another source gives from now on: no rate over the change
    """

    entities: Entities
    t_ns: npt.NDArray[np.int64]
    counter_names: tuple[str, ...]
    widths: npt.NDArray[np.uint8]
    counters: npt.NDArray[np.uint64]
    gauge_names: tuple[str, ...]
    gauges: npt.NDArray[np.float32]
    times: npt.NDArray[np.int64] | None = None
    time_of: npt.NDArray[np.int32] | None = None
    widths_at: npt.NDArray[np.uint8] | None = None
    anew: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Frame:
    """One tick of telemetry: blocks by kind of entity, and the end of the tick (unix s)."""

    t_s: float
    blocks: dict[str, Block]


@dataclass(frozen=True)
class Rates:
    """What the counters of a block did since each entity's sample before.

    - dt_s: (n,) float32 real interval; NaN where there is none
    - per_s: (k, n) float32; NaN where the rate is not known (see `flags`); wrapped counters have a rate
    - flags: (k, n) uint8: OK … GAP
    """

    names: tuple[str, ...]
    dt_s: npt.NDArray[np.float32]
    per_s: npt.NDArray[np.float32]
    flags: npt.NDArray[np.uint8]
