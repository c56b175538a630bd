"""Lanes: how many polls may be under way, so that slow targets can't hold what quick ones need."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class LaneSizes:
    """How many polls of one source may be under way in each lane, and when a poll counts as slow.

    With a time limit of t s at most `quick + slow + quick * t / patience_s` polls are ever under way.
    """

    quick: int = 256
    slow: int = 512
    patience_s: float = 0.5


class Places:
    """So many places; who finds none waits in line. `force` takes one over the number, which new ones then wait out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = 0
        self._line: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a place."""
        if self.held < self.size and not self._line:
            self.held += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()
            raise

    def force(self) -> None:
        """Take a place at once."""
        self.held += 1

    def give(self) -> None:
        """Give a place back to the next in line."""
        self.held -= 1
        while self._line and self.held < self.size:
            turn = self._line.popleft()
            if not turn.done():
                self.held += 1
                turn.set_result(None)


class Lanes:
    """Two lanes of one source: a target that was slow or dead last time starts in the slow one.

    A poll in the quick lane that takes longer than `patience_s` gives its place back at once and goes on in the slow
    lane, over that lane's number if need be. So whatever slow targets do, a place in the quick lane is held for at
    most `patience_s`.
    """

    def __init__(self, sizes: LaneSizes) -> None:
        self.sizes = sizes
        self.quick = Places(sizes.quick)
        self.slow = Places(sizes.slow)

    async def enter(self, *, slow: bool) -> None:
        """Wait for a place in one of the lanes."""
        await (self.slow if slow else self.quick).take()

    def demote(self) -> None:
        """Go on in the slow lane."""
        self.slow.force()
        self.quick.give()

    def leave(self, *, slow: bool) -> None:
        """Give the place back."""
        (self.slow if slow else self.quick).give()
