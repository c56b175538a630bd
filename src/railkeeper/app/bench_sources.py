"""Benchmark of sources: thousands of HTTP targets from one process, some dead, slow, endless or full of nonsense."""

from __future__ import annotations

import contextlib
import gc
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.adapters.exposition import Reader
from railkeeper.adapters.prometheus_scrape import ScrapeSettings, ScrapeTarget, Texts
from railkeeper.adapters.runner import Runner
from railkeeper.adapters.web import WebClient
from railkeeper.app.bench_peers import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = {"silent": 0.02, "slow": 0.02, "endless": 0.02, "garbage": 0.02, "dead": 0.02}  # the others are well
DEVICES = 16
KEEP = ("node_network_*", "node_infiniband_*", "node_uname_info")
TIMEOUT_S = 5.0
CLOSED_PORT = 1


@dataclass(frozen=True)
class Taken:
    """What one process took from its sources in some seconds."""

    seconds: float
    cpu_s: float
    polls: int
    readings: int
    late_s: np.ndarray


def measure(targets: int, interval_s: float, seconds: float) -> dict[str, Any]:
    """Follow so many targets, first for one interval to learn their shapes, then for the seconds that are measured."""
    with peers() as port, Runner(_targets(targets, interval_s, port)) as runner:
        _drain(runner, interval_s + TIMEOUT_S)
        taken = _take(runner, seconds)
        statuses = runner.statuses()
    now_ns = time.time_ns()
    well = [s for s in statuses if s.target.startswith("well")]
    fresh = sum(s.last_ok_ns is not None and now_ns - s.last_ok_ns < 1.5 * interval_s * 1e9 for s in well)
    return {
        "targets": targets,
        "bad_targets": targets - len(well),
        "interval_s": interval_s,
        "polls_per_s": round(taken.polls / taken.seconds, 1),
        "readings_per_s": round(taken.readings / taken.seconds),
        "well_and_fresh": fresh,
        "well": len(well),
        "late_p50_ms": round(float(np.quantile(taken.late_s, 0.5)) * 1000, 1),
        "late_p99_ms": round(float(np.quantile(taken.late_s, 0.99)) * 1000, 1),
        "late_max_ms": round(float(taken.late_s.max()) * 1000, 1),
        "cpu_share_of_a_core": round(taken.cpu_s / taken.seconds, 3),
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def measure_reader(repeats: int = 200) -> list[dict[str, Any]]:
    """Return samples a second of the reader: of a text of a new shape, and of a known one; by the baseline too."""
    gc.collect()
    gc.disable()  # as timeit does: what else the process holds is not the reader's
    try:
        return _measure_reader(repeats)
    finally:
        gc.enable()


def _measure_reader(repeats: int) -> list[dict[str, Any]]:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - the baseline only

    text = text_of("host", 64, 3)
    Reader().read(text)
    samples = Reader().read(text).counts.samples
    began = time.process_time()
    for _ in range(3):
        Reader().read(text)
    new_s = (time.process_time() - began) / 3
    reader = Reader()
    reader.read(text)
    began = time.process_time()
    for _ in range(repeats):
        reader.read(text)
    known_s = (time.process_time() - began) / repeats
    began = time.process_time()
    sum(len(family.samples) for family in text_string_to_metric_families(text.decode()))
    base_s = time.process_time() - began
    return [
        {"text": what, "samples": samples, "samples_per_s": round(samples / s), "ratio": round(base_s / s, 1)}
        for what, s in (("prometheus_client", base_s), ("new shape", new_s), ("known shape", known_s))
    ]


@contextlib.contextmanager
def peers(devices: int = DEVICES) -> Iterator[int]:
    """Run the targets in a process of their own; yield its port."""
    command = [sys.executable, "-m", "railkeeper.app.bench_peers", str(devices)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _targets(count: int, interval_s: float, port: int) -> list[ScrapeTarget]:
    web, texts = WebClient(), Texts()
    kinds = [kind for kind, share in KINDS.items() for _ in range(round(share * count))]
    kinds += ["well"] * (count - len(kinds))
    return [
        ScrapeTarget(
            "bench",
            f"{kind}-{k}",
            ScrapeSettings(
                f"http://127.0.0.1:{CLOSED_PORT if kind == 'dead' else port}/{kind}/n{k}",
                interval_s=interval_s,
                timeout_s=min(TIMEOUT_S, interval_s),
                keep=KEEP,
            ),
            web,
            texts,
        )
        for k, kind in enumerate(kinds)
    ]


def _drain(runner: Runner, seconds: float) -> int:
    """Take readings once a second, as a keeper does; return how many there were."""
    end = time.monotonic() + seconds
    count = 0
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(1.0, left))
        count += len(runner.drain())
    return count


def _take(runner: Runner, seconds: float) -> Taken:
    timing = runner.timing
    timing.late_s.clear()
    polls, cpu_s, began = timing.polls, time.process_time(), time.monotonic()
    readings = _drain(runner, seconds)
    return Taken(
        seconds=time.monotonic() - began,
        cpu_s=time.process_time() - cpu_s,
        polls=timing.polls - polls,
        readings=readings,
        late_s=np.array(timing.late_s),
    )
