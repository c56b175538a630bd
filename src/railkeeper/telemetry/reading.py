"""Reading: what one native object of a target said at one moment, before names are bound and places are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Reading:
    """One object (a port, a queue, a NIC …) of one target.

    - source: name of the source in the settings; target: which of its targets
    - dialect: which bindings its names belong to, as `mlx5.hw`, `sonic.port`
    - labels: what identifies the object there, as {"host": "n12", "device": "mlx5_0", "port": "1"}
    - t_ns: unix time of the sample: the target's own stamp where it gives one, else when it was read
    - values: native name -> value as read; None for one that is there but could not be read
    """

    source: str
    target: str
    dialect: str
    labels: Mapping[str, str]
    t_ns: int
    values: Mapping[str, int | float | str | None]


@dataclass(frozen=True)
class SourceStatus:
    """How one target of a source is: all times unix ns, None for never.

    - state: "ok", "waiting" (not asked yet), "failing" (asked again after `next_try_ns`), "closed"
    - failures: in a row; error: the last one's text; dropped: readings that had no room since the start
    """

    source: str
    target: str
    state: str
    last_ok_ns: int | None
    next_try_ns: int | None
    failures: int
    error: str
    dropped: int


class Target(Protocol):
    """One thing that is asked again and again: what an adapter implements for pull sources.

    `poll` raises OutsideError when the target does not answer or its answer can't be read; it never blocks the loop.
    """

    source: str
    name: str
    interval_s: float
    timeout_s: float

    async def poll(self) -> Sequence[Reading]:
        """Ask once and return everything that it says now."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Stream(Protocol):
    """One thing that speaks by itself (gNMI Subscribe, a watch): what an adapter implements for push sources.

    `run` calls `emit` with what comes, and raises OutsideError when the stream ends or breaks; it is run again later.
    """

    source: str
    name: str

    async def run(self, emit: Callable[[Sequence[Reading]], None]) -> None:
        """Speak until it ends."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
