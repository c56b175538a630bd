"""Excuses: who sends less through a plane because a port of that plane has just gone down elsewhere.

Transports take a NIC's lost port out of their paths, so those who send to that NIC load the plane less than the others:
as they should. It begins when the port falls, and a few senders share it. Who becomes odd at another time is not
excused: in a large fleet some port is always down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]

# Senders notice within seconds; what is read of both ends may lie some ticks apart.
_SOON_S, _SOON_TICKS = 90.0, 3
# So many senders may avoid a plane for one port.
_SENDERS = 4


@dataclass
class Excuses:
    """By domain (D,): ports of busy NICs that are down, when the last one fell, how many fell together.

    `low` and `excused`: ascending ids of ports that were low in the tick before, and those of them that had an excuse.
    """

    down: npt.NDArray[np.int64] | None
    fell_s: npt.NDArray[np.float64]
    fell: npt.NDArray[np.int64]
    low: Ids
    excused: Ids


def no_excuses(n_domains: int) -> Excuses:
    """Return the state before the first tick; what is down by then excuses nobody."""
    none = np.empty(0, dtype=np.int32)
    return Excuses(None, np.full(n_domains, -np.inf), np.zeros(n_domains, dtype=np.int64), none, none)


def without_excuse(
    state: Excuses, low: Ids, domain: npt.NDArray[np.int16], down: npt.NDArray[np.int64], times: tuple[float, float]
) -> Ids:
    """Return those of the low ports (ascending) that have no excuse; `times` are now (unix s) and the tick (s).

    - domain: (n,) of all ports; down: (D,) ports of busy NICs that are out of service in this tick
    """
    now_s, tick_s = times
    soon = now_s - state.fell_s <= max(_SOON_S, _SOON_TICKS * tick_s)
    more = np.zeros_like(down) if state.down is None else np.maximum(down - state.down, 0)
    state.fell = np.where(soon, state.fell, 0) + more
    state.fell_s = np.where(more > 0, now_s, state.fell_s)
    fresh = np.setdiff1d(low, state.low)
    of = domain[fresh]
    fresh = fresh[(of >= 0) & (state.fell > 0)[of]]
    excused = np.union1d(np.intersect1d(state.excused, low), fresh)
    many = np.bincount(domain[excused], minlength=len(down)) > _SENDERS * np.maximum(state.fell, down)
    state.down, state.low, state.excused = down, low, excused[~many[domain[excused]]].astype(np.int32)
    return np.setdiff1d(low, state.excused).astype(np.int32)
