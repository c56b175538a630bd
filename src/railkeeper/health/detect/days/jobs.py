"""Jobs of simulated days: who works when, how hard, and in what pattern; nothing of it is a fault of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Doubles = npt.NDArray[np.float64]

HOUR_S, DAY_S = 3600.0, 86_400.0
# A start loses packets until transports know their paths: two minutes, as measured on fleets of 75,000 GPUs.
START_S = 110.0
_CHECKPOINT_S, _CHECKPOINT_EVERY_S = 75.0, 1800.0
_SERVICE_NODES = 8
_PART_OF_NODES, _UNEVEN, _STRAGGLES = 0.1, 0.2, 0.15


@dataclass(frozen=True)
class Job:
    """One job.

    - nics: (m,) that it uses; share: (m,) of line rate that each sends while it works; receives: (m,) the same
    - start_s, end_s: from the start of the days; service: its load follows the time of day, and it has no checkpoints
    """

    nics: npt.NDArray[np.int64]
    share: Doubles
    receives: Doubles
    start_s: float
    end_s: float
    service: bool
    phase_s: float


@dataclass(frozen=True)
class Demand:
    """What NICs want to send and receive, as shares of their line rate; `crosses`: how much of it leaves the T0."""

    sends: Doubles
    receives: Doubles
    crosses: Doubles
    starting: npt.NDArray[np.bool_]


def plan_jobs(fabric: Fabric, rng: np.random.Generator, days: float) -> list[Job]:
    """Return all jobs: a service that never ends, and training jobs one after the other on the rest of the nodes."""
    jobs = [_job(fabric, rng, np.arange(_SERVICE_NODES), 0.0, days * DAY_S, service=True)]
    at = _SERVICE_NODES
    while at < fabric.n_nodes:
        size = min(int(rng.choice([2, 4, 8, 16])), fabric.n_nodes - at)
        t = float(rng.uniform(-4, 1)) * HOUR_S
        while t < days * DAY_S:
            length = float(np.clip(rng.lognormal(np.log(4.0), 0.7), 0.5, 16.0)) * HOUR_S
            jobs.append(_job(fabric, rng, np.arange(at, at + size), t, t + length, service=False))
            # Fewer jobs begin at night: the wait is longer.
            night = np.sin(2 * np.pi * (t + length) / DAY_S) < 0
            t += length + float(rng.exponential(2400.0 if night else 600.0)) + 60.0
        at += size
    return jobs


def _job(
    fabric: Fabric, rng: np.random.Generator, nodes: npt.NDArray[np.int64], start_s: float, end_s: float, *,
    service: bool,
) -> Job:  # fmt: skip
    per = fabric.nics_per_node
    used = int(rng.integers(1, per)) if not service and rng.random() < _PART_OF_NODES and per > 1 else per
    nics = (nodes[:, None] * per + np.arange(used)).ravel()
    by_node = np.clip(rng.lognormal(0.0, 0.15, len(nodes)), 0.5, 1.2)
    if not service and rng.random() < _STRAGGLES:
        by_node[rng.integers(len(nodes))] *= 0.6
    by_nic = rng.lognormal(0.0, 0.3 if not service and rng.random() < _UNEVEN else 0.01, len(nics))
    share = np.clip(float(rng.uniform(0.25, 0.75)) * np.repeat(by_node, used) * by_nic, 0.01, 0.92)
    return Job(nics, share, np.roll(share, used), start_s, end_s, service, float(rng.uniform(0, _CHECKPOINT_EVERY_S)))


def demand_at(fabric: Fabric, jobs: list[Job], t_s: float, rng: np.random.Generator) -> Demand:
    """Return what all NICs do around t_s."""
    sends, receives, crosses = np.zeros((3, fabric.n_nics))
    starting = np.zeros(fabric.n_nics, dtype=np.bool_)
    for job in jobs:
        if not job.start_s <= t_s < job.end_s:
            continue
        level = _level(job, t_s) * float(rng.lognormal(0.0, 0.05))
        sends[job.nics], receives[job.nics] = job.share * level, job.receives * level
        t0 = job.nics // fabric.nics_per_t0
        crosses[job.nics] = 1 - np.bincount(t0)[t0] / max(len(job.nics), 1) * 0.9
        starting[job.nics] = t_s - job.start_s < START_S
    return Demand(np.minimum(sends, 0.95), np.minimum(receives, 0.95), crosses, starting)


def _level(job: Job, t_s: float) -> float:
    if job.service:
        return float(0.55 + 0.4 * np.sin(2 * np.pi * (t_s / DAY_S - 0.3)))
    into = (t_s - job.start_s + job.phase_s) % _CHECKPOINT_EVERY_S
    if into < _CHECKPOINT_S:
        return 0.02
    return min(1.0, 0.3 + (t_s - job.start_s) / 120.0)
