"""Windows of traffic over a fat tree, drawn from known faults: for tests and for the benchmark.

Sizes of flows are Pareto distributed (shape 1.05, mean 50 packets uncut, at most 100 MB), good links lose up to 1e-4 of
their packets, each its own share; losses are binomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.infer.fattree import FIRST_HOST, FatTree
from railkeeper.health.infer.path_kernels import links_of_ends, links_of_paths
from railkeeper.health.infer.topology import Topology, devices
from railkeeper.health.infer.trace import Trace

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Floats

_SHAPE, _LEAST_BYTES, _MOST_BYTES, _PACKET_BYTES = 1.05, 9752.0, 100 << 20, 1500
GOOD = 1e-4


@dataclass(frozen=True)
class Scene:
    """What a window is drawn from.

    `links` links lose a share between `low` and `high`; of `switches` switches each link does with the chance `share`,
    between 0.25 and 2.5 %. Skewed: a twentieth of the racks takes 35 to 70 % of all ends of flows.
    """

    links: int = 0
    low: float = 0.0025
    high: float = 0.025
    switches: int = 0
    share: float = 1.0
    skewed: bool = False
    flows_per_host: int = 100
    probe_packets: int = 40


@dataclass(frozen=True)
class Window:
    """A window, and its truth: parts and composites (parts' number + switch) at fault, and all links' losses."""

    trace: Trace
    at_fault: tuple[int, ...]
    lost_share: Floats


def draw(tree: FatTree, network: Topology, scene: Scene, seed: int) -> Window:
    """Draw a window."""
    rng = np.random.default_rng(seed)
    share, at_fault = _faults(network, scene, rng)
    src, dst, sent = _flows(tree, scene, rng)
    a, c = rng.integers(0, tree.half, (2, len(src)))
    ways = [tree.ways(src // tree.hosts_per_rack, dst // tree.hosts_per_rack, a, c)]
    ends = [(FIRST_HOST + src, FIRST_HOST + dst)]
    if scene.probe_packets:
        up, host, core = _probes(tree)
        down = np.full_like(up, -1)
        down[:, 0], down[:, 1] = up[:, 1], up[:, 0]
        ways += [up, down]
        ends += [(FIRST_HOST + host, core), (core, FIRST_HOST + host)]
        sent = np.concatenate([sent, np.full(2 * len(host), scene.probe_packets)])
    table = np.concatenate(ways)
    start, stop = (np.concatenate(x) for x in zip(*ends, strict=True))
    return Window(_trace(tree, network, share, (start, stop, table, sent), rng), at_fault, share)


def _faults(network: Topology, scene: Scene, rng: np.random.Generator) -> tuple[Floats, tuple[int, ...]]:
    share = rng.uniform(0.0, GOOD, network.n_links)
    links = rng.choice(network.first_host_link, scene.links, replace=False)
    share[links] = rng.uniform(scene.low, scene.high, scene.links)
    switches = rng.choice(len(network.switches), scene.switches, replace=False)
    for switch in switches:
        own = devices(network).row(int(switch))
        hit = own[rng.random(len(own)) < scene.share]
        share[hit] = rng.uniform(0.0025, 0.025, len(hit))
    return share, (*links.tolist(), *(network.n_links + switches).tolist())


def _flows(
    tree: FatTree, scene: Scene, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    n = scene.flows_per_host * tree.hosts
    busy, many = rng.choice(tree.racks, max(1, tree.racks // 20), replace=False), rng.uniform(0.35, 0.7)
    others = np.setdiff1d(np.arange(tree.racks), busy)

    def some() -> npt.NDArray[np.int64]:
        if not scene.skewed:
            return rng.integers(0, tree.hosts, n)
        rack = np.where(rng.random(n) < many, rng.choice(busy, n), rng.choice(others, n))
        return np.asarray(rack * tree.hosts_per_rack + rng.integers(0, tree.hosts_per_rack, n))

    size = np.full(n, np.inf)
    while (large := size > _MOST_BYTES).any():
        size[large] = _LEAST_BYTES * (1.0 - rng.random(int(large.sum()))) ** (-1.0 / _SHAPE)
    return some(), some(), np.ceil(size / _PACKET_BYTES).astype(np.int64)


def _probes(tree: FatTree) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the switches before the core (N, 5), hosts and cores of a probe from every host to every core."""
    host, core = (x.ravel() for x in np.meshgrid(np.arange(tree.hosts), np.arange(tree.cores), indexing="ij"))
    rack = host // tree.hosts_per_rack
    way = np.full((len(host), 5), -1, dtype=np.int64)
    way[:, 0], way[:, 1] = rack, tree.agg(rack // tree.half, core // tree.half)
    return way, host, 2 * tree.racks + core


def _trace(
    tree: FatTree,
    network: Topology,
    share: Floats,
    flows: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]],
    rng: np.random.Generator,
) -> Trace:
    src, dst, table, sent = flows
    ways, path = np.unique(table, axis=0, return_inverse=True)
    path = path.reshape(-1)
    start, nodes = _packed(ways)
    first, last = table[:, 0], table[np.arange(len(table)), (table >= 0).sum(axis=1) - 1]
    size = len(network.switches)
    _, _, _, link_start, links = links_of_paths(start, nodes, network.place, network.between, size)
    rows, ends = np.arange(len(src)), np.empty((2, len(src)), dtype=np.int32)
    for down, (node, switch) in enumerate(((src, first), (dst, last))):
        links_of_ends(
            rows, node.astype(np.int32), switch.astype(np.int32), np.full(len(src), -1, dtype=np.int32),
            np.zeros(0, dtype=np.int32), down, network.place, network.rack, network.first_host_link, network.between,
            size, ends[down],
        )  # fmt: skip
    rate = -np.log1p(-share)
    along = np.concatenate([[0.0], np.cumsum(rate[links])])
    total = (along[link_start[1:]] - along[link_start[:-1]])[path] + np.where(ends >= 0, rate[ends], 0.0).sum(axis=0)
    lost = rng.binomial(sent, -np.expm1(-total))
    listed = _packed(_possible(tree))
    none = np.zeros(len(src), dtype=np.int32)
    return Trace(
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        first=first.astype(np.int32),
        last=last.astype(np.int32),
        path=path.astype(np.int32),
        sent=sent,
        lost=lost,
        line=none,
        path_start=start,
        path_nodes=nodes,
        path_line=none[: len(start) - 1],
        listed_start=listed[0],
        listed_nodes=listed[1],
        listed_hash=np.arange(len(listed[0]) - 1, dtype=np.int64),
        listed_line=np.zeros(len(listed[0]) - 1, dtype=np.int32),
    )


