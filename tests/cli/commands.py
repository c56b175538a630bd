"""Commands as processes, and their JSON Lines as they come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

MAIN = "from railkeeper.cli.main import main; main()"
PATIENCE_S = 60.0


class Command:
    """A running command; what it has printed so far is in `lines` and `errors`."""

    def __init__(self, *args, before=()):
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", MAIN, *map(str, args)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines, self.errors = [], []
        self._readers = [
            threading.Thread(target=self._read, args=pipe, daemon=True)
            for pipe in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(pipe, into):
        with pipe:
            into.extend(iter(pipe.readline, ""))

    @property
    def pid(self):
        return self.process.pid

    def events(self, type_, **wanted):
        found = [json.loads(line) for line in list(self.lines)]
        return [e for e in found if e["type"] == type_ and all(e[k] == v for k, v in wanted.items())]

    def until(self, condition, what=""):
        """Wait until a condition on this command is true, and return what it gives."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if got := condition(self):
                return got
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{what} did not happen; {self.process.poll()}; {self.errors}; {self.lines[-5:]}")

    def until_warm(self, nodes, *, senders=True):
        """Wait until all agents and senders report."""

        def warm(c):
            return [
                e for e in c.events("tick", agents=nodes, silent=0)
                if not senders or (e["traffic"] and e["traffic"]["senders"] == nodes)
            ]  # fmt: skip

        return self.until(warm, "all reporting")

    def stop(self, number=signal.SIGINT):
        """End the command by a signal and wait for it; returns its exit code."""
        if self.process.poll() is None:
            os.kill(self.pid, number)
        code = self.process.wait(60)
        for reader in self._readers:
            reader.join(10)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)
