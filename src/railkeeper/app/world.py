"""Where ticks come from and where denials go: one small door for lab, live and recording."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from railkeeper.app.collector import Collector
from railkeeper.base.errors import OutsideError
from railkeeper.probe.extra import ask_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railkeeper.app.history import History
    from railkeeper.app.inputs import TickInput
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.slo.scopes import Job
    from railkeeper.probe.extra import Ask
    from railkeeper.probe.link import Hub
    from railkeeper.telemetry.ports import PortStates

# Agents close a tick this long after its end; then all reports come within some milliseconds.
AGENT_GRACE_S = 0.2
# A tick is judged without the reports that have not come this long after its end.
DEADLINE_S = 0.7
# Agents keep this many ticks for a keeper that is away: one that is further behind will not catch up with them.
MAX_BEHIND_TICKS = 240
# To ask switches that do not answer costs time that the agents' reports need.
PORTS_PAUSE_TICKS = 10


class World(Protocol):
    """What the keeper needs of the outside."""

    def next_tick(self) -> TickInput | None:
        """Wait for the next tick to be complete and return it; None at the end."""

    def deny(self, version: int, links: Sequence[int]) -> None:
        """Make `links` the whole set of denied directed links."""

    def probe(self, ask: Ask) -> None:
        """Ask an agent to probe some more paths for a while; it must not matter when it is lost."""

    def close(self) -> None:
        """Let go of everything."""


class Feed(Protocol):
    """Sources of telemetry, gathered by others meanwhile."""

    def take(self, t_s: float) -> tuple[tuple[bytes, ...], tuple[Job, ...] | None]:
        """Return the frame that ends at a tick's end (unix s), and the jobs that run; neither where it is not time."""


class HubWorld:
    """Agents and senders that speak to a hub: live fabrics, and the lab.

    `feed` is asked once a tick for what sources have said.
    `read_ports` is asked once a tick for what the switches say; None where no switch is read. `complain` is told what
    people should know; `clock` gives unix seconds.
    """

    def __init__(
        self,
        fabric: Fabric,
        hub: Hub,
        history: History | None,
        *,
        tick_s: float,
        read_ports: Callable[[], PortStates] | None = None,
        feed: Feed | None = None,
        complain: Callable[[str], None] = lambda _text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hub, self._tick_s, self._read_ports = hub, tick_s, read_ports
        self._complain, self._clock, self._feed = complain, clock, feed
        self._tick = int(clock() / tick_s)
        self._collector = Collector(
            fabric, hub, history, first_tick=self._tick, tick_s=tick_s, clock=clock, complain=complain
        )
        self._ports_again = 0

    def next_tick(self) -> TickInput | None:
        """Wait until all agents that are there have reported, or the deadline has passed."""
        while True:
            now = self._clock()
            self._follow_clock(now)
            end = (self._tick + 1) * self._tick_s
            complete = now >= end + AGENT_GRACE_S and self._collector.complete(self._tick)
            if complete or now >= end + DEADLINE_S:
                break
            self._collector.poll(self._wait_s(now, end))
        self._collector.poll(0.0)
        frame, jobs = self._feed.take((self._tick + 1) * self._tick_s) if self._feed else ((), None)
        given = self._collector.close(self._tick, self._ports(), frame=frame, jobs=jobs)
        self._tick += 1
        return given

    def deny(self, version: int, links: Sequence[int]) -> None:
        """Send the whole set to every peer; those that come later get it with their hello."""
        self._hub.deny(version, links)

    def probe(self, ask: Ask) -> None:
        """Ask a node's agent, if it is there."""
        self._hub.tell(f"agent/n{ask.node}", ask_message(ask))

    def close(self) -> None:
        """Close the hub."""
        self._hub.close()

    def _follow_clock(self, now: float) -> None:
        """Go to the clock's tick where the clock (or a long sleep of this machine) has left ours far away."""
        tick = int(now / self._tick_s)
        if tick < self._tick - 1:
            self._complain(f"the clock was set back by {(self._tick - tick) * self._tick_s:g} s: beginning anew")
            self._collector.set_back(tick)
            self._tick, self._ports_again = tick, 0
        elif tick > self._tick + MAX_BEHIND_TICKS:
            self._complain(f"{tick - self._tick} ticks behind the clock: going on with the newest")
            self._tick = tick

    def _ports(self) -> PortStates | None:
        """Return what the switches say; None, which is no health, for some ticks after they could not be read."""
        if self._read_ports is None or self._tick < self._ports_again:
            return None
        try:
            ports = self._read_ports()
        except OutsideError as e:
            if not e.retry:
                raise
            self._complain(f"ports can't be read: {e}")
            self._ports_again = self._tick + PORTS_PAUSE_TICKS
            return None
        self._ports_again = 0
        return ports

    @staticmethod
    def _wait_s(now: float, end: float) -> float:
        # Before the agents' grace is over nothing is urgent: let messages gather, so that one wake-up takes many.
        return max(0.005, min(end + AGENT_GRACE_S - now, 0.1)) if now < end + AGENT_GRACE_S else 0.01
