"""A real node_exporter and a real Prometheus on loopback, ended by their process ids."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

PROMETHEUS, NODE_EXPORTER = "prometheus", "prometheus-node-exporter"


def need(program: str, package: str) -> str:
    found = shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not installed (Debian: {package})")
    return found


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def running(*command: str, ready: str):
    """Start a program, wait until a URL answers 200, and end it afterwards."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while not _answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} did not start: {process.stderr.read()[-500:] if process.stderr else ''}")
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


@contextlib.contextmanager
def node_exporter():
    """Yield the host:port of a real node_exporter."""
    address = f"127.0.0.1:{free_port()}"
    program = need(NODE_EXPORTER, NODE_EXPORTER)
    with running(program, f"--web.listen-address={address}", ready=f"http://{address}/"):
        yield address
