"""A real redis-server on a free port of 127.0.0.1, which a test starts, stops and starts again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
import redis


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RedisServer:
    """One server; `client(db)` is for the test's own writing."""

    def __init__(self, directory: Path, *, password: str = "") -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed (Debian: redis-server)")
        self.directory = directory
        self.port = free_port()
        self.password = password
        self.socket = directory / "redis.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        # fmt: off
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket", str(self.socket),
                   "--save", "", "--dir", str(self.directory), "--databases", "21"]
        # fmt: on
        if self.password:
            command += ["--requirepass", self.password]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                with self.client(0) as c:
                    c.ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                return
        pytest.fail("redis-server did not start")

    def client(self, db: int) -> redis.Redis:
        return redis.Redis(port=self.port, db=db, password=self.password or None, decode_responses=True)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
