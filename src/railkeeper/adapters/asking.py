"""Asking: the endless life of one target and of one stream within the runner's loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.adapters.pauses import Backoff, chance_of, next_due_s
from railkeeper.base.errors import OutsideError, RailkeeperError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from railkeeper.adapters.lanes import Lanes
    from railkeeper.telemetry.reading import Reading, Stream, Target

    Emit = Callable[[Sequence[Reading]], None]

# How long a poll that was cancelled may take to end before it is told as stuck.
CANCEL_GRACE_S = 1.0


@dataclass
class Standing:
    """How one target stands, as `SourceStatus` tells it; written by the loop, read by any thread."""

    source: str
    target: str
    state: str = "waiting"
    last_ok_ns: int | None = None
    next_try_ns: int | None = None
    failures: int = 0
    error: str = ""

    def went_well(self, complaint: str = "") -> None:
        self.state, self.failures, self.error = "ok", 0, complaint
        self.last_ok_ns = time.time_ns()

    def failed(self, error: str, pause_s: float) -> None:
        self.state, self.error = "failing", error
        self.next_try_ns = time.time_ns() + int(pause_s * 1e9)


@dataclass
class Timing:
    """What the loop measured of itself: `late_s` is how long polls in the quick lane began after their moment."""

    polls: int = 0
    failures: int = 0
    late_s: deque[float] = field(default_factory=lambda: deque(maxlen=20_000))


def told(error: BaseException) -> str:
    """Return the text of a failure. What an adapter did not expect must not end the others, so it is told like one."""
    if isinstance(error, RailkeeperError):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"error in the adapter: {type(error).__name__}: {error}"


class Asked:
    """A target that is polled at a regular beat, and after failures with growing pauses."""

    def __init__(
        self, target: Target, lanes: Lanes, emit: Emit, timing: Timing, *, seed: int, offset_s: float, cap_s: float
    ) -> None:
        self.target = target
        self.standing = Standing(target.source, target.name)
        self._lanes = lanes
        self._emit = emit
        self._timing = timing
        self._offset_s = offset_s
        self._backoff = Backoff(first_s=target.interval_s, cap_s=cap_s)
        self._chance = chance_of(seed, target.source, target.name)
        self._slow = False
        self._stuck: asyncio.Task[Sequence[Reading]] | None = None

    @property
    def stuck(self) -> bool:
        """Return whether a poll that was given up is still under way."""
        return self._stuck is not None and not self._stuck.done()

    async def live(self) -> None:
        """Ask again and again until cancelled."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._offset_s
        while True:
            self.standing.next_try_ns = time.time_ns() + int((due_s - loop.time()) * 1e9)
            await asyncio.sleep(due_s - loop.time())
            pause_s = await self._once(due_s)
            due_s = next_due_s(due_s, self.target.interval_s, loop.time()) if pause_s is None else loop.time() + pause_s

    async def _once(self, due_s: float) -> float | None:
        """Ask once; return the pause after a failure, None when it went well."""
        self._timing.polls += 1
        try:
            self._emit(await self._poll(due_s))
        except Exception as error:  # noqa: BLE001 - see `told`
            self._timing.failures += 1
            self.standing.failures += 1
            pause_s = self._backoff.pause_s(self.standing.failures, self._chance)
            self.standing.failed(told(error), pause_s)
            return pause_s
        # What answers in part is well and has something to say: lines that could not be read, an object that is away.
        self.standing.went_well(getattr(self.target, "complaint", ""))
        return None

    async def _poll(self, due_s: float) -> Sequence[Reading]:
        if self.stuck:
            raise OutsideError("the poll before, which was given up, still has not ended", retry=True)
        slow = self._slow
        await self._lanes.enter(slow=slow)
        began_s = asyncio.get_running_loop().time()
        if not slow:
            self._timing.late_s.append(began_s - due_s)
        poll = asyncio.ensure_future(self.target.poll())
        try:
            if not slow:
                await asyncio.wait({poll}, timeout=min(self._lanes.sizes.patience_s, self.target.timeout_s))
                if slow := not poll.done():
                    self._lanes.demote()
            return await self._rest(poll, began_s)
        finally:
            took_s = asyncio.get_running_loop().time() - began_s
            self._slow = not poll.done() or took_s > self._lanes.sizes.patience_s
            self._lanes.leave(slow=slow)
            self._give_up(poll)

    async def _rest(self, poll: asyncio.Future[Sequence[Reading]], began_s: float) -> Sequence[Reading]:
        if not poll.done():
            left_s = began_s + self.target.timeout_s - asyncio.get_running_loop().time()
            await asyncio.wait({poll}, timeout=max(0.0, left_s))
        if not poll.done():
            poll.cancel()
            await asyncio.wait({poll}, timeout=CANCEL_GRACE_S)
            raise OutsideError(f"no whole answer within {self.target.timeout_s:g} s", retry=True)
        return poll.result()

    def _give_up(self, poll: asyncio.Task[Sequence[Reading]]) -> None:
        if not poll.done():
            poll.cancel()
            poll.add_done_callback(_look)
            self._stuck = poll
        else:
            _look(poll)


def _look(poll: asyncio.Task[Sequence[Reading]]) -> None:
    """Take note of how a poll that nobody waits for ended, so that asyncio does not print it."""
    if not poll.cancelled():
        poll.exception()


class Followed:
    """A stream that is run again with growing pauses whenever it ends; one that held longer than its pause starts anew.

    `ok` means that something came since it was last run; how old that is stands in `last_ok_ns`.
    """

    def __init__(self, stream: Stream, emit: Emit, *, seed: int, backoff: Backoff) -> None:
        self.target = stream
        self.standing = Standing(stream.source, stream.name)
        self._put = emit
        self._backoff = backoff
        self._chance: random.Random = chance_of(seed, stream.source, stream.name)
        self._failures = 0

    async def live(self) -> None:
        """Follow it until cancelled."""
        loop = asyncio.get_running_loop()
        pause_s = self._backoff.first_s * self._chance.random()  # many streams do not all connect at once
        while True:
            self.standing.next_try_ns = time.time_ns() + int(pause_s * 1e9)
            await asyncio.sleep(pause_s)
            self.standing.next_try_ns = None
            began_s = loop.time()
            error = await self._run()
            if loop.time() - began_s > max(pause_s, self._backoff.first_s):
                self._failures = 0
            self._failures += 1
            self.standing.failures = self._failures
            pause_s = self._backoff.pause_s(self._failures, self._chance)
            self.standing.failed(error, pause_s)

    async def _run(self) -> str:
        try:
            await self.target.run(self._heard)
        except Exception as error:  # noqa: BLE001 - see `told`
            return told(error)
        return "the stream ended"

    def _heard(self, readings: Sequence[Reading]) -> None:
        self._put(readings)
        self.standing.went_well()


async def close_quietly(thing: Target | Stream, limit_s: float) -> bool:
    """Close a target or stream; return whether it did so in time and without an error."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(thing.close(), limit_s)
        return True
    return False
