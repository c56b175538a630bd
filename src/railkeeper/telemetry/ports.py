"""Port states as both ends of every link and the switches themselves report them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

UP, DOWN, UNREAD = 1, 0, -1


@dataclass(frozen=True)
class PortStates:
    """State of both ends of each link at one moment.

    - lower, upper: (n_links,) int8: 1 up, 0 down, -1 unread; lower is the NIC's (or T0's) end
    - lower_downs, upper_downs: (n_links,) int64: times the end has lost its carrier since it exists, -1 unread
    - switch_answers: (n_t0 + n_t1,) int8: 1 the switch's management answered, 0 it did not, -1 it was not asked
    """

    lower: npt.NDArray[np.int8]
    upper: npt.NDArray[np.int8]
    lower_downs: npt.NDArray[np.int64]
    upper_downs: npt.NDArray[np.int64]
    switch_answers: npt.NDArray[np.int8]


def unread_ports(fabric: Fabric) -> PortStates:
    """Return states in which nothing has been read: unknown, not healthy."""
    n = fabric.n_links
    return PortStates(
        lower=np.full(n, UNREAD, dtype=np.int8),
        upper=np.full(n, UNREAD, dtype=np.int8),
        lower_downs=np.full(n, UNREAD, dtype=np.int64),
        upper_downs=np.full(n, UNREAD, dtype=np.int64),
        switch_answers=np.full(fabric.n_t0 + fabric.n_t1, UNREAD, dtype=np.int8),
    )
