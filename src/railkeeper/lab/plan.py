"""What the lab of a fabric consists of, as plain values: computed, compared and restored from here, never guessed.

Switches forward by the outer destination address alone. Each has one SRv6 End with the NEXT-C-SID flavour for its own
uSID and plain routes for the uSIDs of its neighbours; a node has its NICs' addresses and one route per plane.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from railkeeper.fabric import address
from railkeeper.lab import names

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric


class Route(NamedTuple):
    """One route: `end` is the end of a link it leaves by, -1 for a switch's own uSID."""

    prefix: bytes
    bits: int
    end: int
    table: int = 254


class Rule(NamedTuple):
    """Packets that are bound to the interface of `end` look into `table`."""

    end: int
    table: int


@dataclass(frozen=True)
class Space:
    """What one namespace holds; ends as in names.py."""

    name: str
    switch: bool
    ends: tuple[int, ...]
    routes: tuple[Route, ...]
    addresses: tuple[tuple[int, bytes], ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class LabPlan:
    """All namespaces of a lab, in the order nodes, T0s, T1s."""

    fabric: Fabric
    prefix: str
    _spaces: dict[int, Space] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_spaces(self) -> int:
        return self.fabric.n_nodes + self.fabric.n_t0 + self.fabric.n_t1

    @cached_property
    def space_names(self) -> tuple[str, ...]:
        f, p = self.fabric, self.prefix
        nodes = (names.node_ns(p, n) for n in range(f.n_nodes))
        t0s = (names.t0_ns(f, p, i) for i in range(f.n_t0))
        t1s = (names.t1_ns(f, p, j) for j in range(f.n_t1))
        return (*nodes, *t0s, *t1s)

    def space(self, i: int) -> Space:
        """Return what the i-th namespace holds."""
        if i not in self._spaces:
            self._spaces[i] = self._make(i)
        return self._spaces[i]

    def space_of_t0(self, t0: int) -> int:
        """Return the number of a T0's namespace."""
        return self.fabric.n_nodes + t0

    def space_of_t1(self, t1: int) -> int:
        """Return the number of a T1's namespace."""
        return self.fabric.n_nodes + self.fabric.n_t0 + t1

    def name_of_end(self, end: int) -> str:
        """Return the namespace that holds the end of a link."""
        return self.space_names[names.space_of_end(self.fabric, end)]

    def _make(self, i: int) -> Space:
        f = self.fabric
        if i < f.n_nodes:
            return _node(f, self.space_names[i], i)
        if i < f.n_nodes + f.n_t0:
            return _t0(f, self.space_names[i], i - f.n_nodes)
        return _t1(f, self.space_names[i], i - f.n_nodes - f.n_t0)


def _prefix(domain: int, usid: int) -> bytes:
    return address.encode(domain, [int(usid)])


def _block(domain: int) -> bytes:
    return _prefix(domain, 1)[:4] + bytes(12)


def _node(f: Fabric, name: str, node: int) -> Space:
    width = f.nics_per_node * f.planes
    ports = range(node * width, (node + 1) * width)
    domains = [int(f.nic_rail[p // f.planes]) * f.planes + p % f.planes for p in ports]
    own = tuple((2 * p, address.nic_address(f, p // f.planes, p % f.planes)) for p in ports)
    first = {d: 2 * p for d, p in reversed(list(zip(domains, ports, strict=True)))}
    routes = [Route(_block(d), 32, end) for d, end in sorted(first.items())]
    # Two NICs of a node can stand in the same plane: the interface that a packet is bound to then chooses the NIC.
    rules = [Rule(2 * p, 1000 + i) for i, p in enumerate(ports)] if len(first) < width else []
    routes += [Route(_block(d), 32, r.end, r.table) for d, r in zip(domains, rules, strict=bool(rules))]
    return Space(name, False, tuple(2 * p for p in ports), tuple(routes), own, tuple(rules))


def _t0(f: Fabric, name: str, t0: int) -> Space:
    domain, i = divmod(t0, f.t0_per_plane)
    rail, plane = divmod(domain, f.planes)
    nics = [(i * f.nics_per_t0 + k) * f.rails + rail for k in range(f.nics_per_t0)]
    hosts = [2 * (nic * f.planes + plane) + 1 for nic in nics]
    uplinks = [2 * int(f.fabric_link(t0, j)) for j in range(f.t1_per_plane)]
    routes = [Route(_prefix(domain, address.T0_BASE + i), 48, -1)]
    routes += [Route(_prefix(domain, address.NIC_BASE + k), 48, e) for k, e in enumerate(hosts)]
    routes += [Route(_prefix(domain, address.T1_BASE + j), 48, e) for j, e in enumerate(uplinks)]
    return Space(name, True, (*hosts, *uplinks), tuple(routes))


def _t1(f: Fabric, name: str, t1: int) -> Space:
    domain, j = divmod(t1, f.t1_per_plane)
    t0s = [domain * f.t0_per_plane + i for i in range(f.t0_per_plane)]
    ends = [2 * int(f.fabric_link(t0, j)) + 1 for t0 in t0s]
    routes = [Route(_prefix(domain, address.T1_BASE + j), 48, -1)]
    routes += [Route(_prefix(domain, address.T0_BASE + i), 48, e) for i, e in enumerate(ends)]
    return Space(name, True, tuple(ends), tuple(routes))
