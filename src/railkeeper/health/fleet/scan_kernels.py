"""Compiled loops over all rows of a tick. Two processors share the rows; nothing depends on which does what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float64]
    Floats32 = npt.NDArray[np.float32]

# Bits of a row's verdict. The first four are odd; the last two clear what the row crosses.
LOST, DAMAGED, LATE, SLOW, PROMPT, FAST = 1, 2, 4, 8, 16, 32
ODD = LOST | DAMAGED | LATE | SLOW
OLDEST = 200  # ticks that the age of a train is counted to
NO_TRAIN = 255  # slow_run of a row that no train has come over yet
NO_TIME = np.iinfo(np.int64).max
BLOCKS = 64


@njit(cache=True, parallel=True)
def scan(
    sent: Longs,
    received: Longs,
    corrupt: Longs,
    delay_ns: Longs,
    train_bps: Floats,
    mute: Bytes,
    limit_ms: Floats32,
    group: Bytes,
    slow_bps: Floats,
    n_now: Ints,
    n_window: Ints,
    delay_before: Floats32,
    slow_run: Bytes,
    train_age: Bytes,
    verdict: Bytes,
    probes: Longs,
) -> None:
    """Judge each row by itself.

    - mute: (rows,) or (0,): 1 where a row's losses may be its host's own
    - limit_ms: (groups,) above which the least delay of two ticks is late, inf where nothing can be said
    - slow_bps: (3,) slow below the first, and below the second where also below the third
    - n_now, n_window: probes of this tick are written to the one and added to the other
    - delay_before: (rows,) ms of the tick before, replaced by this tick's; slow_run: slow trains in a row, 0 after a
      fast one, NO_TRAIN before the first; train_age: ticks since the last train
    - verdict: (rows,) bits; probes: (BLOCKS, groups) adds up probes
    """
    rows = len(sent)
    for b in prange(BLOCKS):
        for i in range(b * rows // BLOCKS, (b + 1) * rows // BLOCKS):
            bits = 0
            s, r = sent[i], received[i]
            silent = s <= 0 or r < 0 or (len(mute) > 0 and mute[i] != 0)
            n_now[i] = 0 if silent else s
            if not silent:
                c = min(corrupt[i], s)
                n_window[i] += s
                probes[b, group[i]] += s
                if s - min(r, s - c) - c > 0:
                    bits |= LOST
                if c > 0:
                    bits |= DAMAGED
            ms = np.float32(np.inf) if delay_ns[i] == NO_TIME else np.float32(delay_ns[i] * 1e-6)
            least = min(ms, delay_before[i])
            limit = limit_ms[group[i]]
            if least < np.inf and least > limit:
                bits |= LATE
            elif ms < np.inf and limit < np.inf:
                bits |= PROMPT
            delay_before[i] = ms
            bps = train_bps[i]
            if not np.isnan(bps):
                slow = bps < slow_bps[0] or (bps < slow_bps[1] and bps < slow_bps[2])
                run = 0 if slow_run[i] == NO_TRAIN else slow_run[i]
                slow_run[i] = min(run + 1, NO_TRAIN - 1) if slow else 0
                train_age[i] = 0
            elif train_age[i] < OLDEST:
                train_age[i] += 1
            if slow_run[i] == 0:
                bits |= FAST
            elif slow_run[i] != NO_TRAIN:
                bits |= SLOW
            verdict[i] = bits


@njit(cache=True)
def select(verdict: Bytes, wanted: int) -> Ints:
    """Return the rows that have any of some bits, ascending."""
    n = 0
    for i in range(len(verdict)):
        n += (verdict[i] & wanted) != 0
    out = np.empty(n, dtype=np.int32)
    n = 0
    for i in range(len(verdict)):
        if verdict[i] & wanted:
            out[n] = i
            n += 1
    return out
