"""Draw windows of a fat tree, locate their faults by several methods, and score the answers."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.app.locating import read_trace, warm_up
from railkeeper.health.infer.baselines.factors import blame_by_factors
from railkeeper.health.infer.baselines.votes import blame_by_votes
from railkeeper.health.infer.draw import Scene, as_text, draw
from railkeeper.health.infer.engine import infer
from railkeeper.health.infer.evidence import See, evidence
from railkeeper.health.infer.fattree import FatTree
from railkeeper.health.infer.topology import devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from railkeeper.health.infer.problem import Csr, Problem

_RATES = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.010, 0.014, 0.018)
_SHARES = (0.25, 0.5, 0.75, 1.0)


def _cells() -> Iterator[tuple[str, Callable[[int], Scene]]]:
    for skewed in (False, True):
        kind = "skewed" if skewed else "uniform"
        yield f"none-{kind}", partial(_scene, skewed=skewed)
        for rate in _RATES:
            yield f"{rate:.2%}-{kind}", partial(_scene, rate=rate, skewed=skewed)
        yield f"1-8-links-{kind}", partial(_scene, many=8, skewed=skewed)
        for share in _SHARES:
            yield f"1-2-switches-{share:.0%}-{kind}", partial(_scene, share=share, skewed=skewed)


def _scene(seed: int, *, rate: float = 0.0, many: int = 0, share: float = 0.0, skewed: bool) -> Scene:
    if share:
        return Scene(switches=1 + seed % 2, share=share, skewed=skewed)
    if many:
        return Scene(links=1 + seed % many, skewed=skewed)
    return Scene(links=1, low=rate, high=rate, skewed=skewed) if rate else Scene(skewed=skewed)


CELLS: dict[str, Callable[[int], Scene]] = dict(_cells())


def _ours(problem: Problem) -> tuple[int, ...]:
    return tuple(blame.component for blame in infer(problem))


METHODS: dict[str, tuple[See, Callable[[Problem], tuple[int, ...]]]] = {
    **{str(see): (see, _ours) for see in (See.INT, See.A2, See.A1_P, See.A1_A2_P)},
    "007": (See.INT, blame_by_votes),
    "netbouncer": (See.INT, blame_by_factors),
}


@dataclass(frozen=True)
class Score:
    """Precision and recall of one answer, what it named beside the truth, and what it took."""

    precision: float
    recall: float
    extra: int
    load_s: float
    locate_s: float


def judge(named: Iterable[int], at_fault: Iterable[int], switches: Csr, links: int) -> tuple[float, float]:
    """Return precision and recall of what is named, each a link or `links` + a switch.

    A link of a switch at fault is right. A switch at fault that is not named is found in part by each link of it that
    is: one part in the number of its links and itself. Nothing named is precise, nothing at fault is all found.
    """
    named, at_fault = set(named), set(at_fault)
    inside = {int(part) for c in at_fault if c >= links for part in switches.row(c - links)}
    precision = sum(c in at_fault or c in inside for c in named) / len(named) if named else 1.0
    found = [_found(c, named, switches, links) for c in at_fault]
    return precision, sum(found) / len(found) if found else 1.0


def _found(component: int, named: set[int], switches: Csr, links: int) -> float:
    if component in named:
        return 1.0
    if component < links:
        return 0.0
    own = switches.row(component - links).tolist()
    return min(1.0, len(named & set(own)) / (len(own) + 1))


def measure(k: int, cell: str, seeds: Iterable[int], methods: list[str]) -> list[dict[str, Any]]:
    """Return a row of figures for each method over the windows of a cell."""
    warm_up()
    tree = FatTree(k, 3 * k // 2)
    network = tree.network()
    switches = devices(network)
    scores: dict[str, list[Score]] = {method: [] for method in methods}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "window.trace"
        for seed in seeds:
            window = draw(tree, network, CELLS[cell](seed), seed)
            file.write_text(as_text(window.trace), encoding="ascii")
            for method, own in scores.items():
                see, solve = METHODS[method]
                begin = time.perf_counter()
                problem = evidence(read_trace(file), network, see, "window").problem
                loaded = time.perf_counter()
                named = solve(problem)
                end = time.perf_counter()
                right = judge(named, window.at_fault, switches, network.n_links)
                extra = len(set(named) - set(window.at_fault))
                own.append(Score(*right, extra, loaded - begin, end - loaded))
    return [{"cell": cell, "method": method, **_summary(own)} for method, own in scores.items()]


def _summary(scores: list[Score]) -> dict[str, float]:
    precision, recall = float(np.mean([s.precision for s in scores])), float(np.mean([s.recall for s in scores]))
    total = precision + recall
    return {
        "windows": len(scores),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "f": round(2 * precision * recall / total, 4) if total else 0.0,
        "extra_per_window": round(float(np.mean([s.extra for s in scores])), 4),
        "load_s": round(statistics.median(s.load_s for s in scores), 4),
        "locate_s": round(statistics.median(s.locate_s for s in scores), 4),
    }
