"""How much of the time ports are held, by priority, from whatever either end of the link counts.

The end that is held counts received pause, the end that holds counts sent pause: two witnesses of one thing. Paused
time is measured; frames only bound it, as a frame may be withdrawn long before its time is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.known import at, column
from railkeeper.health.detect.screen import above

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

# A pause frame asks for at most 65,535 quanta of 512 bit times.
FRAME_BITS = 65_535 * 512
LINK = "link"  # pause of the whole link, of no priority


@dataclass(frozen=True)
class Held:
    """Ports (m,) held for more than a limit, ascending.

    - share: (m,) of the time, 0-1, the higher of what the two ends say
    - said_here, said_there: (m,) shares by the held end and by the holding end; NaN where that end was not read
    - measured: (m,) whether paused time says so; else frames do, and the share is at most this
    """

    ids: Ids
    share: Floats
    said_here: Floats
    said_there: Floats
    measured: npt.NDArray[np.bool_]


def priorities(view: View) -> tuple[str, ...]:
    """Return the priorities of which the frame counts pause, LINK last."""
    names = ("pfc_rx_paused_us", "pfc_tx_paused_us", "pfc_rx_frames", "pfc_tx_frames")
    found = {part.partition("[")[2].rstrip("]") for name in names for part in view.parts(name)}
    link = (LINK,) if any(column(view, n) is not None for n in ("pause_rx_frames", "pause_tx_frames")) else ()
    return (*sorted(found), *link)


def columns_of_priority(priority: str) -> tuple[str, str, str, str]:
    """Return the columns of a priority: received time, sent time, received frames, sent frames."""
    if priority == LINK:
        return "", "", "pause_rx_frames", "pause_tx_frames"
    rx, tx = f"pfc_rx_paused_us[{priority}]", f"pfc_tx_paused_us[{priority}]"
    return rx, tx, f"pfc_rx_frames[{priority}]", f"pfc_tx_frames[{priority}]"


def held_ports(view: View, priority: str, limit: float, link_gbps: float) -> Held:
    """Return the ports held for more than `limit` of the time; `link_gbps` where the frame knows no speed."""
    other = view.entities.other
    rx_us, tx_us, rx_frames, tx_frames = columns_of_priority(priority)
    frames = limit * _least_gbps(view, link_gbps) * 1e9 / FRAME_BITS
    here = [_over(view, rx_us, limit * 1e6), _over(view, rx_frames, frames)]
    there = [_over(view, tx_us, limit * 1e6), _over(view, tx_frames, frames)]
    far = other[np.concatenate(there)]
    ids = np.unique(np.concatenate([*here, far[far >= 0]])).astype(np.int32)
    return _over_limit(shares(view, priority, ids, link_gbps), limit)


def _over(view: View, name: str, limit: float) -> Ids:
    values = column(view, name)
    return np.empty(0, dtype=np.int32) if values is None else above(values, limit)


def _least_gbps(view: View, link_gbps: float) -> float:
    speed = column(view, "speed_gbps")
    if speed is None or np.isnan(speed).all():
        return link_gbps
    return max(float(np.nanmin(speed)), 1.0)


def shares(view: View, priority: str, ids: Ids, link_gbps: float) -> Held:
    """Return how long these ports were held, whatever it is."""
    rx_us, tx_us, rx_frames, tx_frames = columns_of_priority(priority)
    other = view.entities.other[ids]
    speed = at(view, "speed_gbps", ids)
    frame_s = FRAME_BITS / (np.where(np.isnan(speed) | (speed <= 0), link_gbps, speed) * 1e9)
    here, here_us = _said(at(view, rx_us, ids), at(view, rx_frames, ids), frame_s)
    there, there_us = _said(at(view, tx_us, other), at(view, tx_frames, other), frame_s)
    # Where one end measures and the other only counts frames, the measure holds.
    share = np.where(here_us == there_us, np.fmax(here, there), np.where(here_us, here, there))
    return Held(ids, share.astype(np.float32), here, there, here_us | there_us)


def _said(us: Floats, frames: Floats, frame_s: npt.NDArray[np.float64]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    measured = ~np.isnan(us)
    share = np.where(measured, us / 1e6, frames * frame_s)
    return np.minimum(share, 1.0).astype(np.float32), measured


def _over_limit(held: Held, limit: float) -> Held:
    over = held.share > limit
    return Held(held.ids[over], held.share[over], held.said_here[over], held.said_there[over], held.measured[over])
