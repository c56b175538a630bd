"""The entities of a fabric: its ports by end, NICs, nodes and switches, in dense ids.

Names of ports: `n12/nic0/p3` for a NIC's end, `LINK@OWNER` for a switch's end, as in
`n12/nic0/p3--p3/t0-7@p3/t0-7` and `p3/t0-7--p3/t1-11@p3/t1-11`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.fabric.names import Component, Kind, link_name, name_of, parse_name, port_name
from railkeeper.telemetry.entities import NIC_END, T0_HOST, T0_UPLINK, T1_DOWN, Entities

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

LOWER, UPPER = 0, 1


def port_end(link: npt.ArrayLike, end: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return the port id of an end (0 lower, 1 upper) of a link."""
    return np.asarray(np.asarray(link) * 2 + np.asarray(end), dtype=np.int32)


def port_entities(fabric: Fabric) -> Entities:
    """Return the two ends of every link; n = 2 * n_links."""
    hosts, n = fabric.n_ports, fabric.n_links
    domain = np.empty(n, dtype=np.int16)
    domain[:hosts] = fabric.domain_of_t0(fabric.link_upper[:hosts])
    domain[hosts:] = fabric.domain_of_t0(fabric.link_lower[hosts:])
    role = np.empty((n, 2), dtype=np.int8)
    role[:hosts], role[hosts:] = (NIC_END, T0_HOST), (T0_UPLINK, T1_DOWN)
    owner = np.empty((n, 2), dtype=np.int32)
    owner[:hosts, LOWER] = np.arange(hosts) // fabric.planes
    owner[hosts:, LOWER] = fabric.link_lower[hosts:]
    owner[:hosts, UPPER] = fabric.link_upper[:hosts]
    owner[hosts:, UPPER] = fabric.n_t0 + fabric.link_upper[hosts:]
    roles = role.reshape(-1)
    domains = np.repeat(domain, 2)
    return Entities(
        kind="port", domain=domains, role=roles, owner=owner.reshape(-1),
        other=np.arange(2 * n, dtype=np.int32) ^ 1,
        group=(roles.astype(np.int16) * fabric.n_domains + domains).astype(np.int16),
        n_groups=4 * fabric.n_domains,
        name_of=lambda i: port_end_name(fabric, i), id_of=lambda name: port_end_id(fabric, name),
    )  # fmt: skip


def port_end_name(fabric: Fabric, port: int) -> str:
    """Return the name of an end of a link."""
    link, end = divmod(int(port), 2)
    if link < fabric.n_ports and end == LOWER:
        return port_name(fabric, link)
    name = link_name(fabric, link)
    return f"{name}@{name.split('--')[end]}"


def port_end_id(fabric: Fabric, name: str) -> int | None:
    """Return the id of a name of an end of a link, None where the fabric has no such."""
    text, _, owner = name.partition("@")
    try:
        part = parse_name(fabric, text)
    except InputError:
        return None
    if part.kind is Kind.PORT and not owner:
        return 2 * part.id
    ends = link_name(fabric, part.id).split("--") if part.kind is Kind.LINK else []
    return 2 * part.id + ends.index(owner) if owner in ends else None


def nic_entities(fabric: Fabric) -> Entities:
    """Return the NICs; peers are the NICs of a rail."""
    n = fabric.n_nics
    nodes = np.arange(n, dtype=np.int32) // np.int32(fabric.nics_per_node)
    return _plain(fabric, Kind.NIC, nodes, fabric.nic_rail.astype(np.int16), fabric.rails)


def node_entities(fabric: Fabric) -> Entities:
    """Return the nodes; all are peers."""
    n = fabric.n_nodes
    return _plain(fabric, Kind.NODE, np.arange(n, dtype=np.int32), np.zeros(n, dtype=np.int16), 1)


def _plain(
    fabric: Fabric, part: Kind, owner: npt.NDArray[np.int32], group: npt.NDArray[np.int16], n_groups: int
) -> Entities:
    n, kind = len(owner), part.name.lower()
    return Entities(
        kind=kind, domain=np.full(n, -1, dtype=np.int16), role=np.zeros(n, dtype=np.int8), owner=owner,
        other=np.full(n, -1, dtype=np.int32), group=group, n_groups=n_groups,
        name_of=lambda i: name_of(fabric, Component(part, int(i))), id_of=lambda name: _id(fabric, part, name),
    )  # fmt: skip


def _id(fabric: Fabric, part: Kind, name: str) -> int | None:
    try:
        found = parse_name(fabric, name)
    except InputError:
        return None
    return found.id if found.kind is part else None


def switch_entities(fabric: Fabric) -> Entities:
    """Return the switches, T0s before T1s; peers are those of a tier and domain."""
    t0, t1 = fabric.n_t0, fabric.n_t1
    domain = np.concatenate([np.arange(t0) // fabric.t0_per_plane, np.arange(t1) // fabric.t1_per_plane])
    role = np.repeat(np.array([0, 1], dtype=np.int8), [t0, t1])
    return Entities(
        kind="switch", domain=domain.astype(np.int16), role=role, owner=np.full(t0 + t1, -1, dtype=np.int32),
        other=np.full(t0 + t1, -1, dtype=np.int32),
        group=(role * fabric.n_domains + domain).astype(np.int16), n_groups=2 * fabric.n_domains,
        name_of=lambda i: _switch_name(fabric, i), id_of=lambda name: _switch_id(fabric, name),
    )  # fmt: skip


def _switch_name(fabric: Fabric, i: int) -> str:
    upper = i >= fabric.n_t0
    return name_of(fabric, Component(Kind.T1, int(i) - fabric.n_t0) if upper else Component(Kind.T0, int(i)))


def _switch_id(fabric: Fabric, name: str) -> int | None:
    try:
        found = parse_name(fabric, name)
    except InputError:
        return None
    return {Kind.T0: found.id, Kind.T1: fabric.n_t0 + found.id}.get(found.kind)
