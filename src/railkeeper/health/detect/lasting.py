"""Lasting: what holds for long enough in seconds, whatever the length of a tick.

A tracker remembers a few dozen ticks. Where more of them fit into the time that something must last, it is shown every
k-th tick only: a sample of the ticks is as good a witness of what lasts as all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.track import Tracker, follow

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

# Of so many samples four in five must hit; a tracker has room for them.
MOST_SAMPLES = 25


@dataclass(frozen=True)
class Open:
    """What is open (m,), ascending: since when (unix s), and the value at the last hit."""

    ids: Ids
    since_s: npt.NDArray[np.float64]
    values: Floats


@dataclass
class Lasting:
    """A tracker that samples ticks; `persist_s` how long it must last, `hold_s` how long it stays open after."""

    persist_s: float
    hold_s: float
    tracker: Tracker = field(default_factory=Tracker)
    turn: int = 0
    open: Open = field(
        default_factory=lambda: Open(np.empty(0, np.int32), np.empty(0, np.float64), np.empty(0, np.float32))
    )

    @property
    def ids(self) -> Ids:
        """The few that were hit of late, open or not."""
        return self.tracker.ids


def last(lasting: Lasting, view: View, hits: Ids, values: Floats | None = None, dark: Ids | None = None) -> Open:
    """Take in the hits of a tick (ascending; `values` theirs) and return what is open.

    `dark` are ids without data: for them the tick did not happen.
    """
    need, of, every = _samples(lasting.persist_s, view.tick_s)
    lasting.turn += 1
    if (lasting.turn - 1) % every:
        return lasting.open
    ids, since_s = follow(
        lasting.tracker, hits, view.now_s, need, lasting.hold_s, values, blind=dark, of=of,
    )  # fmt: skip
    lasting.open = Open(ids, since_s, lasting.tracker.open_values)
    return lasting.open


def _samples(persist_s: float, tick_s: float) -> tuple[int, int, int]:
    """Return (hits, samples, ticks a sample): hits in so many samples, one in five may be missed.

    One hit more than the time has samples: what lasts just so long touches one more tick than fit into it.
    """
    ticks = max(math.ceil(persist_s / tick_s), 1)
    every = math.ceil(ticks / MOST_SAMPLES)
    need = math.ceil(ticks / every) + (persist_s > tick_s)
    return need, need + need // 5 + (need > 2), every
