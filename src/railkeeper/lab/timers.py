"""Things that happen later, all in one thread."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from typing import TYPE_CHECKING

from railkeeper.base.errors import RailkeeperError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Timers:
    """Calls functions after given times; the thread starts with the first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, threading.Event, Callable[[], None]]] = []
        self._count = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, action: Callable[[], None]) -> threading.Event:
        """Call `action` in `seconds`, unless the event that is returned is set by then."""
        cancelled = threading.Event()
        with self._changed:
            self._count += 1
            heapq.heappush(self._due, (time.monotonic() + seconds, self._count, cancelled, action))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="lab-timers", daemon=True)
                self._thread.start()
            self._changed.notify()
        return cancelled

    def close(self) -> None:
        """Forget all that is still to come and end the thread."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            cancelled, action = item
            if cancelled.is_set():
                continue
            try:
                action()
            except RailkeeperError as e:  # one that fails must not take the others with it
                _log.warning("%s", e)

    def _next(self) -> tuple[threading.Event, Callable[[], None]] | None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[2:]
                self._changed.wait(self._due[0][0] - now if self._due else None)
        return None
