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


@dataclass(frozen=True)
class _Source:
    """A trace over a network, by the name of its file, and what of it may be used."""

    trace: Trace
    network: Topology
    see: See
    where: str

    def is_switch(self, ids: Ints) -> Flags:
        place: Ints = self.network.place
        return np.asarray(place[np.minimum(ids, len(place) - 1)] >= 0)


def evidence(trace: Trace, network: Topology, see: See, where: str) -> Usable:
    """Return the problem that a trace poses over a network's links and switches.

    Parts are the network's links, composites its switches. Raises InputError naming the line of what does not fit.
    """
    source = _Source(trace, network, see, where)
    taken = _links(source, trace.path_start, trace.path_nodes, trace.path_line)
    counted = trace.sent >= 0
    use = counted & (trace.lost > 0) if see is See.A2 else counted
    probe = source.is_switch(trace.src) | source.is_switch(trace.dst)
    usable = use & ((trace.path >= 0) | ((see not in (See.INT, See.A2)) & ~probe))
    rows = np.flatnonzero(usable)
    ends = _ends(source, rows)
    if see is See.INT:
        none = np.full(len(rows), -1, dtype=np.int32)
        kind = np.zeros(len(rows), dtype=np.uint8)
        obs = Observations(kind, trace.path[rows], trace.sent[rows], trace.lost[rows], ends, none)
        paths, sets = taken, EMPTY
    else:
        paths, pairs, sets = _sets(source, taken)
        obs = _rows(source, rows, ends, probe[rows], _set_of(pairs, trace.first[rows], trace.last[rows]))
    problem = Problem(network.n_links, paths, obs, sets, devices(network), groups=tiers(network))
    return Usable(problem, int((~counted).sum()), int(use.sum() - len(rows)))


def _links(source: _Source, start: Longs, nodes: Ints, line: Ints) -> Csr:
    code, path, node, out, links = kernels.links_of_paths(
        start, nodes, source.network.place, source.network.between, len(source.network.switches)
    )
    if code != kernels.OK:
        raise InputError(f"{source.where}: line {line[path]}", _wrong(code, node), "a path over cables of the topology")
    return Csr(out, links)


def _ends(source: _Source, rows: Longs) -> Ints:
    trace, network = source.trace, source.network
    begin, end = trace.path_nodes[trace.path_start[:-1]], trace.path_nodes[trace.path_start[1:] - 1]
    out = np.empty((2, len(rows)), dtype=np.int32)
    sides = ((trace.src, trace.first, begin), (trace.dst, trace.last, end))
    for down, (nodes, switch, path_switch) in enumerate(sides):
        code, row, node = kernels.links_of_ends(
            rows, nodes, switch, trace.path, path_switch, down, network.place, network.rack, network.first_host_link,
            network.between, len(network.switches), out[down],
        )  # fmt: skip
        if code != kernels.OK:
            where = f"{source.where}: flow of line {trace.line[rows[row]]}"
            raise InputError(where, _wrong(code, node), "ends that meet the ends of its path")
    return np.ascontiguousarray(out.T)


def _wrong(code: int, node: int) -> str:
    if code == kernels.UNKNOWN_NODE:
        return f"node {node} is not in the topology"
    if code == kernels.NOT_A_SWITCH:
        return f"{node} is no switch, and only switches are on paths"
    if code == kernels.OTHER_RACK:
        return f"host {node} is at another switch"
    return f"no cable leads to {node} there"


def _sets(source: _Source, taken: Csr) -> tuple[Csr, Longs, Csr]:
    """Return all paths (those taken, then those listed), pairs of first and last switch, and the paths of each pair."""
    trace = source.trace
    listed = _links(source, trace.listed_start, trace.listed_nodes, trace.listed_line)
    start = np.concatenate([taken.start, taken.start[-1] + listed.start[1:]])
    paths = Csr(start, np.concatenate([taken.ids, listed.ids]))
    once = np.unique(trace.listed_hash, return_index=True)[1]
    nodes, at = trace.listed_nodes, trace.listed_start
    pair = _pair(nodes[at[once]], nodes[at[once + 1] - 1])
    order = np.argsort(pair, kind="stable")
    pairs, count = np.unique(pair, return_counts=True)
    return paths, pairs, Csr(np.concatenate([[0], np.cumsum(count)]), (once[order] + len(taken)).astype(np.int32))


def _set_of(pairs: Longs, first: Ints, last: Ints) -> Ints:
    """Return the set of each pair of switches, -1 where none is listed."""
    own = _pair(first, last)
    place = np.minimum(np.searchsorted(pairs, own), max(len(pairs) - 1, 0))
    found = pairs[place] == own if len(pairs) else np.zeros(len(own), dtype=np.bool_)
    return np.where(found, place, -1).astype(np.int32)


def _pair(first: Ints, last: Ints) -> Longs:
    return (first.astype(np.int64) << 32) | last


def _rows(source: _Source, rows: Longs, ends: Ints, probe: Flags, chosen: Ints) -> Observations:
    trace = source.trace
    sent, lost, path = trace.sent[rows], trace.lost[rows], trace.path[rows]
    kind, route = np.zeros(len(rows), dtype=np.uint8), path.copy()
    if source.see is See.A2:
        kind[:] = Kind.LOSSY_ONLY
        return Observations(kind, route, sent, lost, ends, chosen)
    unknown = ~probe & ~((trace.first[rows] == trace.last[rows]) & (chosen < 0) & (path >= 0))
    if source.see is See.A1_A2_P:
        unknown &= (lost == 0) | (path < 0)
    missing = np.flatnonzero(unknown & (chosen < 0))
    if len(missing):
        row = rows[missing[0]]
        where = f"{source.where}: flow of line {trace.line[row]}"
        raise InputError(where, f"no FP lines from {trace.first[row]} to {trace.last[row]}", "all possible paths")
    kind[unknown] = Kind.SPRAYED if source.see is See.SPRAYED else Kind.ONE_OF
    route[unknown] = chosen[unknown]
    return Observations(kind, route, sent, lost, ends, np.full(len(rows), -1, dtype=np.int32))
