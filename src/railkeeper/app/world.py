"""Where ticks come from and where denials go: one small door for lab, live and recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from railkeeper.app.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railkeeper.app.history import History
    from railkeeper.app.inputs import TickInput
    from railkeeper.fabric.model import Fabric
    from railkeeper.probe.link import Hub
    from railkeeper.telemetry.ports import PortStates

# Agents close a tick this long after its end; then all reports come within some milliseconds.
AGENT_GRACE_S = 0.2
# A tick is judged without the reports that have not come this long after its end.
DEADLINE_S = 0.7


class World(Protocol):
    """What the keeper needs of the outside."""

    def next_tick(self) -> TickInput | None:
        """Wait for the next tick to be complete and return it; None at the end."""

    def deny(self, version: int, links: Sequence[int]) -> None:
        """Make `links` the whole set of denied directed links."""

    def close(self) -> None:
        """Let go of everything."""


class HubWorld:
    """Agents and senders that speak to a hub: live fabrics, and the lab.

    `read_ports` is asked once a tick for what the switches say; None where no switch is read.
    """

    def __init__(
        self,
        fabric: Fabric,
        hub: Hub,
        history: History | None,
        *,
        tick_s: float,
        read_ports: Callable[[], PortStates] | None = None,
    ) -> None:
        self._hub, self._tick_s, self._read_ports = hub, tick_s, read_ports
        self._collector = Collector(fabric, hub, history)
        self._tick = int(time.time() / tick_s)

    def next_tick(self) -> TickInput | None:
        """Wait until all agents that are there have reported, or the deadline has passed."""
        end = (self._tick + 1) * self._tick_s
        while True:
            now = time.time()
            complete = now >= end + AGENT_GRACE_S and self._collector.complete(self._tick)
            if complete or now >= end + DEADLINE_S:
                break
            self._collector.poll(self._wait_s(now, end))
        self._collector.poll(0.0)
        ports = self._read_ports() if self._read_ports else None
        given = self._collector.close(self._tick, ports)
        self._tick += 1
        return given

    def deny(self, version: int, links: Sequence[int]) -> None:
        """Send the whole set to every peer; those that come later get it with their hello."""
        self._hub.deny(version, links)

    def close(self) -> None:
        """Close the hub."""
        self._hub.close()

    @staticmethod
    def _wait_s(now: float, end: float) -> float:
        # Before the agents' grace is over nothing is urgent: let messages gather, so that one wake-up takes many.
        return max(0.005, min(end + AGENT_GRACE_S - now, 0.1)) if now < end + AGENT_GRACE_S else 0.01
