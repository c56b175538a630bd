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


@contextlib.contextmanager
def prometheus(folder, jobs: dict[str, str], *, interval: str = "500ms"):
    """Yield the URL of a real Prometheus that scrapes jobs (name -> host:port) and stores into a folder."""
    address = f"127.0.0.1:{free_port()}"
    program = need(PROMETHEUS, PROMETHEUS)
    lines = [f"global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}", "scrape_configs:"]
    lines += [f"- {{job_name: {job}, static_configs: [{{targets: ['{target}']}}]}}" for job, target in jobs.items()]
    config = folder / "prometheus.yml"
    config.write_text("\n".join(lines) + "\n")
    command = (
        program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}",
    )  # fmt: skip
    with running(*command, ready=f"http://{address}/-/ready"):
        yield f"http://{address}"
