"""The keeper's end of a lab session: starts or finds one, and asks it for things."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import msgpack
import zmq

from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.lab.session import SessionOptions, options_json, port_states

if TYPE_CHECKING:
    from pathlib import Path

    from railkeeper.telemetry.ports import PortStates

START_TIMEOUT_S = 120.0
_ANSWER_TIMEOUT_MS = 30_000
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
        line = process.stdout.readline()
        answer = json.loads(line) if line.startswith("{") else {"error": "the lab's process ended without a word"}
        if "ready" not in answer:
            process.wait()
            process.stdout.close()
            raise _error(answer, "the lab did not start")
        return cls(options.control, process)

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
        return port_states(self.ask("ports"))

    def ask(self, command: str, **arguments: Any) -> Any:
        """Give a command and return its answer; raises what the session could not do."""
        self._socket.send(msgpack.packb({"do": command, "with": arguments}))
        if not self._socket.poll(_ANSWER_TIMEOUT_MS):
            # A request socket that got no answer can't ask again: begin anew.
            self._socket.close(0)
            self._open()
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
            self._process.terminate()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._socket = self._context.socket(zmq.REQ)
        self._socket.set(zmq.LINGER, 0)
        self._socket.connect(self._control)


def find(folder: Path) -> LabClient | None:
    """Return a line to the session that lives in `folder`, or None."""
    if not (folder / "control.sock").exists():
        return None
    client = LabClient(f"ipc://{folder}/control.sock")
    client._socket.send(msgpack.packb({"do": "info", "with": {}}))  # noqa: SLF001
    if client._socket.poll(2000):  # noqa: SLF001
        client._socket.recv()  # noqa: SLF001
        return client
    client.close()
    return None


def _error(answer: dict[str, Any], what: str) -> Exception:
    kind, text = answer.get("kind", ""), str(answer["error"])
    if kind == "InputError":
        return InputError(what, text, "")
    return _ERRORS[kind](text) if kind in _ERRORS else OutsideError(f"{what}: {text}")
