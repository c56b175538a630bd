"""Runner: thousands of targets and streams in one thread of its own; the keeper takes what they said when it likes."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from railkeeper.adapters.asking import Asked, Followed, Timing, close_quietly
from railkeeper.adapters.backlog import ROOM_TOTAL_VALUES, ROOM_VALUES, Backlog
from railkeeper.adapters.lanes import Lanes, LaneSizes
from railkeeper.adapters.pauses import CAP_S, Backoff, spread
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.reading import SourceStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from railkeeper.telemetry.reading import Reading, Stream, Target

CLOSE_S = 2.0  # how long a target may take to close


@dataclass(frozen=True)
class RunnerSettings:
    """Limits of a runner; `seed` makes spread and pauses the same in every run."""

    seed: int = 0
    lanes: LaneSizes = field(default_factory=LaneSizes)
    longest_pause_s: float = CAP_S
    room_values: int = ROOM_VALUES
    total_values: int = ROOM_TOTAL_VALUES


class Runner:
    """Asks targets and follows streams until stopped. All public methods may be called from any thread.

    Use it as a context, or call `start` and `stop`. It may be started once.
    """

    def __init__(
        self, targets: Sequence[Target], streams: Sequence[Stream] = (), settings: RunnerSettings | None = None
    ) -> None:
        self._settings = settings or RunnerSettings()
        _check_names([*targets, *streams])
        count = len(targets) + len(streams)
        self._backlog = Backlog(count, self._settings.room_values, self._settings.total_values)
        self._targets = list(targets)
        self._streams = list(streams)
        self._timing = Timing()
        self._lives: list[Asked | Followed] = [*self._asked(), *self._followed()]
        self._stuck: tuple[str, ...] = ()
        self._broken: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="railkeeper-sources", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to ask, in a thread of its own."""
        _raise_file_limit(2 * (len(self._targets) + len(self._streams)) + 256)
        self._thread.start()
        self._up.wait()

    def stop(self, limit_s: float = 10.0) -> tuple[str, ...]:
        """End all polls and streams and close them; return the names of those that would not end in time."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop may just have ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(limit_s)
        if self._thread.is_alive():
            return tuple(life.target.name for life in self._lives if isinstance(life, Asked) and life.stuck)
        return self._stuck

    def drain(self) -> list[Reading]:
        """Return all readings since the last call. Raises OutsideError if the runner itself has broken."""
        if self._broken is not None:
            raise OutsideError(f"the runner of the sources has broken: {self._broken!r}")
        return self._backlog.take()

    def statuses(self) -> list[SourceStatus]:
        """Return how every target and stream is now, in the order in which they were given."""
        return [
            SourceStatus(
                source=life.standing.source,
                target=life.standing.target,
                state=life.standing.state,
                last_ok_ns=life.standing.last_ok_ns,
                next_try_ns=life.standing.next_try_ns,
                failures=life.standing.failures,
                error=life.standing.error,
                dropped=self._backlog.dropped(k),
            )
            for k, life in enumerate(self._lives)
        ]

    @property
    def timing(self) -> Timing:
        """Return what the runner measured of itself."""
        return self._timing

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - told by `drain`: a thread has nobody else to tell
            self._broken = error
        finally:
            self._up.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks = [asyncio.create_task(life.live()) for life in self._lives]
        watch = asyncio.create_task(self._stop.wait())
        self._up.set()
        # A life ends only by a fault in the runner, and that must not pass for a quiet fabric.
        ended, _ = await asyncio.wait([watch, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (watch, *tasks):
            task.cancel()
        await asyncio.gather(watch, *tasks, return_exceptions=True)
        await self._close_all()
        for task in ended - {watch}:
            task.result()

    def _asked(self) -> list[Asked]:
        settings = self._settings
        lanes = {source: Lanes(settings.lanes) for source in {t.source for t in self._targets}}
        offsets = spread([t.interval_s for t in self._targets], settings.seed)
        return [
            Asked(
                target,
                lanes[target.source],
                partial(self._backlog.put, k),
                self._timing,
                seed=settings.seed,
                offset_s=offsets[k],
                cap_s=settings.longest_pause_s,
            )
            for k, target in enumerate(self._targets)
        ]

    def _followed(self) -> list[Followed]:
        backoff = Backoff(cap_s=self._settings.longest_pause_s)
        first = len(self._targets)
        return [
            Followed(stream, partial(self._backlog.put, first + k), seed=self._settings.seed, backoff=backoff)
            for k, stream in enumerate(self._streams)
        ]

    async def _close_all(self) -> None:
        closed = await asyncio.gather(*(close_quietly(life.target, CLOSE_S) for life in self._lives))
        self._stuck = tuple(life.target.name for life, ok in zip(self._lives, closed, strict=True) if not ok)
        for life in self._lives:
            life.standing.state, life.standing.next_try_ns = "closed", None


def _check_names(things: Sequence[Target | Stream]) -> None:
    seen: set[tuple[str, str]] = set()
    for thing in things:
        if (key := (thing.source, thing.name)) in seen:
            raise InputError(thing.source, f"target {thing.name} is there twice", "give each target a name of its own")
        seen.add(key)


def _raise_file_limit(wanted: int) -> None:
    """Raise this process's own limit of open files as far as it may: each target holds a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < top:
        resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))
