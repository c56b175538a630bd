"""Blast radius: what the loss of a component, or of any set of directed links, takes from the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.capacity import both_directions, broken_mask, capacity, path_counts
from railkeeper.fabric.components import links_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.names import Component

    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Blast:
    """What is lost. Bandwidths are of the worse direction; shares run from 0 to 1.

    - links: (k,) ids of the links hit in at least one direction
    - nics_hit: (m,) NICs with a port hit; nics_cut: those of them with no port left in one of the directions
    - nic_share: the greatest share of its own bandwidth that any NIC loses
    - nic_gbps: bandwidth lost between NICs and T0s; uplink_gbps: between T0s and T1s
    - t0_uplink_share: the greatest share of its uplink capacity that any T0 loses
    - plane_uplink_share: (n_domains,) share of each plane's T0 uplink capacity that is lost
    - paths_lost, paths_lost_local: the most paths that any ordered NIC pair loses, across T1s and under one T0;
      -1 where the fabric has no such pair
    """

    links: npt.NDArray[np.int64]
    nics_hit: npt.NDArray[np.int64]
    nics_cut: npt.NDArray[np.int64]
    nic_share: float
    nic_gbps: float
    uplink_gbps: float
    t0_uplink_share: float
    plane_uplink_share: npt.NDArray[np.float64]
    paths_lost: int
    paths_lost_local: int


def blast_radius(fabric: Fabric, component: Component) -> Blast:
    """Return what is lost when a component fails wholly, in both directions."""
    return blast_of(fabric, both_directions(links_of(fabric, component)))


def blast_of(fabric: Fabric, broken: npt.ArrayLike) -> Blast:
    """Return what is lost when directed links break.

    The cost grows with the square of the number of differently hit NICs: meant for a few parts, not for thousands.
    """
    mask = broken_mask(fabric, broken)
    left = capacity(fabric, broken)
    nic_lost = fabric.planes * fabric.link_gbps - left.nic.min(axis=1)
    t0_full = fabric.t1_per_plane * fabric.link_gbps
    plane_full = t0_full * fabric.t0_per_plane
    across, local = _paths_lost(fabric, mask, np.asarray(broken, dtype=np.int64))
    return Blast(
        links=np.flatnonzero(mask.any(axis=1)),
        nics_hit=np.flatnonzero(nic_lost > 0),
        nics_cut=np.flatnonzero(left.nic.min(axis=1) == 0),
        nic_share=float(nic_lost.max() / (fabric.planes * fabric.link_gbps)),
        nic_gbps=_lost_gbps(fabric, mask[: fabric.n_ports]),
        uplink_gbps=_lost_gbps(fabric, mask[fabric.n_ports :]),
        t0_uplink_share=float((t0_full - left.t0_uplink.min()) / t0_full),
        plane_uplink_share=(plane_full - left.plane_uplink.min(axis=1)) / plane_full,
        paths_lost=across,
        paths_lost_local=local,
    )


def _lost_gbps(fabric: Fabric, mask: Mask) -> float:
    return float(mask.sum(axis=0).max() * fabric.link_gbps)


def _paths_lost(fabric: Fabric, mask: Mask, broken: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return the most paths that an ordered NIC pair loses, across T1s and under one T0.

    What a pair loses depends only on how each end is hit, so a few NICs of each class of hit stand for all.
    """
    nics = _representatives(fabric, mask)
    src, dst = (a.reshape(-1) for a in np.meshgrid(nics, nics, indexing="ij"))
    pairs = (fabric.nic_rail[src] == fabric.nic_rail[dst]) & (src != dst)
    src, dst = src[pairs], dst[pairs]
    lost = (path_counts(fabric, src, dst) - path_counts(fabric, src, dst, broken)).sum(axis=1)
    local = fabric.nic_t0_index[src] == fabric.nic_t0_index[dst]
    return _most(lost[~local]), _most(lost[local])


def _most(lost: npt.NDArray[np.int64]) -> int:
    return int(lost.max()) if lost.size else -1


def _representatives(fabric: Fabric, mask: Mask) -> npt.NDArray[np.int64]:
    """Return, for each class of equally hit NICs, two under one T0 and one under another, as far as there are."""
    kind = _classes(fabric, mask)
    group = _group_of_nic(fabric)
    order = np.lexsort((group, kind))
    kind, group = kind[order], group[order]
    new_kind = np.diff(kind, prepend=-1) != 0
    new_group = new_kind | (np.diff(group, prepend=-1) != 0)
    first_group = np.cumsum(new_group)
    rank_of_group = first_group - np.maximum.accumulate(np.where(new_kind, first_group, 0))
    start = np.maximum.accumulate(np.where(new_group, np.arange(len(group)), 0))
    rank_in_group = np.arange(len(group)) - start
    wanted = ((rank_of_group == 0) & (rank_in_group < 2)) | ((rank_of_group == 1) & (rank_in_group == 0))
    return np.sort(order[wanted])


def _classes(fabric: Fabric, mask: Mask) -> npt.NDArray[np.int64]:
    """Return (n_nics,) a class for each NIC: equal where rail, ports hit and uplinks hit are equal.

    A T0 group with a port hit is a class of its own: the loss of pairs under one T0 depends on who shares it.
    """
    ports = mask[: fabric.n_ports].reshape(fabric.n_nics, -1)
    port_class = ports @ (1 << np.arange(ports.shape[1], dtype=np.int64))
    group = _group_of_nic(fabric)
    n_groups = fabric.rails * fabric.t0_per_plane
    own = np.where(np.bincount(group, weights=port_class, minlength=n_groups) > 0, np.arange(n_groups), -1)
    rail = np.arange(n_groups) // fabric.t0_per_plane
    _, group_class = np.unique(np.stack([rail, _uplink_class(fabric, mask), own]), axis=1, return_inverse=True)
    return np.asarray((group_class.reshape(-1)[group] << ports.shape[1]) | port_class, dtype=np.int64)


def _uplink_class(fabric: Fabric, mask: Mask) -> npt.NDArray[np.int64]:
    """Return (rails * t0_per_plane,) a number for each T0 group: equal where the same uplinks are hit."""
    uplinks = mask[fabric.n_ports :].reshape(fabric.rails, fabric.planes, fabric.t0_per_plane, -1)
    groups = uplinks.transpose(0, 2, 1, 3).reshape(fabric.rails * fabric.t0_per_plane, -1)
    _, kind = np.unique(np.packbits(groups, axis=1), axis=0, return_inverse=True)
    return np.asarray(kind.reshape(-1), dtype=np.int64)


def _group_of_nic(fabric: Fabric) -> npt.NDArray[np.int64]:
    return fabric.nic_rail.astype(np.int64) * fabric.t0_per_plane + fabric.nic_t0_index
