"""The default job: a ring all-reduce over all NICs of a rail, forwarded packet by packet.

An all-reduce of N chunks takes 2 (N - 1) steps; in each, every NIC sends one chunk to its successor. A chunk's packet
can be sent on as soon as it has come from the predecessor, so that the ring is a pipeline; a new all-reduce begins when
the NIC's own one is complete. Packets are numbered through, steps and rounds included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric

ORDERS = ("across", "packed")


@dataclass(frozen=True)
class Ring:
    """One ring: `nics` in order of travel; `chunk` packets a step."""

    nics: tuple[int, ...]
    chunk: int

    @property
    def steps(self) -> int:
        """Steps of one all-reduce."""
        return 2 * (len(self.nics) - 1)

    def limit(self, received: int) -> int:
        """Return the first packet that may not be sent yet, after `received` have come without a gap."""
        a_round = self.steps * self.chunk
        return min(received + self.chunk, (received // a_round + 1) * a_round)

    def successor(self, nic: int) -> int:
        """Return the NIC that `nic` sends to."""
        return self.nics[(self.nics.index(nic) + 1) % len(self.nics)]

    def predecessor(self, nic: int) -> int:
        """Return the NIC that sends to `nic`."""
        return self.nics[self.nics.index(nic) - 1]


def rings(fabric: Fabric, *, chunk: int = 32, order: str = "across") -> list[Ring]:
    """Return one ring a rail; a rail of one NIC has none.

    `order` "across" puts neighbours under different T0s, so that every hop crosses the T1s; "packed" goes through the
    NICs of a T0 before the next, as a scheduler would place a job. Raises InputError for another word.
    """
    if order not in ORDERS:
        raise InputError("order", f"is {order!r}", f"one of {', '.join(ORDERS)}")
    found = []
    for rail in range(fabric.rails):
        nics = np.flatnonzero(fabric.nic_rail == rail)
        t0, downlink = fabric.nic_t0_index[nics], fabric.nic_downlink[nics]
        by = np.lexsort((t0, downlink) if order == "across" else (downlink, t0))
        if len(nics) > 1:
            found.append(Ring(tuple(nics[by].tolist()), chunk))
    return found
