"""Settings of a node's traffic, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError
from railkeeper.lab.traffic.sender import WINDOW
from railkeeper.lab.traffic.wire import SACK_BYTES

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.traffic.evstate import EvRules
    from railkeeper.probe.link import Curve

PORT = 9200
MAX_SIZE = 1352


@dataclass(frozen=True)
class TrafficConfig:
    """What `node.run_sender` needs.

    - keeper: endpoint of the keeper's hub; "" sends no reports
    - rate_pps: packets a second of each NIC at most; size: payload bytes of a packet
    - chunk: packets of a ring step; order: of the ring, see `ring.rings`
    - wake_s: how often the node works; each time costs CPU, and a round trip takes one to two of them
    - interfaces: names of the node's NIC ports in order of port ids; empty leaves the choice to the routing table
    - rules: of the EV sets, None for `sender.default_rules`
    """

    fabric: Fabric
    node: int
    keeper: str = ""
    tick_s: float = 0.5
    rate_pps: float = 350.0
    size: int = 952
    chunk: int = 32
    order: str = "across"
    port: int = PORT
    wake_s: float = 0.05
    interfaces: tuple[str, ...] = ()
    rules: EvRules | None = None
    seed: int = 0
    curve: Curve | None = None

    def __post_init__(self) -> None:
        """Refuse settings that can't work; raises InputError."""
        width = self.fabric.nics_per_node * self.fabric.planes
        _within("node", self.node, 0, self.fabric.n_nodes - 1)
        _within("rate_pps", self.rate_pps, 1, 100_000)
        _within("size", self.size, SACK_BYTES - 48, MAX_SIZE)
        _within("chunk", self.chunk, 1, WINDOW)
        _within("wake_s", self.wake_s, 0.001, 0.1)
        if self.interfaces and len(self.interfaces) != width:
            raise InputError("interfaces", f"names {len(self.interfaces)} ports", f"all {width} of the node, or none")


def _within(where: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(where, f"is {value}", f"from {low:g} to {high:g}")
