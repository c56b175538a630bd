"""A network as directed links between switches and hosts, read from an edge list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.health.infer.problem import csr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.health.infer.problem import Csr, Ints, Longs

MAX_ID = 1 << 24
"""Ids of nodes stay below: a table over them is kept."""

MAX_SWITCHES = 1 << 13
"""A table of all pairs of switches is kept."""


@dataclass(frozen=True)
class Topology:
    """Directed links between S switches and H hosts; each cable gives two links, each host one up and one down.

    `switches` (S,) and `hosts` (H,) int32: ids, ascending. `rack` (H,): place of a host's switch in `switches`.
    `link_from`, `link_to` (L,) int32: ids of nodes. Host h has the links `first_host_link + 2 h` (up) and the next one
    (down). `place` (largest id + 2,) int32: place of an id among the switches, -2 - its place among the hosts, or -1.
    `between` (S * S,): the link from one place of a switch to another, -1 for none.
    """

    switches: Ints
    hosts: Ints
    rack: Ints
    link_from: Ints
    link_to: Ints
    first_host_link: int
    place: Ints
    between: Ints

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return len(self.link_from)


def parse_topology(text: str, where: str) -> Topology:
    """Read lines `switch switch` (a cable, in either order, once) and `host->switch`.

    Raises InputError naming the line.
    """
    cables: list[tuple[int, int, int]] = []
    hosts: list[tuple[int, int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("->") if "->" in line else line.split()
        if not words:
            continue
        if len(words) != 2 or not all(w.strip().isascii() and w.strip().isdigit() for w in words):
            raise InputError(f"{where}: line {number}", "neither a cable nor a host", "`3 57` or `10012->3`")
        pair = int(words[0]), int(words[1])
        if max(pair) >= MAX_ID or pair[0] == pair[1]:
            raise InputError(f"{where}: line {number}", f"no pair of nodes: {line.strip()}", f"two ids below {MAX_ID}")
        (hosts if "->" in line else cables).append((*pair, number))
    _check(cables, hosts, where)
    return topology(np.array([c[:2] for c in cables]).reshape(-1, 2), np.array([h[:2] for h in hosts]).reshape(-1, 2))


def _check(cables: list[tuple[int, int, int]], hosts: list[tuple[int, int, int]], where: str) -> None:
    switches = {n for u, v, _ in cables for n in (u, v)} | {rack for _, rack, _ in hosts}
    if not cables and not hosts:
        raise InputError(where, "no links in it", "lines `switch switch` and `host->switch`")
    _once(((min(u, v), max(u, v), n) for u, v, n in cables), where, "the cable {} {} stands twice")
    _once(((h, h, n) for h, _, n in hosts), where, "the host {} stands twice")
    for host, _, number in hosts:
        if host in switches:
            raise InputError(
                f"{where}: line {number}", f"{host} is a switch too", "hosts and switches of their own ids"
            )


def _once(rows: Iterable[tuple[int, int, int]], where: str, problem: str) -> None:
    seen: set[tuple[int, int]] = set()
    for a, b, number in rows:
        if (a, b) in seen:
            raise InputError(f"{where}: line {number}", problem.format(a, b), "each once")
        seen.add((a, b))


def topology(cables: Longs, hosts: Longs) -> Topology:
    """Return the network of cables (C, 2) between switches and of hosts (H, 2), each with its switch."""
    hosts = hosts[np.argsort(hosts[:, 0], kind="stable")].astype(np.int64)
    cables = cables.astype(np.int64)
    switches = np.unique(np.concatenate([cables.ravel(), hosts[:, 1]]))
    u, v = cables[:, 0], cables[:, 1]
    link_from = np.concatenate([np.stack([u, v], 1).ravel(), hosts.ravel()])
    link_to = np.concatenate([np.stack([v, u], 1).ravel(), hosts[:, ::-1].ravel()])
    place = np.full(int(max(link_from.max(), switches.max())) + 2, -1, dtype=np.int32)
    place[switches] = np.arange(len(switches))
    place[hosts[:, 0]] = -2 - np.arange(len(hosts))
    if len(switches) > MAX_SWITCHES:
        raise InputError("topology", f"{len(switches)} switches", f"at most {MAX_SWITCHES}")
    between = np.full(len(switches) ** 2, -1, dtype=np.int32)
    between[place[link_from[: 2 * len(u)]] * len(switches) + place[link_to[: 2 * len(u)]]] = np.arange(2 * len(u))
    return Topology(
        switches=switches.astype(np.int32),
        hosts=hosts[:, 0].astype(np.int32),
        rack=place[hosts[:, 1]],
        link_from=link_from.astype(np.int32),
        link_to=link_to.astype(np.int32),
        first_host_link=2 * len(u),
        place=place,
        between=between,
    )


def devices(network: Topology) -> Csr:
    """Return the links of each switch: all that begin or end at it."""
    rows: list[list[int]] = [[] for _ in network.switches]
    for link, (u, v) in enumerate(zip(network.link_from.tolist(), network.link_to.tolist(), strict=True)):
        for node in (u, v):
            if network.place[node] >= 0:
                rows[network.place[node]].append(link)
    return csr(rows)


def tiers(network: Topology) -> Ints:
    """Return the group of each link (L,): up or down, and how far from the hosts it is."""
    level = np.full(len(network.switches), -1)
    level[network.rack] = 0
    if not len(network.rack):
        level[:] = 0
    inner = slice(0, network.first_host_link)
    a, b = network.place[network.link_from[inner]], network.place[network.link_to[inner]]
    step = 0
    while len(fresh := b[(level[a] == step) & (level[b] < 0)]):
        step += 1
        level[fresh] = step
    levels = np.full(len(network.place), -1)
    levels[network.switches] = level + 1
    levels[network.hosts] = 0
    return np.asarray(
        np.unique(levels[network.link_from] * (step + 3) + levels[network.link_to], return_inverse=True)[1],
        dtype=np.int32,
    )
