"""Who is where without a fabric: entities are what the sources name, in the order in which they come.

Names are `HOST/DEVICE/PORT` or `HOST/NETDEV` for a host's ports, `SWITCH/INTERFACE` for a switch's, `HOST/DEVICE` for
NICs. Where a source says that an RDMA port and a netdev belong together they are one port. Peers are ports of one role
whose counters come from the same make of device. LLDP says who is the other end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry import labels as said
from railkeeper.telemetry.entities import NIC_END, T0_HOST, T0_UPLINK, T1_DOWN, UNKNOWN_ROLE, Entities
from railkeeper.telemetry.neighbours import NEIGHBOUR_DIALECTS, Neighbours
from railkeeper.telemetry.tick import OUTSIDE, UNPLACED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railkeeper.telemetry.bindings import Dialect
    from railkeeper.telemetry.reading import Reading

MAX_ENTITIES = 4_000_000
_HOST_SIDE, _SWITCH_SIDE = 0, 1
_MAKES = ("mlx5", "bnxt", "ionic", "mlx4", "irdma")
_MAX_GROUPS = 32_000
# Interfaces that no link is behind.
_VIRTUAL = re.compile(
    r"lo|(ifb|veth|docker|br-|virbr|dummy|tun|tap|cni|cali|flannel|vxlan|sit|ip6tnl|gre)\S*", re.ASCII
)


@dataclass
class NamedKind:
    """Entities of one kind that got their ids as their names came; `full` counts names that had no room."""

    kind: str
    room: int = MAX_ENTITIES
    names: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    owner: list[int] = field(default_factory=list)
    side: list[int] = field(default_factory=list)
    makes: list[str] = field(default_factory=list)
    full: int = 0

    def id_of(self, name: str) -> int | None:
        """Return the id of a name, None where it has not come."""
        return self.ids.get(name)

    def add(self, name: str, *, owner: int = -1, side: int = _HOST_SIDE) -> int:
        """Return the id of a name, a new one where it has not come before; UNPLACED where there is no room."""
        found = self.ids.get(name)
        if found is not None:
            return found
        if len(self.names) >= self.room:
            self.full += 1
            return UNPLACED
        self.ids[name] = len(self.names)
        self.names.append(name)
        self.owner.append(owner)
        self.side.append(side)
        self.makes.append("")
        return len(self.names) - 1

    def also(self, name: str, entity: int) -> None:
        """Give an entity another name, unless that name is taken."""
        self.ids.setdefault(name, entity)

    def made_by(self, entity: int, dialect: str) -> bool:
        """Note the make of an entity that its dialect tells; return whether that is new."""
        make = dialect.partition(".")[0]
        if entity < 0 or make not in _MAKES or self.makes[entity] >= make:
            return False
        self.makes[entity] = make
        return True

    def entities(self, role: list[int] | None = None, other: list[int] | None = None) -> Entities:
        """Return the entities that have come so far."""
        n, names, ids = len(self.names), self.names, self.ids
        roles = np.array(role if role is not None else [0] * n, dtype=np.int8)
        keys = list(zip(roles.tolist(), self.makes, strict=True))
        groups = {key: min(i, _MAX_GROUPS) for i, key in enumerate(sorted(set(keys)))}
        return Entities(
            kind=self.kind, domain=np.full(n, -1, dtype=np.int16), role=roles,
            owner=np.array(self.owner, dtype=np.int32),
            other=np.array(other if other is not None else [-1] * n, dtype=np.int32),
            group=np.array([groups[key] for key in keys], dtype=np.int16), n_groups=max(1, len(groups)),
            name_of=lambda i: names[i], id_of=ids.get,
        )  # fmt: skip


class NamedPlaces:
    """Places without a fabric."""

    def __init__(self, *, max_entities: int = MAX_ENTITIES) -> None:
        """Hold at most `max_entities` of each kind."""
        self.version = 0
        self._kinds = {kind: NamedKind(kind, max_entities) for kind in ("port", "nic", "node", "switch", "gpu")}
        self._near = Neighbours()
        self._made: dict[str, Entities] = {}

    def entities(self, kind: str) -> Entities | None:
        """Return the entities of a kind that have come so far; None where none has."""
        named = self._kinds.get(kind)
        if named is None or not named.names:
            return None
        if kind not in self._made or len(self._made[kind]) != len(named.names):
            self._made[kind] = named.entities(*self._ports()) if kind == "port" else named.entities()
        return self._made[kind]

    def place(self, kind: str, dialect: Dialect, reading: Reading) -> tuple[str, int]:
        """Return kind and id of what signals of a kind are about; a new id where the name is new."""
        find = self._on_host if dialect.family == "host" else self._on_switch
        at = find(kind, reading)
        if at >= 0 and self._kinds[kind].made_by(at, reading.dialect):
            self._made.pop(kind, None)
        return kind, at

    def learn(self, dialect: str, reading: Reading) -> bool:
        """Take in neighbours, aliases and netdevs; return whether the dialect says any."""
        if dialect not in NEIGHBOUR_DIALECTS:
            return False
        if self._near.learn(dialect, reading):
            self.version += 1
            self._made.pop("port", None)
        return True

    # -- names --------------------------------------------------------------------------------------------------------
    def _on_switch(self, kind: str, reading: Reading) -> int:
        name = said.short(said.switch_of(reading.labels))
        if not name:
            return UNPLACED
        switch = self._kinds["switch"].add(name, side=_SWITCH_SIDE)
        if kind == "switch":
            return switch
        said_name = said.interface_of(reading.labels)
        interface = self._near.interface(name, said_name)
        # A component is a port only where the switch has said which port's transceiver it is.
        lost = said_name == reading.labels.get("component") and interface == said_name
        if kind != "port" or not interface or lost:
            return UNPLACED
        return self._kinds["port"].add(f"{name}/{interface}", owner=switch, side=_SWITCH_SIDE)

    def _on_host(self, kind: str, reading: Reading) -> int:
        labels = reading.labels
        host = said.short(said.host_of(labels))
        if not host:
            return UNPLACED
        node = self._kinds["node"].add(host)
        if kind == "node":
            return node
        if kind == "gpu":
            gpu = said.gpu_of(labels)
            return self._kinds["gpu"].add(f"{host}/{gpu}", owner=node) if gpu else UNPLACED
        return self._nic(host, node, labels) if kind == "nic" else self._port(host, node, reading)

    def _nic(self, host: str, node: int, labels: Mapping[str, str]) -> int:
        names = self._nic_names(host, labels)
        if not names:
            return UNPLACED
        kind = self._kinds["nic"]
        known = next((kind.ids[name] for name in names if name in kind.ids), None)
        at = kind.add(names[0], owner=node) if known is None else known
        for name in names if at >= 0 else ():
            kind.also(name, at)
        return at

    def _nic_names(self, host: str, labels: Mapping[str, str]) -> list[str]:
        netdev, pci = labels.get("netdev", ""), said.pci_of(labels)
        device = said.device_of(labels)
        if netdev and (said.host_of(labels), netdev) in self._near.device_of:
            device = self._near.device_of[said.host_of(labels), netdev][0]
        return [f"{host}/{name}" for name in dict.fromkeys((device, netdev, pci)) if name]

    def _port(self, host: str, node: int, reading: Reading) -> int:
        labels = reading.labels
        names = self._port_names(host, labels)
        if not names:
            return UNPLACED
        if _VIRTUAL.fullmatch(names[-1].removeprefix(f"{host}/")):
            return OUTSIDE
        kind = self._kinds["port"]
        known = next((kind.ids[name] for name in names if name in kind.ids), None)
        if known is None:
            known = kind.add(names[0], owner=self._nic(host, node, labels))
        for name in names if known >= 0 else ():
            kind.also(name, known)
        return known

    def _port_names(self, host: str, labels: Mapping[str, str]) -> list[str]:
        full, device, port = said.host_of(labels), labels.get("device", ""), labels.get("port", "")
        netdev = labels.get("netdev", "") or (device if not port and "segment" not in labels else "")
        if device and port and not netdev:
            netdev = self._near.netdev_of.get((full, device, port), "")
        elif netdev and not (device and port):
            device, port = self._near.device_of.get((full, netdev), ("", ""))
        names = [f"{host}/{device}/{port}"] if device and port else []
        return names + ([f"{host}/{netdev}"] if netdev else [])

    # -- ends of links ------------------------------------------------------------------------------------------------
    def _ports(self) -> tuple[list[int], list[int]]:
        """Return role and other end of each port, from LLDP."""
        ports = self._kinds["port"]
        other = [-1] * len(ports.names)
        for near, far in self._near.far.items():
            a, b = self._end(near), self._end(far)
            if a is not None and b is not None and a != b:
                other[a], other[b] = b, a
        hosts = {ports.owner[i] for i, o in enumerate(other) if ports.side[i] and o >= 0 and not ports.side[o]}
        return [self._role(i, other[i], hosts) for i in range(len(other))], other

    def _end(self, where: tuple[str, str]) -> int | None:
        system, name = where
        return self._kinds["port"].id_of(f"{system}/{self._near.interface(system, name)}")

    def _role(self, port: int, other: int, hosts: set[int]) -> int:
        """Return a port's role: a switch that has a host behind a port is a T0."""
        ports = self._kinds["port"]
        if not ports.side[port]:
            return NIC_END
        if other < 0:
            return UNKNOWN_ROLE
        if not ports.side[other]:
            return T0_HOST
        return T0_UPLINK if ports.owner[port] in hosts else T1_DOWN
