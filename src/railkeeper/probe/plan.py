"""Which paths an agent probes, and how often: decided from the fabric and the node alone, no talk between agents.

- every T0 of its own and back: judges its NIC-T0 links
- a share of the T1s and back, so that each T0-T1 link is probed by several NICs under its T0
- one way to a few NICs under other T0s: tells the two directions of a link apart
- now and then through another T0 and back: sees that T0's uplinks even when its own hosts are gone
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths, join_paths, make_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

MAX_TRAIN_SHARE = 0.25  # of the budget: trains are large, and single probes find more


@dataclass(frozen=True)
class ProbeBudget:
    """What one agent may send: `probes_per_s` in all, trains included.

    The weights say how often a path of a kind is probed relative to the others (at the default budget in a small
    fabric about per second). Trains over T0 and far bounces tell a slow T0 from slow ports of it. `agents_per_link`:
    NICs under a T0 that probe each of its uplinks. `peers`: NICs to which each NIC sends one way.
    """

    probes_per_s: float = 600.0
    t0_weight: float = 60.0
    t1_weight: float = 40.0
    oneway_weight: float = 10.0
    far_weight: float = 2.0
    t1_trains_per_s: float = 1.0
    oneway_trains_per_s: float = 0.5
    t0_trains_per_s: float = 0.5
    far_trains_per_s: float = 0.25
    train_probes: int = 6
    train_bytes: int = 1000
    agents_per_link: int = 4
    peers: int = 2


@dataclass(frozen=True)
class ProbePlan:
    """Paths (n) of one agent with `rate` (n,) single probes/s and `train_rate` (n,) trains/s of each."""

    paths: Paths
    rate: npt.NDArray[np.float64]
    train_rate: npt.NDArray[np.float64]
    train_probes: int
    train_bytes: int

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def probes_per_s(self) -> float:
        """All probes that the plan sends in a second."""
        return float(self.rate.sum() + self.train_rate.sum() * self.train_probes)


def make_plan(fabric: Fabric, node: int, budget: ProbeBudget | None = None) -> ProbePlan:
    """Return the plan of a node's agent; the same for the same arguments, everywhere."""
    b = budget or ProbeBudget()
    nics = range(node * fabric.nics_per_node, (node + 1) * fabric.nics_per_node)
    paths = join_paths([part for nic in nics for part in _nic_paths(fabric, nic, b)])
    weight, trains = np.zeros(len(paths)), np.zeros(len(paths))
    for kind, per_path, trains_per_s in _rates(b):
        weight[paths.kind == kind] = per_path
        trains[paths.kind == kind] = trains_per_s
    trains *= min(1.0, MAX_TRAIN_SHARE * b.probes_per_s / max(float(trains.sum()) * b.train_probes, 1e-9))
    left = b.probes_per_s - float(trains.sum()) * b.train_probes
    return ProbePlan(paths, weight * left / weight.sum(), trains, b.train_probes, b.train_bytes)


def _rates(b: ProbeBudget) -> tuple[tuple[PathKind, float, float], ...]:
    return (
        (PathKind.T0_BOUNCE, b.t0_weight, b.t0_trains_per_s),
        (PathKind.T1_BOUNCE, b.t1_weight, b.t1_trains_per_s),
        (PathKind.FAR_BOUNCE, b.far_weight, b.far_trains_per_s),
        (PathKind.ONEWAY, b.oneway_weight, b.oneway_trains_per_s),
    )


def _nic_paths(f: Fabric, nic: int, b: ProbeBudget) -> Iterator[Paths]:
    planes = np.arange(f.planes)
    t1 = _t1_share(f, nic, b.agents_per_link)
    yield make_paths(PathKind.T0_BOUNCE, nic, planes)
    yield _grid(PathKind.T1_BOUNCE, nic, planes, t1)
    if f.t0_per_plane > 1:
        yield _far_paths(f, nic, planes, t1)
    for peer in _peers(f, nic)[: b.peers]:
        local = f.nic_t0_index[peer] == f.nic_t0_index[nic]
        yield _grid(PathKind.ONEWAY, nic, planes, np.array([-1]) if local else t1, dst=peer)


def _grid(
    kind: PathKind, nic: int, planes: npt.NDArray[np.int64], t1: npt.NDArray[np.int64], *, dst: int | None = None
) -> Paths:
    return make_paths(kind, nic, np.repeat(planes, len(t1)), t1=np.tile(t1, len(planes)), dst=dst)


def _t1_share(f: Fabric, nic: int, agents: int) -> npt.NDArray[np.int64]:
    """T1s of a NIC: neighbours under the T0 take the next ones, round and round, so that shares overlap evenly."""
    share = t1_share_of(f, agents)
    return (int(f.nic_downlink[nic]) * share + np.arange(share)) % f.t1_per_plane


def t1_share_of(f: Fabric, agents: int) -> int:
    """Return how many T1s each NIC probes, so that `agents` NICs probe each uplink of their T0."""
    return min(f.t1_per_plane, math.ceil(agents * f.t1_per_plane / f.nics_per_t0))


def _far_paths(f: Fabric, nic: int, planes: npt.NDArray[np.int64], t1: npt.NDArray[np.int64]) -> Paths:
    """One far T0 per T1 of the share; another T1 on the way back, where there is one."""
    t0, k, n_t1 = int(f.nic_t0_index[nic]), int(f.nic_downlink[nic]), f.t1_per_plane
    far = (t0 + 1 + (k + t1) % (f.t0_per_plane - 1)) % f.t0_per_plane
    back = (t1 + 1 + far % (n_t1 - 1)) % n_t1 if n_t1 > 1 else t1
    n = len(planes)
    return make_paths(
        PathKind.FAR_BOUNCE, nic, np.repeat(planes, len(t1)), t1=np.tile(t1, n), far=np.tile(far, n),
        back=np.tile(back, n),
    )  # fmt: skip


def _peers(f: Fabric, nic: int) -> list[int]:
    """Return NICs of the same rail, best first: under other T0s, then under its own; each NIC is a peer of as many."""
    t0, k = int(f.nic_t0_index[nic]), int(f.nic_downlink[nic])
    steps = [(1, 0), (2, 0), (1, 1), (0, 1), (0, 2)]
    out: list[int] = []
    for t0_step, k_step in steps:
        peer_t0, peer_k = (t0 + t0_step) % f.t0_per_plane, (k + k_step) % f.nics_per_t0
        in_rail = peer_t0 * f.nics_per_t0 + peer_k
        peer = in_rail * f.rails + int(f.nic_rail[nic])
        if peer != nic and peer not in out:
            out.append(peer)
    away = [p for p in out if f.nic_t0_index[p] != t0]
    return away or out
