"""Snapshot: what a person wants to see at a glance, computed from the keeper's state after a tick."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class LinkLook(enum.IntEnum):
    """How a link looks; a larger number is shown rather than a smaller one where links share a cell."""

    OK = 0
    NO_DATA = 1
    DENIED = 2
    DEGRADED = 3
    FAILED = 4


@dataclass(frozen=True)
class Line:
    """One row of a table: an incident or an action, as texts."""

    cells: tuple[str, ...]
    bad: bool = False


@dataclass(frozen=True)
class Snapshot:
    """The state after one tick.

    `links` is (n_links,) of LinkLook; `judged_rows` the path rows judged in the tick; `agents` (reporting, expected).
    """

    tick: int
    t_s: float
    world: str
    links: npt.NDArray[np.int8]
    agents: tuple[int, int]
    judged_rows: int
    denied_links: int
    traffic_loss: float | None = None
    goodput_bps: float | None = None
    incidents: tuple[Line, ...] = ()
    actions: tuple[Line, ...] = ()
    notes: tuple[str, ...] = field(default=())
