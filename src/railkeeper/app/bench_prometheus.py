"""Benchmark against Prometheus: one rule over half a million series, from the same targets, in the same run.

"Errors a second of a switch above a limit for twenty scrapes" (five minutes at 15 s). Both scrape 50 targets of 10,000
series at the same interval, and evaluate after each scrape. Processor time is what the kernel counted for the process
while both were in their stride; memory is what is resident at the end. Railkeeper keeps no history here, and Prometheus
also writes its own: what is compared is the cost of watching by a rule, not of a database.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from railkeeper.app.bench_prometheus_keeper import FOR_TICKS, LIMIT_PER_S, WINDOW_TICKS, N
from railkeeper.app.bench_prometheus_target import BAD, NAME, TARGETS, switch_name
from railkeeper.base.errors import CapabilityError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Scrapes in which both learn the series, before processor time counts.
LEARN_TICKS = 3
# Scrapes that are waited for alerts that should be there.
LATE_TICKS = 8
RULES = """\
groups:
- name: errors
  interval: {interval}s
  rules:
  - record: switch:rx_crc_errors:rate
    expr: sum by (switch) (rate({name}[{window}s]))
  - alert: SwitchErrors
    expr: switch:rx_crc_errors:rate > {limit}
    for: {hold}s
"""
CONFIG = """\
global:
  scrape_interval: {interval}s
  scrape_timeout: {interval}s
  evaluation_interval: {interval}s
rule_files: [rules.yml]
scrape_configs:
- job_name: switches
  static_configs:
"""
ONE_TARGET = '  - targets: ["127.0.0.1:{port}"]\n    labels: {{__metrics_path__: /metrics/{k}, instance: t{k}}}\n'


@dataclass(frozen=True)
class Cost:
    """What a process has used so far: processor s, samples taken; bytes resident now."""

    cpu_s: float
    samples: int
    rss_bytes: int


def measure(interval_s: int, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Run both beside each other until the rule has fired for both, and return what they cost.

    Raises CapabilityError without Prometheus, OutsideError if it does not come up.
    """
    if shutil.which("prometheus") is None:
        raise CapabilityError("there is no Prometheus here", "apt-get install prometheus")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="railkeeper-bench-")))
        target = stack.enter_context(_started(_module("target", str(time.time()))))
        port = int(_line(target))
        web = _free_port()
        _write(folder, port, interval_s)
        prometheus = stack.enter_context(_started(_prometheus(folder, web), folder / "log"))
        keeper = stack.enter_context(_started(_module("keeper", str(port), str(interval_s))))
        lines = _Lines(keeper)
        time.sleep(LEARN_TICKS * interval_s)
        before = _cost(prometheus.pid, _appended(web)), _cost(keeper.pid, lines.last["samples"])
        firing: set[str] = set()
        holds: set[str] = set()
        for tick in range(WINDOW_TICKS + FOR_TICKS + LATE_TICKS):
            time.sleep(interval_s)
            if keeper.poll() is not None:
                raise OutsideError(f"Railkeeper's side ended with {keeper.returncode}")
            holds, firing = holds | set(lines.last["holds"]), firing | _firing(web)
            say(f"scrape {tick + 1 + LEARN_TICKS}: {len(firing)} alerts of Prometheus, {len(holds)} of Railkeeper")
            if min(len(firing), len(holds)) >= len(BAD):
                break
        after = _cost(prometheus.pid, _appended(web)), _cost(keeper.pid, lines.last["samples"])
        return _figures(interval_s, before, after, firing, holds)


def _figures(
    interval_s: int, before: tuple[Cost, Cost], after: tuple[Cost, Cost], firing: set[str], holds: set[str]
) -> dict[str, Any]:
    theirs, ours = (_row(b, a) for b, a in zip(before, after, strict=True))
    injected = {switch_name(number) for number in BAD}
    return {
        "series": N,
        "interval_s": interval_s,
        "prometheus": theirs,
        "railkeeper": ours,
        "ratio_samples_per_cpu_s": round(ours["samples_per_cpu_s"] / theirs["samples_per_cpu_s"], 1),
        "ratio_bytes_per_series": round(ours["bytes_per_series"] / theirs["bytes_per_series"], 3),
        "same_alerts": firing == holds == injected,
        "alerts": {"injected": len(injected), "prometheus": len(firing), "railkeeper": len(holds)},
    }


def _row(before: Cost, after: Cost) -> dict[str, float]:
    samples, cpu_s = after.samples - before.samples, after.cpu_s - before.cpu_s
    return {
        "samples": samples,
        "cpu_s": round(cpu_s, 2),
        "samples_per_cpu_s": round(samples / max(cpu_s, 0.01)),
        "rss_bytes": after.rss_bytes,
        "bytes_per_series": round(after.rss_bytes / N),
    }


def _module(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", f"railkeeper.app.bench_prometheus_{name}", *args]


def _prometheus(folder: Path, web: int) -> list[str]:
    return [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{web}", "--log.level=warn",
    ]  # fmt: skip


def _write(folder: Path, port: int, interval_s: int) -> None:
    config = CONFIG.format(interval=interval_s) + "".join(ONE_TARGET.format(port=port, k=k) for k in range(TARGETS))
    rules = RULES.format(
        interval=interval_s, name=NAME, window=WINDOW_TICKS * interval_s, limit=LIMIT_PER_S, hold=FOR_TICKS * interval_s
    )
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    (folder / "rules.yml").write_text(rules, encoding="utf-8")


@contextlib.contextmanager
def _started(command: list[str], log: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    with contextlib.ExitStack() as stack:
        errors: IO[str] | None = stack.enter_context(log.open("w", encoding="utf-8")) if log else None
        # Half a million values are no work for a second thread.
        env = {**os.environ, "NUMBA_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise OutsideError(f"{process.args!r} ended before it had begun")
    return line


class _Lines:
    """The last line of JSON that a process has printed, read by a thread of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.last: dict[str, Any] = {"samples": 0, "holds": []}
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.last = json.loads(line)


def _cost(pid: int, samples: int) -> Cost:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Cost(cpu_s, samples, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _get(web: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}{path}", timeout=30) as answer:
            text: str = answer.read().decode()
            return text
    except OSError as e:
        raise OutsideError(f"Prometheus does not answer: {e}") from e


def _appended(web: int) -> int:
    """Return how many samples Prometheus has taken."""
    for line in _get(web, "/metrics").splitlines():
        if line.startswith("prometheus_tsdb_head_samples_appended_total"):
            return int(float(line.split()[-1]))
    raise OutsideError("Prometheus does not say how many samples it has taken")


def _firing(web: int) -> set[str]:
    alerts = json.loads(_get(web, "/api/v1/alerts"))["data"]["alerts"]
    return {alert["labels"]["switch"] for alert in alerts if alert["state"] == "firing"}
