"""Runs one process per role and node in the node's namespace, all forked from one parent that has imported everything.

The parent (nursery.py) is a fresh process: forking the keeper itself, with its threads and sockets, would not be safe.
Nothing outlives the crew: processes die with the nursery, and the nursery with whoever made the crew, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from railkeeper.base.errors import OutsideError
from railkeeper.lab import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railkeeper.lab.build import Lab

_SIZE = struct.Struct("=I")
_TIMEOUT_S = 60.0
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Crew:
    """The processes of a lab's nodes. Threads may call it at will."""

    def __init__(self, lab: Lab, *, preload: Sequence[str] = (), log: Path | None = None) -> None:
        """Start the nursery.

        `preload` names modules to import once for all, or `module:function` to call once as well (to compile, say);
        what processes print to standard error goes to `log`, or where the caller's goes.
        """
        self._prefix = lab.prefix
        self._members: dict[tuple[str, int], bytes] = {}
        self._away: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._control, self._process = _spawn(preload, log)
        lab.at_close(self.stop)

    def start(self, role: str, node: int, target: Callable[..., None], *args: Any) -> None:
        """Run `target(*args)` in a process in the node's namespace; it must be importable and its arguments picklable.

        A process that this role and node already have is ended first.
        """
        self.start_many([(role, node, target, args)])

    def start_many(self, jobs: Iterable[tuple[str, int, Callable[..., None], tuple[Any, ...]]]) -> None:
        """Start many processes, each as `start` does."""
        for role, node, target, args in jobs:
            member = (role, node)
            self._members[member] = pickle.dumps((target, args))
            self._away.discard(member)
            self._start(member)

    def kill(self, role: str, node: int) -> None:
        """End a process with SIGKILL and wait for its end; it stays away until `restart` or `start`."""
        self._away.add((role, node))
        self._ask("kill", (role, node))

    def restart(self, role: str, node: int) -> None:
        """Start a process anew with what it was started with; a live one is ended first."""
        if (role, node) in self._members and self._process is not None:
            self._away.discard((role, node))
            self._start((role, node))

    def revive(self) -> tuple[tuple[str, int], ...]:
        """Restart the processes that ended without having been killed through the crew; returns which."""
        gone = sorted(self._members.keys() - self._away - self.alive().keys())
        for member in gone:
            self.restart(*member)
        return tuple(gone)

    def alive(self) -> dict[tuple[str, int], int]:
        """Return the process number of each live (role, node)."""
        answer: dict[tuple[str, int], int] = self._ask("alive", None)
        return answer

    def roles_of(self, node: int) -> tuple[str, ...]:
        """Return the roles that a node has processes for, live or not."""
        return tuple(sorted(role for role, n in self._members if n == node))

    def stop(self, *, grace_s: float = 2.0) -> None:
        """End all processes, with SIGTERM, and those that stay on with SIGKILL; again is no error."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            with contextlib.suppress(OSError):  # the nursery may be gone already, and with it all processes
                self._call("stop", grace_s)
        finally:
            self._control.close()
            process.wait()

    def _start(self, member: tuple[str, int]) -> None:
        space = names.node_ns(self._prefix, member[1])
        self._ask("start", (member, space, self._members[member]))

    def _ask(self, command: str, value: Any) -> Any:
        if self._process is None:
            return {} if command == "alive" else None
        try:
            ok, answer = self._call(command, value)
        except OSError as e:
            raise OutsideError(f"crew: its parent process has ended ({e}); its standard error says why") from e
        if not ok:
            raise OutsideError(f"crew: {answer}")
        return answer

    def _call(self, command: str, value: Any) -> tuple[bool, Any]:
        with self._lock:
            send(self._control, (command, value))
            answer: tuple[bool, Any] = receive(self._control)
        return answer


def _spawn(preload: Sequence[str], log: Path | None) -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    ours, theirs = socket.socketpair()
    ours.settimeout(_TIMEOUT_S)
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644) if log else None
    try:
        # A session of its own: Ctrl-C in the terminal reaches the keeper alone, which then ends its crew in order.
        process = subprocess.Popen(
            [sys.executable, "-m", "railkeeper.lab.nursery", str(theirs.fileno()), *preload],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            env=os.environ | _ONE_THREAD,
        )  # fmt: skip
    finally:
        theirs.close()
        if errors is not None:
            os.close(errors)
    return ours, process


def send(control: socket.socket, value: Any) -> None:
    """Send one message between crew and nursery."""
    data = pickle.dumps(value)
    control.sendall(_SIZE.pack(len(data)) + data)


def receive(control: socket.socket) -> Any:
    """Receive one message between crew and nursery; raises ConnectionError when the other side is gone."""
    (size,) = _SIZE.unpack(_exactly(control, _SIZE.size))
    return pickle.loads(_exactly(control, size))  # noqa: S301 (from our own child over a private socket)


def _exactly(control: socket.socket, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        part = control.recv(size - len(out))
        if not part:
            raise ConnectionError("the other side of the crew's socket is gone")
        out += part
    return bytes(out)
