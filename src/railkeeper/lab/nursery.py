"""The parent of a crew's processes: imports once, then forks on demand. One thread, no sockets but the control one.

It obeys the crew over a socket pair and ends, with all its children, when that socket closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from railkeeper.lab import netns
from railkeeper.lab.crew import receive, send

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.01

Member = tuple[str, int]


class Nursery:
    """The children by (role, node)."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pid = os.getpid()
        self._children: dict[Member, int] = {}
        self._commands: dict[str, Callable[[Any], Any]] = {
            "start": self._start,
            "kill": self._kill,
            "alive": self._alive,
            "stop": self._stop,
        }

    def run(self) -> None:
        """Obey until told to stop or until the crew is gone."""
        with contextlib.suppress(ConnectionError):
            while True:
                command, value = receive(self._control)
                send(self._control, self._obey(command, value))
                if command == "stop":
                    return
        self._stop(0.0)

    def _obey(self, command: str, value: Any) -> tuple[bool, Any]:
        try:
            return True, self._commands[command](value)
        except Exception as e:  # noqa: BLE001 (whatever it is, the crew must hear of it and the others live on)
            return False, f"{command}: {type(e).__name__}: {e}"

    def _start(self, value: tuple[Member, str, bytes]) -> int:
        member, space, job = value
        self._kill(member)
        pid = os.fork()
        if pid == 0:
            self._become(space, job)
        self._children[member] = pid
        return pid

    def _become(self, space: str, job: bytes) -> NoReturn:
        code = 1
        try:
            die_with_parent(self._pid)
            self._control.close()
            netns.enter(space)
            target, args = pickle.loads(job)  # noqa: S301 (from our own crew over a private socket)
            target(*args)
            code = 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        except BaseException:  # noqa: BLE001 (a child must not return into its parent's code)
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _kill(self, member: Member) -> None:
        pid = self._children.pop(member, None)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _alive(self, _value: None) -> dict[Member, int]:
        ended = [member for member, pid in self._children.items() if os.waitpid(pid, os.WNOHANG)[0]]
        for member in ended:
            del self._children[member]
        return dict(self._children)

    def _stop(self, grace_s: float) -> None:
        for pid in self._alive(None).values():
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while self._alive(None) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        for member in list(self._children):
            self._kill(member)


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process with SIGKILL when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _preload(names: Sequence[str]) -> None:
    for name in names:
        module, _, function = name.partition(":")
        loaded = importlib.import_module(module)
        if function:
            getattr(loaded, function)()
    gc.collect()
    gc.freeze()


def main() -> None:
    """Run the nursery: arguments are the control socket's descriptor and what to preload."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _preload(sys.argv[2:])
        Nursery(control).run()


if __name__ == "__main__":
    main()
