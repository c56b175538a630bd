"""What sources say of who is connected to whom, and of what things are called: LLDP, aliases of ports, netdevs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.telemetry.labels import device_of, host_of, interface_of, short, switch_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railkeeper.telemetry.reading import Reading

MAX_FACTS = 4_000_000
# Native names of (system, port, description of the port) by dialect.
_SONIC = ("lldp_rem_sys_name", "lldp_rem_port_id", "lldp_rem_port_desc")
_OPENCONFIG = "/lldp/interfaces/interface/neighbors/neighbor/state/"
_LLDP = {
    "sonic.lldp": _SONIC,
    "sonic.lldp_entry_table": _SONIC,
    "openconfig": tuple(_OPENCONFIG + leaf for leaf in ("system-name", "port-id", "port-description")),
    "host.lldp": ("system_name", "port_id", "port_descr"),
    "infiniband.link": ("other_node", "other_port", ""),
}
_TRANSCEIVER = "/interfaces/interface/state/transceiver"
_NAMES = frozenset({"sonic.appl_port", "sonic.port_table", "sonic.config_port", "rdma.port"})
NEIGHBOUR_DIALECTS = frozenset(_LLDP) | _NAMES


@dataclass
class Neighbours:
    """Facts of neighbourhood.

    - far: (system, interface) -> (system, interface) as the other end said it; systems by their short names
    - alias: (system, other name of an interface) -> interface
    - netdev_of: (host, RDMA device, port) -> netdev; device_of: (host, netdev) -> (RDMA device, port)
    """

    far: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    alias: dict[tuple[str, str], str] = field(default_factory=dict)
    netdev_of: dict[tuple[str, str, str], str] = field(default_factory=dict)
    device_of: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def learn(self, dialect: str, reading: Reading) -> bool:
        """Take in what a reading says; return whether anything is new."""
        changed = self._learn_pair(reading.labels)
        if dialect in _LLDP:
            changed = self._learn_far(dialect, reading) or changed
        if dialect == "rdma.port" and isinstance(reading.values.get("netdev"), str):
            labels = {**reading.labels, "netdev": str(reading.values["netdev"])}
            return self._learn_pair(labels) or changed
        # SONiC's alias, or the component that is the port's transceiver: other names of the port.
        alias = reading.values.get(_TRANSCEIVER if dialect == "openconfig" else "alias")
        if isinstance(alias, str) and alias:
            key = (short(switch_of(reading.labels)), alias)
            return _put(self.alias, key, interface_of(reading.labels)) or changed
        return changed

    def interface(self, system: str, name: str) -> str:
        """Return the interface that a name of a system means."""
        return self.alias.get((system, name), name)

    def _learn_pair(self, labels: Mapping[str, str]) -> bool:
        device, port, netdev = labels.get("device", ""), labels.get("port", ""), labels.get("netdev", "")
        if not (device and port and netdev):
            return False
        host = host_of(labels)
        new = _put(self.netdev_of, (host, device, port), netdev)
        return _put(self.device_of, (host, netdev), (device, port)) or new

    def _learn_far(self, dialect: str, reading: Reading) -> bool:
        system_key, port_key, text_key = _LLDP[dialect]
        values = reading.values
        near = (
            (short(host_of(reading.labels)), device_of(reading.labels))
            if dialect == "host.lldp"
            else (short(switch_of(reading.labels)), interface_of(reading.labels))
        )
        before = self.far.get(near, ("", ""))
        system, port, text = (str(values.get(key) or "").strip() for key in (system_key, port_key, text_key))
        # A MAC address says no interface: the description may. Leaves may come one by one.
        there = text if not port or port.count(":") == 5 else port
        if not (system or there):
            return False
        return _put(self.far, near, (short(system) or before[0], there or before[1]))


def _put(table: dict, key: object, value: object) -> bool:  # type: ignore[type-arg]
    """Put a fact into a bounded table; return whether it is new."""
    if table.get(key) == value or (key not in table and len(table) >= MAX_FACTS):
        return False
    table[key] = value
    return True
