"""Read a topology and a flow trace from files, and say which links and switches are at fault."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.health.infer.engine import infer
from railkeeper.health.infer.evidence import See, evidence
from railkeeper.health.infer.topology import Topology, parse_topology, topology
from railkeeper.health.infer.trace import Trace, buffer, parse_trace

if TYPE_CHECKING:
    from pathlib import Path

    from railkeeper.health.infer.problem import Blame, Config


@dataclass(frozen=True)
class Located:
    """What was found, over which network, and what it took.

    `load_s` is reading the files and putting them in order; `locate_s` the inference.
    """

    network: Topology
    blames: tuple[Blame, ...]
    flows: int
    without_counts: int
    without_path: int
    load_s: float
    locate_s: float


def locate_files(network_file: Path, trace_file: Path, see: See, config: Config) -> Located:
    """Locate faults; raises InputError for what can't be read."""
    warm_up()
    begin = time.perf_counter()
    network = parse_topology(_text(network_file), str(network_file))
    trace = read_trace(trace_file)
    usable = evidence(trace, network, see, str(trace_file))
    loaded = time.perf_counter()
    blames = infer(usable.problem, config)
    end = time.perf_counter()
    return Located(
        network, blames, len(trace.src), usable.without_counts, usable.without_path, loaded - begin, end - loaded
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as e:
        raise InputError(str(path), f"can't be read: {e.strerror}", "an edge list") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not text", "an edge list") from None


def read_trace(path: Path) -> Trace:
    """Read a flow trace from a file; raises InputError for what can't be read."""
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            text = buffer(size)
            view, got = memoryview(text.data)[:size], 0
            while got < size and (more := file.readinto(view[got:])):
                got += more
            if got < size or file.read(1):
                raise InputError(str(path), "changes while it is read, or is no file", "a file that is complete")
    except OSError as e:
        raise InputError(str(path), f"can't be read: {e.strerror}", "a flow trace") from None
    return parse_trace(text, str(path))


_WARM = (
    b"FP 0 2 1\nFP 0 3 1\nFID 10000 10001 0 1 1 0\nFPT 0 2 1\nSS 0.0 9 %d 0\nFID 0 10001 2 1 1 0\nFPT 2 1\nSS 0 2 1 0\n"
)


def warm_up() -> None:
    """Load (the first time: compile) all kernels, so that what is measured is the work and not the compiler."""
    network = topology(np.array([[0, 2], [0, 3], [1, 2], [1, 3]]), np.array([[10000, 0], [10001, 1]]))
    for see in See:
        for lost in (0, 2):
            line = _WARM % lost
            text = buffer(len(line))
            text[: len(line)] = np.frombuffer(line, dtype=np.uint8)
            infer(evidence(parse_trace(text, "warm-up"), network, see, "warm-up").problem)


def answer(located: Located) -> dict[str, Any]:
    """Return the answer for scripts."""
    return {
        "faults": [_fault(located.network, blame) for blame in located.blames],
        "flows": located.flows,
        "flows_without_counts": located.without_counts,
        "flows_without_path": located.without_path,
        "load_s": round(located.load_s, 6),
        "locate_s": round(located.locate_s, 6),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _fault(network: Topology, blame: Blame) -> dict[str, Any]:
    key, value = ("link", link_of(network, blame.component)) if blame.component < network.n_links else (
        "device", device_of(network, blame.component))  # fmt: skip
    others = [
        link_of(network, other) if other < network.n_links else [device_of(network, other)] * 2
        for other in blame.indistinguishable
    ]
    return {
        key: value,
        "rate": blame.rate,
        "rate_low": blame.rate_low,
        "rate_high": blame.rate_high,
        "confidence": blame.confidence,
        "indistinguishable": others,
    }


def link_of(network: Topology, part: int) -> list[int]:
    """Return the two ends of a link, in its direction."""
    return [int(network.link_from[part]), int(network.link_to[part])]


def device_of(network: Topology, composite: int) -> int:
    """Return the switch of a composite."""
    return int(network.switches[composite - network.n_links])
