"""What of a trace may be used, as a problem of inference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.health.infer import path_kernels as kernels
from railkeeper.health.infer.problem import EMPTY, Csr, Kind, Observations, Problem
from railkeeper.health.infer.topology import Topology, devices, tiers

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Ints, Longs
    from railkeeper.health.infer.trace import Trace

    Flags = npt.NDArray[np.bool_]


class See(StrEnum):
    """Which evidence may be used."""

    INT = "int"
    """Every flow's path."""
    A2 = "a2"
    """Only flows that lost something, with their paths."""
    A1_P = "a1+p"
    """Probes with their paths; of other flows the ends only, the path is one of the possible ones."""
    A1_A2_P = "a1+a2+p"
    """The same, and the paths of flows that lost something."""
    SPRAYED = "sprayed"
    """Probes with their paths; other flows' packets are spread evenly over the possible paths."""


@dataclass(frozen=True)
class Usable:
    """A problem, and how many flows of the trace are no evidence: without counts, without a path."""

    problem: Problem
    without_counts: int
    without_path: int


def evidence(trace: Trace, network: Topology, see: See, where: str) -> Usable:
    """Return the problem that a trace poses over a network's links and switches.

    Parts are the network's links, composites its switches. Raises InputError naming the line of what does not fit.
    """
    taken = _links(trace.path_start, trace.path_nodes, trace.path_line, network, where)
    counted = trace.sent >= 0
    probe = _is_switch(trace.src, network) | _is_switch(trace.dst, network)
    use = counted & _wanted(trace, see)
    rows: Longs = np.flatnonzero(use & ((trace.path >= 0) | ((see not in (See.INT, See.A2)) & ~probe)))
    ends = _ends(trace, rows, network, where)
    if see is See.INT:
        kind, route, none = np.zeros(len(rows), np.uint8), trace.path[rows], np.full(len(rows), -1, dtype=np.int32)
        obs = Observations(kind, route, trace.sent[rows], trace.lost[rows], ends, none)
        paths, sets = taken, EMPTY
    else:
        paths, sets, obs = _with_sets(trace, rows, ends, taken, see, network, where, probe[rows])
    problem = Problem(network.n_links, paths, obs, sets, devices(network), groups=tiers(network))
    return Usable(problem, int((~counted).sum()), int(use.sum() - len(rows)))


def _wanted(trace: Trace, see: See) -> Flags:
    return trace.lost > 0 if see is See.A2 else np.ones(len(trace.lost), dtype=np.bool_)


def _is_switch(ids: Ints, network: Topology) -> Flags:
    return network.place[np.minimum(ids, len(network.place) - 1)] >= 0


def _links(start: npt.NDArray[np.int64], nodes: Ints, line: Ints, network: Topology, where: str) -> Csr:
    near = network.near_start, network.near, network.near_link
    code, path, node, out, links = kernels.links_of_paths(start, nodes, network.place, *near)
    if code != kernels.OK:
        raise InputError(f"{where}: line {line[path]}", _wrong(code, node), "a path over cables of the topology")
    return Csr(out, links)


def _ends(trace: Trace, rows: Longs, network: Topology, where: str) -> Ints:
    path = trace.path[rows]
    seen = path >= 0
    first, last = trace.first[rows], trace.last[rows]
    first[seen] = trace.path_nodes[trace.path_start[path[seen]]]
    last[seen] = trace.path_nodes[trace.path_start[path[seen] + 1] - 1]
    near = network.near_start, network.near, network.near_link
    code, flow, node, ends = kernels.links_of_ends(
        trace.src[rows], trace.dst[rows], first, last, network.place, network.rack, network.first_host_link, *near
    )
    if code != kernels.OK:
        line = trace.line[rows[flow]]
        raise InputError(f"{where}: flow of line {line}", _wrong(code, node), "ends that meet the ends of its path")
    return np.asarray(ends)


def _wrong(code: int, node: int) -> str:
    if code == kernels.UNKNOWN_NODE:
        return f"node {node} is not in the topology"
    if code == kernels.NOT_A_SWITCH:
        return f"{node} is no switch, and only switches are on paths"
    if code == kernels.OTHER_RACK:
        return f"host {node} is at another switch"
    return f"no cable leads to {node} there"


def _with_sets(
    trace: Trace, rows: Longs, ends: Ints, taken: Csr, see: See, network: Topology, where: str, probe: Flags
) -> tuple[Csr, Csr, Observations]:
    """Return all paths (those taken, then those listed), the sets of listed ones, and the rows over them."""
    listed = _links(trace.listed_start, trace.listed_nodes, trace.listed_line, network, where)
    start = np.concatenate([taken.start, taken.start[-1] + listed.start[1:]])
    paths = Csr(start, np.concatenate([taken.ids, listed.ids]))
    once = np.unique(trace.listed_hash, return_index=True)[1]
    pair = _pair(trace.listed_nodes[trace.listed_start[once]], trace.listed_nodes[trace.listed_start[once + 1] - 1])
    order = np.argsort(pair, kind="stable")
    pairs, count = np.unique(pair, return_counts=True)
    sets = Csr(np.concatenate([[0], np.cumsum(count)]), (once[order] + len(taken)).astype(np.int32))
    own = _pair(trace.first[rows], trace.last[rows])
    place = np.minimum(np.searchsorted(pairs, own), max(len(pairs) - 1, 0))
    found = pairs[place] == own if len(pairs) else np.zeros(len(rows), dtype=np.bool_)
    return paths, sets, _rows(trace, rows, ends, see, np.where(found, place, -1).astype(np.int32), probe, where)


def _pair(first: Ints, last: Ints) -> npt.NDArray[np.int64]:
    return (first.astype(np.int64) << 32) | last


def _rows(trace: Trace, rows: Longs, ends: Ints, see: See, chosen: Ints, probe: Flags, where: str) -> Observations:
    sent, lost, path = trace.sent[rows], trace.lost[rows], trace.path[rows]
    kind = np.zeros(len(rows), dtype=np.uint8)
    route = path.copy()
    if see is See.A2:
        kind[:] = Kind.LOSSY_ONLY
        return Observations(kind, route, sent, lost, ends, chosen)
    same = trace.first[rows] == trace.last[rows]
    unknown = ~probe & ~(same & (chosen < 0))
    if see is See.A1_A2_P:
        unknown &= (lost == 0) | (path < 0)
    missing = np.flatnonzero(unknown & (chosen < 0))
    if len(missing):
        row = rows[missing[0]]
        racks = f"{trace.first[row]} and {trace.last[row]}"
        raise InputError(f"{where}: flow of line {trace.line[row]}", f"no FP lines for {racks}", "all possible paths")
    kind[unknown] = Kind.SPRAYED if see is See.SPRAYED else Kind.ONE_OF
    route[unknown] = chosen[unknown]
    return Observations(kind, route, sent, lost, ends, np.where(unknown, -1, chosen).astype(np.int32))
