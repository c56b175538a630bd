"""The few probes that would tell apart what evidence so far can't: chosen one by one, each for what it would say.

Every part that a fault may be of, in every direction that fits, is a hypothesis, at first as likely as the others. A
path that some of them lie on, and others don't, splits them: with enough packets, its losses say which half is right.
The path whose answer is worth most is taken, then the one that is worth most after its answer, and so on. How often a
path lies on a hypothesis says nothing, since the rate is not known but fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.paths import PathKind, Paths, join_paths, links_crossed, make_paths
from railkeeper.health.parts import DIRECTION_NAMES

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault

    Longs = npt.NDArray[np.int64]

MOST_HYPOTHESES = 64
MOST_LINKS = 64  # whose paths are looked at, spread evenly over those of the hypotheses
NEAR = 2  # NICs at each end of a link from which paths are looked at
LOSSES = 15.0  # that a path must be expected to show, so that none of them is an answer too
LEAST_PACKETS, MOST_PACKETS = 20, 50_000
WORTH = 1e-9  # bits
KINDS = frozenset({"loss", "corrupt", "delay", "down", "blackhole"})


@dataclass(frozen=True)
class ProbeProposal:
    """Paths (n) to probe and the `packets` (n,) that each needs at the fault's rate.

    `alike`: groups of hypotheses, as names, that these probes leave together; groups of one are told apart.
    """

    paths: Paths
    packets: Longs
    alike: tuple[tuple[str, ...], ...]


def propose_probes(fabric: Fabric, fault: Fault, budget: int = 8) -> ProbeProposal:
    """Return at most `budget` paths that split a fault's hypotheses best; none where nothing is open or none can."""
    names, sets = _hypotheses(fabric, fault)
    candidates = _candidates(fabric, sets) if len(sets) > 1 and fault.kind in KINDS else _no_paths()
    crossed = links_crossed(fabric, candidates)
    on = np.stack([np.isin(crossed, s).any(axis=1) for s in sets]) if len(candidates) else np.zeros((len(sets), 0))
    chosen, groups = _greedy(on.astype(np.int64), (crossed >= 0).sum(axis=1), budget)
    found = candidates.take(np.array(chosen, dtype=np.int64))
    packets = np.full(len(chosen), packets_for(fault), dtype=np.int64)
    alike = tuple(tuple(dict.fromkeys(names[i] for i in np.flatnonzero(groups == g))) for g in np.unique(groups))
    return ProbeProposal(found, packets, alike)


def packets_for(fault: Fault) -> int:
    """Return how many packets a path must carry before its losses, or that there are none, are an answer."""
    rate = fault.rate if 0 < fault.rate <= 1 else 1.0
    return int(min(max(math.ceil(LOSSES / rate), LEAST_PACKETS), MOST_PACKETS))


def _hypotheses(fabric: Fabric, fault: Fault) -> tuple[list[str], list[Longs]]:
    """Return name and directed links of each hypothesis; other parts are in the directions that the fault denies."""
    names, sets = [], []
    for direction in fault.directions or (fault.direction,):
        names.append(f"{fault.target} {direction}")
        sets.append(_directed(fabric, fault.target, direction))
    denied = np.array(fault.denied_links, dtype=np.int64)
    for name in fault.indistinguishable:
        both = _directed(fabric, name, "both")
        within = both[np.isin(both, denied)]
        names.append(name)
        sets.append(within if len(within) else both)
    return names[:MOST_HYPOTHESES], sets[:MOST_HYPOTHESES]


def _directed(fabric: Fabric, name: str, direction: str) -> Longs:
    links = links_of(fabric, parse_name(fabric, name)).astype(np.int64)
    way = DIRECTION_NAMES.index(direction)
    return np.concatenate([2 * links, 2 * links + 1]) if way == len(DIRECTION_NAMES) - 1 else 2 * links + way


