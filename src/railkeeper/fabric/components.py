"""Which links a component carries: the ground for blast radius, faults and location."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Component, Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric


def links_of(fabric: Fabric, component: Component) -> npt.NDArray[np.int32]:
    """Return the ids of the (undirected) links that fail when the component fails, ascending."""
    return _LINKS[component.kind](fabric, component.id)


def _node(f: Fabric, i: int) -> npt.NDArray[np.int32]:
    width = f.nics_per_node * f.planes
    return np.arange(i * width, (i + 1) * width, dtype=np.int32)


def _nic(f: Fabric, i: int) -> npt.NDArray[np.int32]:
    return np.arange(i * f.planes, (i + 1) * f.planes, dtype=np.int32)


def _one(_f: Fabric, i: int) -> npt.NDArray[np.int32]:
    return np.array([i], dtype=np.int32)


def _t0(f: Fabric, i: int) -> npt.NDArray[np.int32]:
    rail, plane = divmod(i // f.t0_per_plane, f.planes)
    first = (i % f.t0_per_plane) * f.nics_per_t0
    in_rail = np.arange(first, first + f.nics_per_t0, dtype=np.int32)
    nics = in_rail * f.rails + rail if f.rails > 1 else in_rail
    up = f.fabric_link(i, np.arange(f.t1_per_plane))
    return np.concatenate([f.port_link(nics, plane), up]).astype(np.int32)


def _t1(f: Fabric, i: int) -> npt.NDArray[np.int32]:
    domain, j = divmod(i, f.t1_per_plane)
    t0s = domain * f.t0_per_plane + np.arange(f.t0_per_plane)
    return f.fabric_link(t0s, j)


def _nic_optic(f: Fabric, i: int) -> npt.NDArray[np.int32]:
    nic, o = divmod(i, f.optics_per_nic)
    width = f.spec.optics.nic_ports_per_optic if f.spec.optics else 1
    planes = np.arange(o * width, min((o + 1) * width, f.planes))
    return f.port_link(nic, planes)


def _t0_optic(f: Fabric, i: int) -> npt.NDArray[np.int32]:
    t0, o = divmod(i, f.optics_per_t0)
    width = f.spec.optics.t0_ports_per_optic if f.spec.optics else 1
    return _t0(f, t0)[o * width : (o + 1) * width]


_LINKS = {
    Kind.NODE: _node,
    Kind.NIC: _nic,
    Kind.PORT: _one,
    Kind.T0: _t0,
    Kind.T1: _t1,
    Kind.LINK: _one,
    Kind.NIC_OPTIC: _nic_optic,
    Kind.T0_OPTIC: _t0_optic,
}
