"""Sample times: a switch stamps its counters by a clock of its own, which counts from its last start.

The stamp is never later than our reading of it, so that the least of (time of reading - stamp) over many readings is
the offset between the two clocks, plus the shortest way a stamp ever took. Intervals matter more than the offset: a
better offset is moved in slowly (`SLEW`), so that no interval is wrong by more than that share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SLEW = 0.01
# The two clocks drift apart: a least value that is older is forgotten.
FORGET_NS = 600 * 1_000_000_000
# When a group's newest stamp goes back by more than this, the switch has started again.
BACK_NS = 1_000_000_000
# An offset that is further off than a switch polls its ports came from stamps that had stood still: it is set at once.
STEP_NS = 5_000_000_000
MOST_OBJECTS = 200_000


class StampClock:
    """The clock of one switch. An object's stamp always gives the same time once that has been told."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all: the switch has started again."""
        self._offset_ns: int | None = None
        self._moved_ns = self._window_ns = 0
        self._least = self._least_before = 0
        self._newest: dict[str, int] = {}
        self._told: dict[tuple[str, str], tuple[int, int]] = {}

    def learn(self, seen: Sequence[tuple[str, int, int]]) -> None:
        """Learn from all of one poll: (group, stamp, unix ns when it was read). To be called before `unix_ns`."""
        newest: dict[str, int] = {}
        for group, stamp, _ in seen:
            newest[group] = max(stamp, newest.get(group, 0))
        if any(stamp < self._newest.get(group, 0) - BACK_NS for group, stamp in newest.items()):
            self.restart()
        self._newest.update(newest)
        if seen:
            self._offer(min(read - stamp for _, stamp, read in seen), max(read for _, _, read in seen))

    def unix_ns(self, thing: tuple[str, str], stamp: int) -> int:
        """Return when a thing's stamp was made, unix ns."""
        told = self._told.get(thing)
        if told and told[0] == stamp:
            return told[1]
        assert self._offset_ns is not None, "learn first"
        if len(self._told) >= MOST_OBJECTS:
            self._told.clear()
        self._told[thing] = (stamp, stamp + self._offset_ns)
        return stamp + self._offset_ns

    def _offer(self, delta: int, read_ns: int) -> None:
        if self._offset_ns is None:
            self._offset_ns = self._least = self._least_before = delta
            self._moved_ns = self._window_ns = read_ns
        if read_ns - self._window_ns > FORGET_NS:
            self._least_before, self._least, self._window_ns = self._least, delta, read_ns
        self._least = min(self._least, delta)
        self._move(min(self._least, self._least_before), read_ns)

    def _move(self, goal: int, read_ns: int) -> None:
        assert self._offset_ns is not None
        most = int(max(0, read_ns - self._moved_ns) * SLEW)
        self._moved_ns = read_ns
        if goal < self._offset_ns - STEP_NS:
            self._offset_ns = goal
        self._offset_ns += max(-most, min(most, goal - self._offset_ns))