def _possible(tree: FatTree) -> npt.NDArray[np.int64]:
    """Return (N, 5) all paths between racks."""
    racks, half = np.arange(tree.racks), np.arange(tree.half)
    first, last, a, c = (x.ravel() for x in np.meshgrid(racks, racks, half, half, indexing="ij"))
    once = (first != last) & ((first // tree.half != last // tree.half) | (c == 0))
    return np.asarray(tree.ways(first[once], last[once], a[once], c[once]))


def _packed(table: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    start = np.concatenate([[0], np.cumsum((table >= 0).sum(axis=1))]).astype(np.int64)
    return start, table[table >= 0].astype(np.int32)


def as_text(trace: Trace) -> str:
    """Return a trace as the text that `parse_trace` reads."""
    listed = _lines("FP", trace.listed_start, trace.listed_nodes)
    taken = _lines("FPT", trace.path_start, trace.path_nodes)
    columns = (trace.src, trace.dst, trace.first, trace.last, trace.path, trace.sent, trace.lost)
    flows = (
        f"FID  {s} {d} {a} {b} {n * _PACKET_BYTES} 0.0\n{taken[p]}\nSS  1.5 {n} {x} 0\n"
        for s, d, a, b, p, n, x in zip(*(c.tolist() for c in columns), strict=True)
    )
    return "".join([*(f"{line}\n" for line in listed), *flows])


def _lines(name: str, start: npt.NDArray[np.int64], nodes: npt.NDArray[np.int32]) -> list[str]:
    words, at = [str(n) for n in nodes.tolist()], start.tolist()
    return [f"{name} {' '.join(words[i:j])}" for i, j in pairwise(at)]
