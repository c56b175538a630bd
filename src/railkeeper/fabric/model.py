"""The fabric as columns: dense integer ids, NumPy arrays, no object per port.

Ids (all count from 0):

- node n; NIC = node * nics_per_node + index; port = NIC * planes + plane
- domain = rail * planes + plane: one independent Clos network
- T0 = domain * t0_per_plane + i; T1 = domain * t1_per_plane + j
- link: the NIC-T0 link of a port has the port's id; T0-T1 links follow, ordered by T0, then T1
- directed link = 2 * link + (0 up, 1 down); up is away from the NIC
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.spec import FabricSpec

UP, DOWN = 0, 1


@dataclass(frozen=True)
class Fabric:
    """A whole fabric; columns are computed once, on first use, and are read-only."""

    spec: FabricSpec

    # -- counts -------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        return self.spec.fabric.name

    @property
    def planes(self) -> int:
        return self.spec.fabric.planes

    @property
    def rails(self) -> int:
        return self.spec.fabric.rails

    @property
    def n_domains(self) -> int:
        return self.rails * self.planes

    @property
    def t0_per_plane(self) -> int:
        return self.spec.fabric.t0_per_plane

    @property
    def t1_per_plane(self) -> int:
        return self.spec.fabric.t1_per_plane

    @property
    def nics_per_t0(self) -> int:
        return self.spec.fabric.nics_per_t0

    @property
    def nics_per_node(self) -> int:
        return self.spec.fabric.nics_per_node

    @property
    def link_gbps(self) -> float:
        return self.spec.fabric.link_gbps

    @property
    def nics_per_rail(self) -> int:
        return self.t0_per_plane * self.nics_per_t0

    @property
    def n_nics(self) -> int:
        return self.nics_per_rail * self.rails

    @property
    def n_nodes(self) -> int:
        return self.n_nics // self.nics_per_node

    @property
    def n_ports(self) -> int:
        return self.n_nics * self.planes

    @property
    def n_t0(self) -> int:
        return self.n_domains * self.t0_per_plane

    @property
    def n_t1(self) -> int:
        return self.n_domains * self.t1_per_plane

    @property
    def n_fabric_links(self) -> int:
        return self.n_t0 * self.t1_per_plane

    @property
    def n_links(self) -> int:
        return self.n_ports + self.n_fabric_links

    @property
    def paths_per_nic_pair(self) -> int:
        """Paths between two NICs of different T0 groups: planes x T1."""
        return self.planes * self.t1_per_plane

    def counts(self) -> dict[str, int]:
        """Return how much of everything there is."""
        return {
            "nodes": self.n_nodes, "nics": self.n_nics, "nic_ports": self.n_ports, "t0": self.n_t0, "t1": self.n_t1,
            "links_nic_t0": self.n_ports, "links_t0_t1": self.n_fabric_links,
            "paths_per_nic_pair": self.paths_per_nic_pair,
        }  # fmt: skip

    def build(self) -> None:
        """Compute every column now; otherwise each is computed on first use."""
        for name, member in vars(type(self)).items():
            if isinstance(member, cached_property):
                getattr(self, name)

    # -- columns ------------------------------------------------------------------------------
    @cached_property
    def nic_t0_index(self) -> npt.NDArray[np.int32]:
        """(n_nics,) index of the T0 in every plane under which a NIC sits."""
        return _frozen(self._nic_in_rail // np.int32(self.nics_per_t0))

    @cached_property
    def nic_downlink(self) -> npt.NDArray[np.int32]:
        """(n_nics,) number of the T0's host-facing port to which a NIC attaches."""
        return _frozen(self._nic_in_rail % np.int32(self.nics_per_t0))

    @cached_property
    def nic_rail(self) -> npt.NDArray[np.int32]:
        """(n_nics,) rail of a NIC; all 0 with one rail."""
        nics = np.arange(self.n_nics, dtype=np.int32)
        return _frozen(nics % np.int32(self.rails))

    @cached_property
    def link_lower(self) -> npt.NDArray[np.int32]:
        """(n_links,) port id for NIC-T0 links, T0 id for T0-T1 links."""
        ports = np.arange(self.n_ports, dtype=np.int32)
        t0s = np.repeat(np.arange(self.n_t0, dtype=np.int32), self.t1_per_plane)
        return _frozen(np.concatenate([ports, t0s]))

    @cached_property
    def link_upper(self) -> npt.NDArray[np.int32]:
        """(n_links,) T0 id for NIC-T0 links, T1 id for T0-T1 links."""
        nics = np.arange(self.n_nics, dtype=np.int32)
        host = self.t0_of(nics[:, None], np.arange(self.planes, dtype=np.int32)[None, :]).reshape(-1)
        t0s = np.arange(self.n_t0, dtype=np.int32)
        domain = t0s // np.int32(self.t0_per_plane)
        spine = domain[:, None] * np.int32(self.t1_per_plane) + np.arange(self.t1_per_plane, dtype=np.int32)
        return _frozen(np.concatenate([host, spine.reshape(-1)]).astype(np.int32))

    @cached_property
    def nic_optic_of_port(self) -> npt.NDArray[np.int32] | None:
        """(n_ports,) id of the NIC optic of a port; None where the spec has no `[optics]`."""
        if self.spec.optics is None:
            return None
        ports = np.arange(self.n_ports, dtype=np.int32)
        nic, plane = ports // self.planes, ports % self.planes
        width = self.spec.optics.nic_ports_per_optic
        return _frozen((nic * self.optics_per_nic + plane // width).astype(np.int32))

    @cached_property
    def t0_optic_of_link(self) -> npt.NDArray[np.int32] | None:
        """(n_links,) id of the T0-side optic of a link; None where the spec has no `[optics]`."""
        if self.spec.optics is None:
            return None
        width = self.spec.optics.t0_ports_per_optic
        host_t0, fabric_t0 = self.link_upper[: self.n_ports], self.link_lower[self.n_ports :]
        host_pos = np.repeat(self.nic_downlink, self.planes)
        fabric_pos = np.tile(np.arange(self.t1_per_plane, dtype=np.int32), self.n_t0) + self.nics_per_t0
        t0 = np.concatenate([host_t0, fabric_t0])
        pos = np.concatenate([host_pos, fabric_pos])
        return _frozen((t0 * self.optics_per_t0 + pos // width).astype(np.int32))

    @property
    def optics_per_nic(self) -> int:
        """Transceivers a NIC has; 0 where the spec has no `[optics]`."""
        o = self.spec.optics
        return 0 if o is None else math.ceil(self.planes / o.nic_ports_per_optic)

    @property
    def optics_per_t0(self) -> int:
        """Transceivers a T0 has; 0 where the spec has no `[optics]`."""
        o = self.spec.optics
        return 0 if o is None else math.ceil((self.nics_per_t0 + self.t1_per_plane) / o.t0_ports_per_optic)

    # -- arithmetic (scalars or arrays) -----------------------------------------------------------
    def t0_of(self, nic: npt.ArrayLike, plane: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the T0 id that a NIC's port in `plane` attaches to."""
        n = np.asarray(nic)
        domain = self.nic_rail[n] * self.planes + np.asarray(plane)
        return np.asarray(domain * self.t0_per_plane + self.nic_t0_index[n], dtype=np.int32)

    def t1_of(self, nic: npt.ArrayLike, plane: npt.ArrayLike, j: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the id of the `j`-th T1 of the plane (and rail) of a NIC's port."""
        domain = self.nic_rail[np.asarray(nic)] * self.planes + np.asarray(plane)
        return np.asarray(domain * self.t1_per_plane + np.asarray(j), dtype=np.int32)

    def port_link(self, nic: npt.ArrayLike, plane: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the NIC-T0 link of a NIC's port: the port's own id."""
        return np.asarray(np.asarray(nic) * self.planes + np.asarray(plane), dtype=np.int32)

    def fabric_link(self, t0: npt.ArrayLike, j: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the link between a T0 (id) and the `j`-th T1 of its plane."""
        return np.asarray(self.n_ports + np.asarray(t0) * self.t1_per_plane + np.asarray(j), dtype=np.int32)

    def node_of(self, nic: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the node of a NIC."""
        return np.asarray(np.asarray(nic) // self.nics_per_node, dtype=np.int32)

    def domain_of_t0(self, t0: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return rail * planes + plane of a T0."""
        return np.asarray(np.asarray(t0) // self.t0_per_plane, dtype=np.int32)

    @cached_property
    def _nic_in_rail(self) -> npt.NDArray[np.int32]:
        nics = np.arange(self.n_nics, dtype=np.int32)
        return nics // np.int32(self.rails) if self.rails > 1 else nics


def _frozen(a: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    a.flags.writeable = False
    return a
