"""What ports say: which links are without carrier, since when, and how many spells each has had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.ports import DOWN, UNREAD

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.parts import Part
    from railkeeper.telemetry.ports import PortStates

    Bools = npt.NDArray[np.bool_]
    Longs = npt.NDArray[np.int64]

NEVER = -(10**9)
RECENT_TICKS = 3  # ends are read one after the other, so what fails together may be seen some ticks apart


@dataclass
class Carriers:
    """State of all links' carriers, (links,) columns.

    - down: an end says down now; known: an end was read now; up: known and no end says down
    - bad_tick: last tick with an end down or a new loss of carrier
    - spells: per end (2, links), ticks in which that end has newly lost its carrier
    - pending: lost their carrier, and no fault explains it yet
    - state, downs: last that each end said, (2, links); fresh: it said so a tick ago, so that a higher count is news
    """

    down: Bools
    known: Bools
    bad_tick: Longs
    spells: Longs
    pending: Bools
    state: npt.NDArray[np.int8]
    downs: Longs
    fresh: Bools

    @property
    def up(self) -> Bools:
        return np.asarray(self.known & ~self.down)


def new_carriers(fabric: Fabric) -> Carriers:
    """Return a start in which nothing has been read."""
    n = fabric.n_links
    no = np.zeros(n, dtype=bool)
    return Carriers(
        down=no, known=no.copy(), bad_tick=np.full(n, NEVER, dtype=np.int64), spells=np.zeros((2, n), dtype=np.int64),
        pending=no.copy(), state=np.full((2, n), UNREAD, dtype=np.int8), downs=np.full((2, n), -1, dtype=np.int64),
        fresh=np.zeros((2, n), dtype=bool),
    )  # fmt: skip


def read_carriers(c: Carriers, ports: PortStates, tick: int) -> Bools:
    """Take in a reading; returns the links that lost their carrier since the last one."""
    state = np.stack([ports.lower, ports.upper])
    downs = np.stack([ports.lower_downs, ports.upper_downs])
    rose = (downs > c.downs) & (c.downs >= 0) & c.fresh
    fell = (state == DOWN) & (c.state != DOWN) & ~rose & ((downs < 0) | (c.downs < 0) | ~c.fresh)
    c.spells += rose | fell
    c.down = (state == DOWN).any(axis=0)
    c.known = (state != UNREAD).any(axis=0)
    bad = c.down | rose.any(axis=0)
    new = bad & (c.bad_tick < tick - RECENT_TICKS)
    c.bad_tick[bad] = tick
    c.fresh = state != UNREAD
    c.state = np.where(state == UNREAD, c.state, state)
    c.downs = np.where(downs < 0, c.downs, downs)
    return new


def cover_links(parts: list[Part], pending: Bools, bad: Bools, known: Bools) -> list[tuple[Part, tuple[Part, ...]]]:
    """Return the fewest parts that account for the pending links, each with the parts that would do as well.

    A part qualifies when each of its links that was read is bad.
    """
    left = pending.copy()
    able = [p for p in parts if pending[p.links].any() and not (known[p.links] & ~bad[p.links]).any()]
    out: list[tuple[Part, tuple[Part, ...]]] = []
    while left.any() and able:
        gain = [int(left[p.links].sum()) for p in able]
        if not max(gain):
            break
        ties = sorted((p for p, g in zip(able, gain, strict=True) if g == max(gain)), key=lambda p: len(p.links))
        left[ties[0].links] = False
        out.append((ties[0], tuple(p for p in ties[1:] if not left[p.links].any())))
    return out


def mostly_up(c: Carriers, links: npt.NDArray[np.integer]) -> bool:
    """Whether links were read, and at least half of those have their carrier."""
    read = int(c.known[links].sum())
    return read > 0 and int(c.up[links].sum()) * 2 >= read
