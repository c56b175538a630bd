"""Backlog: readings that wait for the keeper, bounded for each target; what has no room is counted, oldest first."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railkeeper.telemetry.reading import Reading

# What one target may have waiting, in values: some ten polls of a whole node_exporter.
ROOM_VALUES = 20_000
# What all targets together may have waiting: about 1 GB of Python objects.
ROOM_TOTAL_VALUES = 10_000_000


class Backlog:
    """Batches of readings by target, put in by sources on any thread and taken out by the keeper.

    A target's room is `room_values` values, less where `total_values` are shared by many targets. The newest batch is
    always kept, so that a target whose answer is larger than its room still speaks.
    """

    def __init__(self, targets: int, room_values: int = ROOM_VALUES, total_values: int = ROOM_TOTAL_VALUES) -> None:
        self.room_values = max(1, min(room_values, total_values // max(targets, 1)))
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[tuple[int, Sequence[Reading]]]] = {}
        self._held: dict[int, int] = {}
        self._dropped = [0] * targets

    def put(self, target: int, readings: Sequence[Reading]) -> None:
        """Add a batch of one target; its oldest batches go where there is no room."""
        if not readings:
            return
        weight = sum(len(reading.values) for reading in readings)
        with self._lock:
            queue = self._waiting.setdefault(target, deque())
            held = self._held.get(target, 0) + weight
            queue.append((weight, readings))
            while held > self.room_values and len(queue) > 1:
                gone, lost = queue.popleft()
                held -= gone
                self._dropped[target] += len(lost)
            self._held[target] = held

    def take(self) -> list[Reading]:
        """Return all that waits, each target's in the order in which it came."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._held = {}
        return [reading for queue in waiting.values() for _, batch in queue for reading in batch]

    def dropped(self, target: int) -> int:
        """Return how many readings of a target had no room since the start."""
        return self._dropped[target]
