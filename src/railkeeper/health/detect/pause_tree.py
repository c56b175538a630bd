"""Who pauses whom: from held ports to the device that holds them all and is not itself held.

A port is *held* when the other end of its link sends it pause. A switch that can't send on a held port fills its
buffers and pauses those who send to it: so a pause walks from its root towards the senders. The root is found by
walking the other way: from each held port to its holder, from there to the ports on which that is held, and so on.

A NIC sends pause because its host does not take what arrives, never because its own sending is held: a NIC that holds
is always a root. Devices that hold each other in a ring are a deadlock: no root drains them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

HOST, EGRESS, RING, UNKNOWN = "host", "egress", "ring", "unknown"


@dataclass(frozen=True)
class PauseTree:
    """One root and all that it holds.

    - kind: HOST (a NIC whose host does not drain), EGRESS (a switch that is not held: an egress of its own is
      congested), RING (devices that hold each other), UNKNOWN (the holder's owner is not known)
    - holders: ports of the root that send pause (of a ring: all ports that hold inside it)
    - victims: held ports, those next to the root first; depth: links between the root and the farthest of them
    """

    kind: str
    holders: tuple[int, ...]
    victims: tuple[int, ...]
    depth: int


@dataclass(frozen=True)
class _Graph:
    """Edges between devices in compact ids: `sender[e]` is held on port `held[e]` by `holder[e]`."""

    held: npt.NDArray[np.int32]
    sender: npt.NDArray[np.int64]
    holder: npt.NDArray[np.int64]
    n: int


def pause_trees(ports: Entities, held: npt.NDArray[np.int32]) -> tuple[PauseTree, ...]:
    """Return the trees over the held ports (ascending ids), by the first holder of each root; rings after them.

    A port held through several roots is a victim of each. A held port whose other end is not known is its own tree.
    """
    known = ports.other[held] >= 0
    lone = tuple(PauseTree(UNKNOWN, (int(p),), (int(p),), 1) for p in held[~known])
    graph = _graph(ports, held[known])
    roots = np.setdiff1d(graph.holder, graph.sender)
    edges_to = _edges_by(graph.holder, graph.n)
    trees = [_tree(ports, graph, edges_to, np.array([root]), _kind(ports, graph, edges_to[0], root)) for root in roots]
    rings = [_tree(ports, graph, edges_to, ring, RING) for ring in _rings(graph)]
    return (*sorted(trees, key=lambda t: t.holders), *sorted(rings, key=lambda t: t.holders), *lone)


def _graph(ports: Entities, held: npt.NDArray[np.int32]) -> _Graph:
    other = ports.other[held]
    # Devices as numbers: switches, then NICs as receivers, then NICs as senders, then unknown owners by port.
    span = int(ports.owner.max(initial=0)) + 1
    sender = _device(ports, held, span, 2 * span)
    holder = _device(ports, other, span, span)
    names, compact = np.unique(np.concatenate([sender, holder]), return_inverse=True)
    return _Graph(held, compact[: len(held)], compact[len(held) :], len(names))


def _device(ports: Entities, port: npt.NDArray[np.int32], span: int, nic_offset: int) -> npt.NDArray[np.int64]:
    owner = ports.owner[port].astype(np.int64)
    device = np.where(ports.role[port] == NIC_END, owner + nic_offset, owner)
    return np.where(owner < 0, 3 * span + port.astype(np.int64), device)


def _edges_by(key: npt.NDArray[np.int64], n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return edges sorted by a device, and where those of each device start."""
    order = np.argsort(key, kind="stable")
    return order, np.searchsorted(key[order], np.arange(n + 1))


def _kind(ports: Entities, graph: _Graph, order: npt.NDArray[np.int64], root: np.int64) -> str:
    first = order[np.searchsorted(graph.holder[order], root)]
    holder = int(ports.other[graph.held[first]])
    if ports.owner[holder] < 0:
        return UNKNOWN
    return HOST if ports.role[holder] == NIC_END else EGRESS


def _tree(
    ports: Entities,
    graph: _Graph,
    edges_to: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    root: npt.NDArray[np.int64],
    kind: str,
) -> PauseTree:
    order, start = edges_to
    reached = {int(d) for d in root}
    level, edges, depth = sorted(reached), [], 0
    while level:
        into = np.concatenate([order[start[d] : start[d + 1]] for d in level])
        edges.append(np.sort(graph.held[into]))
        depth += bool(len(into))
        level = sorted({int(d) for d in graph.sender[into]} - reached)
        reached.update(level)
    own = np.isin(graph.holder, root) & (np.isin(graph.sender, root) if kind == RING else True)
    holders = tuple(int(p) for p in np.sort(ports.other[graph.held[own]]))
    return PauseTree(kind, holders, tuple(int(p) for p in np.concatenate(edges)), depth)


def _rings(graph: _Graph) -> list[npt.NDArray[np.int64]]:
    """Return the groups of devices that hold each other."""
    sender, holder = _core(graph)
    after: dict[int, list[int]] = {}
    for a, b in zip(sender.tolist(), holder.tolist(), strict=True):
        after.setdefault(a, []).append(b)
    return [np.array(sorted(group)) for group in _strong(after) if len(group) > 1]


def _core(graph: _Graph) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the edges left when devices that hold nobody, or that nobody holds, are taken away again and again."""
    sender, holder = graph.sender, graph.holder
    while len(sender):
        stay = np.isin(sender, holder) & np.isin(holder, sender)
        if stay.all():
            break
        sender, holder = sender[stay], holder[stay]
    return sender, holder


def _strong(after: dict[int, list[int]]) -> list[list[int]]:
    """Return the strongly connected groups (Tarjan's algorithm, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_stack: list[int] = []
    on_stack: set[int] = set()
    groups: list[list[int]] = []
    for first in sorted(after):
        if first in number:
            continue
        walk = [(first, iter(after[first]))]
        _enter(first, number, low, open_stack, on_stack)
        while walk:
            device, rest = walk[-1]
            following = next((d for d in rest if d not in number or d in on_stack), None)
            if following is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[device])
                if low[device] == number[device]:
                    groups.append(_leave(device, open_stack, on_stack))
            elif following in number:
                low[device] = min(low[device], number[following])
            else:
                _enter(following, number, low, open_stack, on_stack)
                walk.append((following, iter(after.get(following, []))))
    return groups


def _enter(device: int, number: dict[int, int], low: dict[int, int], open_stack: list[int], on_stack: set[int]) -> None:
    number[device] = low[device] = len(number)
    open_stack.append(device)
    on_stack.add(device)


def _leave(device: int, open_stack: list[int], on_stack: set[int]) -> list[int]:
    group: list[int] = []
    while not group or group[-1] != device:
        group.append(open_stack.pop())
        on_stack.discard(group[-1])
    return group
