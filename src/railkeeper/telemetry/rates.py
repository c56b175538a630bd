"""Counters to rates, in this one place, on real intervals.

Every value is compared with the last one that stands for its entity and column. What comes of it is a flag (see
`frame.FLAG_NAMES`), and a rate where there is one:

- ok, wrapped: a rate. A value that fell has wrapped only if what it must have grown is possible: at most half of its
  width, and at most twice what the link can carry. Else it was *reset*: no rate, for what was counted before is lost.
- gap: the interval is longer than it should be; the rate over it is right. If a busy 32-bit counter may have wrapped
  twice meanwhile there is none.
- first, no sample (not read, or all ones: unreadable): no rate; an older sample stands and the next interval is longer.
- duplicate, stale (same time, and same or other value), out of order (older): ignored; the newer sample stands. Only a
  clock that went back far was set, and is followed.

So what a counter grew is counted once and no more, whatever is missing, doubled or late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block, Rates
from railkeeper.telemetry.rates_ceilings import ceilings
from railkeeper.telemetry.rates_kernels import PIECE, advance

if TYPE_CHECKING:
    import numpy.typing as npt

SPEED = "speed_gbps"
_NONE = np.uint64(ABSENT)
_NO_WIDTHS = np.empty((0, 0), dtype=np.uint8)


@dataclass(frozen=True)
class RatesConfig:
    """When an interval is a gap (longer than gap_s), and when a clock was set (went back by more than back_s)."""

    gap_s: float
    back_s: float = 60.0


@dataclass
class RatesState:
    """What stands: the last good sample of every entity and column, and the fastest link seen.

    - values: (k, n) uint64; times: (n,) int64 ns of an entity's values; own_row, own_times: of columns that lack
      values of sampled entities, and so have times of their own; away: values and times of columns that were in
      earlier frames
    """

    config: RatesConfig
    names: tuple[str, ...]
    values: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]
    spare_times: npt.NDArray[np.int64]
    own_row: npt.NDArray[np.int64]
    own_times: npt.NDArray[np.int64]
    rates: Rates
    gbps: float = 0.0
    away: dict[str, tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]] = field(default_factory=dict)
    holes: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))


def new(n: int, config: RatesConfig) -> RatesState:
    """Return the state over n entities before the first tick; columns come with the ticks."""
    return RatesState(
        config, (), np.empty((0, n), dtype=np.uint64), np.full(n, NO_TIME), np.empty(n, dtype=np.int64),
        np.empty(0, dtype=np.int64), np.empty((0, n), dtype=np.int64), _room((), n),
    )  # fmt: skip


def rates_of(state: RatesState, block: Block) -> Rates:
    """Return what counters did since the sample before, and let this tick stand, in place.

    What another source gives from now on (`anew`) is a first sample. The answer's arrays are used again: they hold
    until the next tick is taken in.
    """
    if block.counter_names != state.names:
        _take_columns(state, block.counter_names)
    if SPEED in block.gauge_names:
        speeds = block.gauges[block.gauge_names.index(SPEED)]
        state.gbps = max(state.gbps, float(np.fmax.reduce(speeds, initial=0)))
    limits, busy = ceilings(block.entities.kind, state.names, state.gbps)
    now_ns, now_row = _times_of(state, block)
    if block.anew is not None:
        state.values[block.anew[:, 0], block.anew[:, 1]] = _NONE
    state.holes[:] = False
    out = state.rates
    advance(
        block.counters, now_ns, now_row, state.values, state.times, state.own_row, state.own_times,
        block.widths, _NO_WIDTHS if block.widths_at is None else block.widths_at, limits, busy,
        int(state.config.gap_s * 1e9), int(state.config.back_s * 1e9),
        state.spare_times, out.dt_s, out.per_s, out.flags, state.holes,
    )  # fmt: skip
    for column in np.flatnonzero(state.holes.any(axis=0)):
        _own_times(state, block, int(column))
    state.times, state.spare_times = state.spare_times, state.times
    return out


def _room(names: tuple[str, ...], n: int) -> Rates:
    k = len(names)
    return Rates(
        names, np.empty(n, dtype=np.float32), np.empty((k, n), dtype=np.float32), np.empty((k, n), dtype=np.uint8)
    )


def _times_of(state: RatesState, block: Block) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (m, n) times of this tick, those of the entities first, and (k,) which of them each column has."""
    k = len(state.names)
    if block.times is None or block.time_of is None:
        return block.t_ns[None], np.zeros(k, dtype=np.int64)
    for column in np.flatnonzero(state.own_row < 0):
        _add_own(state, int(column), np.where(state.values[column] == _NONE, NO_TIME, state.times))
    return np.concatenate([block.t_ns[None], block.times]), block.time_of.astype(np.int64) + 1


def _add_own(state: RatesState, column: int, times: npt.NDArray[np.int64]) -> None:
    state.own_row[column] = len(state.own_times)
    state.own_times = np.concatenate([state.own_times, times[None]])


def _take_columns(state: RatesState, names: tuple[str, ...]) -> None:
    """Follow a frame whose columns are others than before; those that are not in it wait with times of their own."""
    n = len(state.times)
    for column, name in enumerate(state.names):
        row = state.own_row[column]
        state.away[name] = (state.values[column], (state.times if row < 0 else state.own_times[row]).copy())
    state.names, state.rates = names, _room(names, n)
    state.values = np.full((len(names), n), ABSENT, dtype=np.uint64)
    state.holes = np.zeros((-(-n // PIECE), len(names)), dtype=np.bool_)
    state.own_row = np.full(len(names), -1, dtype=np.int64)
    times: list[npt.NDArray[np.int64]] = []
    for column in [c for c, name in enumerate(names) if name in state.away]:
        state.own_row[column] = len(times)
        state.values[column], own = state.away.pop(names[column])
        times.append(np.where(state.values[column] == _NONE, state.times, own))
    state.own_times = np.array(times, dtype=np.int64).reshape(-1, n)


def _own_times(state: RatesState, block: Block, column: int) -> None:
    """Give a column times of its own: some of its values are now older than their entity's last sample."""
    value = block.counters[column]
    widths = block.widths[column] if block.widths_at is None else block.widths_at[column]
    unread = (value == _NONE) | (value == _NONE >> (np.uint64(64) - widths.astype(np.uint64)))
    stayed = unread & (state.values[column] != _NONE)
    _add_own(state, column, np.where(stayed, state.times, state.spare_times))
