"""Who is where in a fabric: from the labels of a reading to the id of a port, NIC, node or switch.

Hosts and switches are known by tables and rules of the settings, or because they bear the fabric's own names. A
switch's interfaces are known by a table, by LLDP neighbours that the same sources read, or by rules, in this order.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError
from railkeeper.fabric.names import Kind, parse_name
from railkeeper.telemetry import labels as said
from railkeeper.telemetry.fabric_entities import (
    LOWER,
    UPPER,
    nic_entities,
    node_entities,
    port_end_id,
    port_entities,
    switch_entities,
)  # fmt: skip
from railkeeper.telemetry.named_places import NamedKind
from railkeeper.telemetry.neighbours import NEIGHBOUR_DIALECTS, Neighbours
from railkeeper.telemetry.place_rules import (
    OUTSIDE_NAME,
    DeviceRule,
    Devices,
    NameRule,
    Names,
    PlacesSettings,
    interface_reader,
)  # fmt: skip
from railkeeper.telemetry.tick import OUTSIDE, UNPLACED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railkeeper.fabric.model import Fabric
    from railkeeper.telemetry.bindings import Dialect
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.reading import Reading

# Hosts and devices that bear the fabric's own names need no rule.
_OWN_NODES = NameRule(match="n{n}", name="n{n}")
_OWN_DEVICES = (DeviceRule(match="nic{i}p{p}", name="nic{i}", plane="{p}"), DeviceRule(match="nic{i}", name="nic{i}"))
NOWHERE = ("", UNPLACED)
NOT_OURS = ("", OUTSIDE)


class FabricPlaces:
    """Places in a fabric."""

    def __init__(self, fabric: Fabric, settings: PlacesSettings | None = None, *, where: str = "places") -> None:
        """Raise InputError that names the rule that can't be."""
        rules = settings or PlacesSettings()
        self.version = 0
        self._fabric = fabric
        self._near = Neighbours()
        self._lldp = rules.lldp
        self._hosts = Names(rules.host_table, [*rules.hosts, _OWN_NODES], where=f"{where}.hosts")
        self._switches = Names(rules.switch_table, rules.switches, where=f"{where}.switches")
        self._devices = Devices([*rules.devices, *_OWN_DEVICES], where=f"{where}.devices")
        self._interfaces = [
            (interface_reader(rule, where=f"{where}.interfaces[{i}]"), rule) for i, rule in enumerate(rules.interfaces)
        ]
        self._interface_table = dict(rules.interface_table)
        self._check_tables(rules, where)
        self._gpus = NamedKind("gpu")
        self._from_hosts: dict[tuple[str, str], tuple[str, str]] | None = None

    def _check_tables(self, rules: PlacesSettings, where: str) -> None:
        """Raise InputError for a name in a table that the fabric does not have: it would be missed in silence."""
        finders: dict[str, tuple[Callable[[str], bool], str]] = {
            "host_table": (lambda name: _kind_of(self._fabric, name) is Kind.NODE, "a node"),
            "switch_table": (lambda name: _kind_of(self._fabric, name) in {Kind.T0, Kind.T1}, "a switch"),
            "interface_table": (lambda name: port_end_id(self._fabric, name) is not None, "an end of a link"),
        }
        for table, (fits, what) in finders.items():
            for key, name in getattr(rules, table).items():
                if name != OUTSIDE_NAME and not fits(name):
                    raise InputError(f"{where}.{table}: {key}", f"{name!r} is no name of {what}", "see its fabric spec")

    def entities(self, kind: str) -> Entities | None:
        """Return the entities of a kind; GPUs are those that have been heard of."""
        if kind == "gpu":
            return self._gpus.entities() if self._gpus.names else None
        return self._all.get(kind)

    @cached_property
    def _all(self) -> dict[str, Entities]:
        f = self._fabric
        return {
            "port": port_entities(f), "nic": nic_entities(f), "node": node_entities(f), "switch": switch_entities(f),
        }  # fmt: skip

    def place(self, kind: str, dialect: Dialect, reading: Reading) -> tuple[str, int]:
        """Return kind and id of what signals of a kind are about; port signals of a whole NIC are its NIC's."""
        if dialect.family == "fabric":
            return self._named(kind, reading.labels)
        if dialect.family == "switch":
            return self._on_switch(kind, reading.labels)
        if dialect.family == "infiniband":
            return self._on_infiniband(kind, reading.labels)
        return self._on_host(kind, reading.labels)

    def learn(self, dialect: str, reading: Reading) -> bool:
        """Take in neighbours, aliases and netdevs; return whether the dialect says any."""
        if dialect not in NEIGHBOUR_DIALECTS:
            return False
        if self._near.learn(dialect, reading):
            self.version += 1
            self._from_hosts = None
        return True

    def node_id(self, host: str) -> int | None:
        """Return the id of the node that a host is, None for one that is no node of the fabric."""
        node = self._node(host)
        return None if node is None or node == OUTSIDE_NAME else self._all["node"].id_of(node)

    def _on_infiniband(self, kind: str, labels: Mapping[str, str]) -> tuple[str, int]:
        """Find a port of an InfiniBand fabric: adapters are called `HOST DEVICE`, switches otherwise."""
        host, _, device = labels.get("node", "").partition(" ")
        if device and self._node(host) is not None:
            return self._on_host(kind, {"host": host, "device": device, "port": labels.get("port", "")})
        return self._on_switch(kind, labels)

    # -- hosts --------------------------------------------------------------------------------------------------------
    def _named(self, kind: str, labels: Mapping[str, str]) -> tuple[str, int]:
        """Find what bears the fabric's own names."""
        entities = self._all.get(kind)
        found = entities.id_of(labels.get(kind, "")) if entities else None
        return (kind, found) if found is not None else NOWHERE

    def _on_host(self, kind: str, labels: Mapping[str, str]) -> tuple[str, int]:
        host = said.host_of(labels)
        node = self._node(host)
        if node is None:
            return NOWHERE
        if node == OUTSIDE_NAME:
            return NOT_OURS
        if kind == "node":
            return kind, self._all["node"].id_of(node) or 0
        if kind == "gpu":
            return self._gpu(node, labels)
        if kind == "switch":
            return NOWHERE
        return self._nic_or_port(kind, node, self._device(host, labels))

    def _node(self, host: str) -> str | None:
        """Return the node of a host, `-` for one that is not of the fabric, None for one that is not known."""
        found = self._hosts.find(host, said.short(host))
        if found is None or found == OUTSIDE_NAME:
            return found
        return found if self._all["node"].id_of(found) is not None else None

    def _gpu(self, node: str, labels: Mapping[str, str]) -> tuple[str, int]:
        gpu = said.gpu_of(labels)
        return ("gpu", self._gpus.add(f"{node}/{gpu}", owner=self._all["node"].id_of(node) or 0)) if gpu else NOWHERE

    def _device(self, host: str, labels: Mapping[str, str]) -> tuple[str, int | None] | None:
        """Return (NIC, plane) by any of the names that a device has; those that know the plane are best."""
        device, port, netdev = said.device_of(labels), labels.get("port", ""), labels.get("netdev", "")
        tries = [(device, port), (netdev, ""), (self._near.netdev_of.get((host, device, port), ""), "")]
        tries += [self._near.device_of.get((host, netdev or device), ("", "")), (said.pci_of(labels), "")]
        found = [hit for name, number in tries if name and (hit := self._devices.find(name, number))]
        return next((hit for hit in found if hit[1] is not None or hit[0] == OUTSIDE_NAME), found[0] if found else None)

    def _nic_or_port(self, kind: str, node: str, device: tuple[str, int | None] | None) -> tuple[str, int]:
        if device is None:
            return NOWHERE
        name, plane = device
        if name == OUTSIDE_NAME:
            return NOT_OURS
        nic = self._all["nic"].id_of(f"{node}/{name}")
        if nic is None:
            return NOWHERE
        if kind == "nic" or (plane is None and self._fabric.planes > 1):
            return "nic", nic
        plane = plane or 0
        return ("port", 2 * (nic * self._fabric.planes + plane)) if 0 <= plane < self._fabric.planes else NOWHERE

    # -- switches -----------------------------------------------------------------------------------------------------
    def _switch(self, name: str) -> tuple[Kind, int] | None:
        """Return kind (T0 or T1) and id of a switch; None for one that is not known."""
        wanted = self._switches.find(name, said.short(name)) or name
        try:
            found = parse_name(self._fabric, wanted)
        except InputError:
            return None
        return (found.kind, found.id) if found.kind in (Kind.T0, Kind.T1) else None

    def _on_switch(self, kind: str, labels: Mapping[str, str]) -> tuple[str, int]:
        name = said.switch_of(labels)
        if self._switches.find(name, said.short(name)) == OUTSIDE_NAME:
            return NOT_OURS
        switch = self._switch(name)
        if switch is None:
            return NOWHERE
        if kind == "switch":
            return kind, switch[1] + (self._fabric.n_t0 if switch[0] is Kind.T1 else 0)
        interface = self._near.interface(said.short(name), said.interface_of(labels))
        return self._interface(name, switch, interface) if kind == "port" and interface else NOWHERE

    def _interface(self, name: str, switch: tuple[Kind, int], interface: str) -> tuple[str, int]:
        for key in (f"{name}|{interface}", f"{said.short(name)}|{interface}"):
            wanted = self._interface_table.get(key)
            if wanted == OUTSIDE_NAME:
                return NOT_OURS
            if wanted is not None:
                return self._end_at(switch, port_end_id(self._fabric, wanted))
        found = port_end_id(self._fabric, interface)
        if found is None and self._lldp:
            found = self._by_neighbour((said.short(name), interface), switch)
        return self._end_at(switch, self._by_rule(switch, interface) if found is None else found)

    def _end_at(self, switch: tuple[Kind, int], port: int | None) -> tuple[str, int]:
        """Return a port, if it is one of this switch."""
        if port is None:
            return NOWHERE
        owner = switch[1] + (self._fabric.n_t0 if switch[0] is Kind.T1 else 0)
        ports = self._all["port"]
        mine = ports.role[port] != 0 and ports.owner[port] == owner
        return ("port", int(port)) if mine else NOWHERE

    def _by_neighbour(self, near: tuple[str, str], switch: tuple[Kind, int]) -> int | None:
        """Return the port at which LLDP, read here or at the other end, says a known neighbour."""
        far = self._near.far.get(near) or self._others().get(near)
        if far is None:
            return None
        there = self._switch(far[0])
        if there is not None:
            return self._between(switch, there)
        node = self._node(far[0])
        if node is None or node == OUTSIDE_NAME or switch[0] is Kind.T1:
            return None
        at = self._nic_or_port("port", node, self._device(far[0], {"netdev": far[1], "device": far[1]}))
        link = at[1] // 2 if at[0] == "port" else self._only_link(node, switch[1])
        return 2 * link + UPPER if link is not None and self._fabric.link_upper[link] == switch[1] else None

    def _others(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Return what other ends say of theirs, turned round."""
        if self._from_hosts is None:
            turned = {}
            for near, (system, name) in self._near.far.items():
                turned[system, self._near.interface(system, name)] = near
            self._from_hosts = turned
        return self._from_hosts

    def _between(self, here: tuple[Kind, int], there: tuple[Kind, int]) -> int | None:
        f = self._fabric
        if {here[0], there[0]} != {Kind.T0, Kind.T1}:
            return None
        t0, t1 = (here[1], there[1]) if here[0] is Kind.T0 else (there[1], here[1])
        if t0 // f.t0_per_plane != t1 // f.t1_per_plane:
            return None
        return 2 * int(f.fabric_link(t0, t1 % f.t1_per_plane)) + (LOWER if here[0] is Kind.T0 else UPPER)

    def _only_link(self, node: str, t0: int) -> int | None:
        """Return the link between a node and a T0, where there is but one."""
        f = self._fabric
        first = (self._all["node"].id_of(node) or 0) * f.nics_per_node * f.planes
        mine = [link for link in range(first, first + f.nics_per_node * f.planes) if f.link_upper[link] == t0]
        return mine[0] if len(mine) == 1 else None

    def _by_rule(self, switch: tuple[Kind, int], interface: str) -> int | None:
        for read, rule in self._interfaces:
            numbers = read.read(interface)
            if numbers is None or rule.tier != ("t0" if switch[0] is Kind.T0 else "t1"):
                continue
            steps, odd = divmod(next(iter(numbers.values())) - rule.first, rule.step)
            if not odd and 0 <= steps < rule.count:
                return self._numbered(switch, rule.side, rule.start + steps)
        return None

    def _numbered(self, switch: tuple[Kind, int], side: str, number: int) -> int | None:
        """Return the number-th downlink or uplink of a switch."""
        f, (kind, i) = self._fabric, switch
        if kind is Kind.T1:
            domain, j = divmod(i, f.t1_per_plane)
            fits = side == "down" and number < f.t0_per_plane
            return 2 * int(f.fabric_link(domain * f.t0_per_plane + number, j)) + UPPER if fits else None
        if side == "up":
            return 2 * int(f.fabric_link(i, number)) + LOWER if number < f.t1_per_plane else None
        if number >= f.nics_per_t0:
            return None
        domain, group = divmod(i, f.t0_per_plane)
        rail, plane = divmod(domain, f.planes)
        nic = (group * f.nics_per_t0 + number) * f.rails + rail
        return 2 * int(f.port_link(nic, plane)) + UPPER


def _kind_of(fabric: Fabric, name: str) -> Kind | None:
    try:
        return parse_name(fabric, name).kind
    except InputError:
        return None
