"""Holds real frames for a while: a process of its own, so that nothing else in the lab makes it late.

Frames come from TAP devices and go back to them after a fixed time. The relay's owner sends JSON commands with file
descriptors over a socket pair; when that socket closes, the relay ends. Standard library only: it must start fast.

Commands: {"op": "set", "end": E, "delay_ns": N} (with a TAP's descriptor the first time), {"op": "remove", "end": E}.
Each is answered with one byte once it is in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import os
import select
import socket
import sys
import threading
import time
from dataclasses import dataclass

RELAYED_MAC = b"\x02\xff\x00\x00\x00\x01"
"""Source address of frames that were held already; it keeps them from being held again."""

_FRAME_BYTES = 65_536
_READS_AT_ONCE = 64
_PR_SET_TIMERSLACK = 29


@dataclass
class _Tap:
    fd: int
    delay_ns: int


class Relay:
    """TAPs, the frames that wait, and the control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._taps: dict[int, _Tap] = {}
        self._ends: dict[int, int] = {}
        self._waiting: list[tuple[int, int, int, bytes]] = []
        self._count = 0

    def run(self) -> None:
        """Relay until the control socket closes."""
        while True:
            control = self._control.fileno()
            ready, _, _ = select.select([control, *self._ends], [], [], self._until_next_s())
            for fd in ready:
                self._take(self._ends.get(fd, -1))
            self._release(time.monotonic_ns())
            if control in ready and not self._obey():
                return

    def _until_next_s(self) -> float | None:
        if not self._waiting:
            return None
        return max(0, self._waiting[0][0] - time.monotonic_ns()) / 1e9

    def _take(self, end: int) -> None:
        tap = self._taps.get(end)
        if tap is None:
            return
        for _ in range(_READS_AT_ONCE):
            try:
                frame = os.read(tap.fd, _FRAME_BYTES)
            except OSError:
                return
            self._count += 1
            held = frame[:6] + RELAYED_MAC + frame[12:]
            heapq.heappush(self._waiting, (time.monotonic_ns() + tap.delay_ns, self._count, end, held))

    def _release(self, now_ns: int) -> None:
        while self._waiting and self._waiting[0][0] <= now_ns:
            _, _, end, frame = heapq.heappop(self._waiting)
            self._give(end, frame)

    def _give(self, end: int, frame: bytes) -> None:
        tap = self._taps.get(end)
        if tap is not None:
            with contextlib.suppress(OSError):  # its interface is down: the frame is lost, as on a real link
                os.write(tap.fd, frame)

    def _obey(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, 4096, 1)
        if not data:
            return False
        command = json.loads(data)
        end = int(command["end"])
        if command["op"] == "set":
            self._set(end, int(command["delay_ns"]), fds)
        else:
            self._remove(end)
        self._control.send(b"k")
        return True

    def _set(self, end: int, delay_ns: int, fds: list[int]) -> None:
        if fds:
            os.set_blocking(fds[0], False)
            self._taps[end] = _Tap(fds[0], delay_ns)
            self._ends[fds[0]] = end
        else:
            self._taps[end].delay_ns = delay_ns

    def _remove(self, end: int) -> None:
        """Let go of what still waits, at once, and of the TAP."""
        self._take(end)
        for _, _, _, frame in sorted(item for item in self._waiting if item[2] == end):
            self._give(end, frame)
        self._waiting = [item for item in self._waiting if item[2] != end]
        heapq.heapify(self._waiting)
        tap = self._taps.pop(end)
        del self._ends[tap.fd]
        # The kernel takes tens of milliseconds to take a TAP away; other frames must not wait for that.
        threading.Thread(target=os.close, args=(tap.fd,)).start()


def main() -> None:
    """Run the relay on the control socket whose descriptor is the argument."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1_000, 0, 0, 0)
    with contextlib.suppress(ConnectionError, BrokenPipeError), socket.socket(fileno=int(sys.argv[1])) as control:
        Relay(control).run()


if __name__ == "__main__":
    main()
