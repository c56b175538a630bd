"""The keeper's end of a lab session: starts or finds one, and asks it for things."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import msgpack
import zmq

from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.lab.counters import unpack_counters
from railkeeper.lab.session import SessionOptions, options_json, port_states

if TYPE_CHECKING:
    from railkeeper.lab.counters import PortCounters
    from railkeeper.telemetry.ports import PortStates

_ANSWER_TIMEOUT_MS = 30_000
# Ports are asked for in every tick: an answer that takes longer comes too late.
_PORTS_TIMEOUT_MS = 1000
_HELLO_TIMEOUT_MS = 2000
_STOP_TIMEOUT_S = 60.0
_ERRORS = {"InputError": InputError, "CapabilityError": CapabilityError}


class LabClient:
    """A line to a session; `process` is set where this client started it."""

    def __init__(self, control: str, process: subprocess.Popen[str] | None = None) -> None:
        self._process = process
        self._control = control
        self._context = zmq.Context()
        self._open()

    @classmethod
    def start(cls, options: SessionOptions) -> LabClient:
        """Start a session of its own process and wait until its lab is up.

        Raises CapabilityError where the machine can't, OutsideError where something else failed.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "railkeeper.lab.session", options_json(options)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            _wait_ready(process.stdout)
            return cls(options.control, process)
        except BaseException:
            _end(process)
            raise

    @property
    def pid(self) -> int:
        """The session's process number; 0 where somebody else started it."""
        return self._process.pid if self._process else 0

    def alive(self) -> bool:
        """Return whether the session that this client started still runs."""
        return self._process is not None and self._process.poll() is None

    def info(self) -> dict[str, Any]:
        """Return spec, keeper endpoint and tick length of the session."""
        answer: dict[str, Any] = self.ask("info")
        return answer

    def ports(self) -> PortStates:
        """Return the state of all ports as the switches report them."""
        return port_states(self._ask("ports", {}, _PORTS_TIMEOUT_MS))

    def counters(self) -> PortCounters:
        """Return the counters of all ports, NICs' and switches'."""
        return unpack_counters(self._ask("counters", {}, _ANSWER_TIMEOUT_MS))

    def ask(self, command: str, **arguments: Any) -> Any:
        """Give a command and return its answer; raises what the session could not do.

        OutsideError with `retry` where it does not answer, without where it has ended.
        """
        return self._ask(command, arguments, _ANSWER_TIMEOUT_MS)

    def _ask(self, command: str, arguments: dict[str, Any], timeout_ms: int) -> Any:
        self._socket.send(msgpack.packb({"do": command, "with": arguments}))
        if not self._socket.poll(timeout_ms):
            # A request socket that got no answer can't ask again: begin anew.
            self._socket.close(0)
            self._open()
            if self._ended():
                raise OutsideError("the lab has ended")
            raise OutsideError(f"the lab does not answer on {self._control}", retry=True)
        answer = msgpack.unpackb(self._socket.recv())
        if "error" in answer:
            raise _error(answer, command)
        return answer["ok"]

    def close(self) -> None:
        """End the session if this client started it, and wait until its lab is gone."""
        self._socket.close(0)
        self._context.term()
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _ended(self) -> bool:
        return not (self.alive() if self._process else _socket_file(self._control).exists())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._socket = self._context.socket(zmq.REQ)
        self._socket.set(zmq.LINGER, 0)
        self._socket.connect(self._control)


def find(folder: Path) -> LabClient | None:
    """Return a line to the session that lives in `folder`, or None.

    Raises CapabilityError where there is one that this account may not speak to.
    """
    control = folder / "control.sock"
    if not os.access(control, os.F_OK):
        return None
    if not os.access(control, os.W_OK):
        raise CapabilityError(f"the lab in {folder} is another account's: run it as root, e.g. with sudo")
    client = LabClient(f"ipc://{control}")
    try:
        client._ask("info", {}, _HELLO_TIMEOUT_MS)  # noqa: SLF001
    except OutsideError:
        client.close()
        return None
    return client


def _socket_file(endpoint: str) -> Path:
    return Path(endpoint.removeprefix("ipc://"))


def _wait_ready(words: IO[str]) -> None:
    line = words.readline()
    answer = json.loads(line) if line.startswith("{") else {"error": "the lab's process ended without a word"}
    if "ready" not in answer:
        raise _error(answer, "the lab did not start")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()  # the next lab of this prefix cleans up what it leaves
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _error(answer: dict[str, Any], what: str) -> Exception:
    kind, text = answer.get("kind", ""), str(answer["error"])
    if kind == "InputError":
        return InputError(what, text, "")
    return _ERRORS[kind](text) if kind in _ERRORS else OutsideError(f"{what}: {text}")