def _greedy(on: Longs, length: npt.NDArray[np.integer], budget: int) -> tuple[list[int], Longs]:
    """Return the chosen candidates, and which hypotheses (H,) they leave in one group.

    `on` (H, candidates): 1 where a path lies on a hypothesis. Of equal candidates the shortest is taken, and of
    these the first: it crosses least that is not in question.
    """
    groups = np.zeros(len(on), dtype=np.int64)
    chosen: list[int] = []
    while len(chosen) < budget and on.shape[1]:
        gain = np.array([_bits(_split(groups, column)) for column in on.T]) - _bits(groups)
        best = int(np.lexsort((length, -np.round(gain, 9)))[0])
        if gain[best] <= WORTH:
            break
        chosen.append(best)
        groups = _split(groups, on[:, best])
    return chosen, groups


def _split(groups: Longs, on: Longs) -> Longs:
    return np.asarray(np.unique(np.stack([groups, on]), axis=1, return_inverse=True)[1]).ravel()


def _bits(groups: Longs) -> float:
    """Return the entropy of which group the truth is in: what an answer that names the group is worth."""
    share = np.bincount(groups) / len(groups)
    return float(-(share[share > 0] * np.log2(share[share > 0])).sum())


# -- paths that may help -------------------------------------------------------------------------------
def _candidates(fabric: Fabric, sets: list[Longs]) -> Paths:
    links = np.unique(np.concatenate(sets) // 2)
    some = links[:: -(-len(links) // MOST_LINKS)]
    host, up = some[some < fabric.n_ports], some[some >= fabric.n_ports]
    parts = [p for link in host.tolist() for p in _over_host_link(fabric, link)]
    parts += [p for link in up.tolist() for p in _over_fabric_link(fabric, link)]
    return join_paths(parts) if parts else _no_paths()


def _over_host_link(f: Fabric, link: int) -> list[Paths]:
    nic, plane = divmod(link, f.planes)
    peers = _nics_under(f, int(f.t0_of(nic, plane)), but=nic)
    out = [make_paths(PathKind.T0_BOUNCE, nic, plane), make_paths(PathKind.T0_BOUNCE, nic, np.arange(f.planes))]
    for peer in peers:
        out += [make_paths(PathKind.T0_BOUNCE, peer, plane)]
        out += [make_paths(PathKind.ONEWAY, a, plane, dst=b) for a, b in ((nic, peer), (peer, nic))]
    return out


def _over_fabric_link(f: Fabric, link: int) -> list[Paths]:
    t0, j = divmod(link - f.n_ports, f.t1_per_plane)
    plane = (t0 // f.t0_per_plane) % f.planes
    first = t0 - t0 % f.t0_per_plane
    others = [first + (t0 - first + step) % f.t0_per_plane for step in range(1, min(NEAR + 2, f.t0_per_plane))]
    here = _nics_under(f, t0)
    out = [make_paths(PathKind.T1_BOUNCE, nic, plane, t1=j) for nic in here]
    for other in others:
        for a, b in zip(here, _nics_under(f, other), strict=False):
            out += [make_paths(PathKind.ONEWAY, x, plane, dst=y, t1=j) for x, y in ((a, b), (b, a))]
    return out


def _nics_under(f: Fabric, t0: int, but: int = -1) -> list[int]:
    """Return a few NICs under a T0, of different nodes where there are any."""
    rail = t0 // f.t0_per_plane // f.planes
    in_rail = (t0 % f.t0_per_plane) * f.nics_per_t0 + np.arange(f.nics_per_t0)
    nics = in_rail * f.rails + rail
    nics = nics[nics != but]
    _, first = np.unique(f.node_of(nics), return_index=True)
    picked = nics[first] if len(first) >= NEAR else nics
    return [int(x) for x in picked[:NEAR]]


def _no_paths() -> Paths:
    return Paths(*(np.zeros(0, dtype=np.int32) for _ in range(7)))
