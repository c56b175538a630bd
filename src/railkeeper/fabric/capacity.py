"""Capacity and path counts of a fabric with some directed links broken or denied.

`broken` is everywhere an array of directed link ids (2 * link + direction) in any order; see `broken_mask`.
A link carries `link_gbps` in each direction, so every capacity comes as a pair: 0 up (away from the NIC), 1 down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.model import DOWN, UP

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Mask = npt.NDArray[np.bool_]

NOTHING: tuple[int, ...] = ()
_PAIRS_AT_ONCE = 1 << 16  # bounds the working memory of path_counts to some tens of megabytes


@dataclass(frozen=True)
class Capacity:
    """What is left, in Gb/s; the last axis is (up, down).

    - nic: (n_nics, 2) sum over a NIC's ports
    - t0_host, t0_uplink: (n_t0, 2) host-facing links and T0-T1 links of each T0
    - group_uplink: (rails, t0_per_plane, 2) T0-T1 links of a T0 group, over its planes
    - plane_host, plane_uplink: (n_domains, 2) the same sums over each plane (of each rail)
    """

    nic: npt.NDArray[np.float64]
    t0_host: npt.NDArray[np.float64]
    t0_uplink: npt.NDArray[np.float64]
    group_uplink: npt.NDArray[np.float64]
    plane_host: npt.NDArray[np.float64]
    plane_uplink: npt.NDArray[np.float64]


def broken_mask(fabric: Fabric, broken: npt.ArrayLike = NOTHING) -> Mask:
    """Return (n_links, 2) whether a link is broken, by direction.

    Raises ValueError for an id that is no directed link of the fabric.
    """
    ids = np.asarray(broken, dtype=np.int64).reshape(-1)
    if ids.size and not (ids.min() >= 0 and ids.max() < 2 * fabric.n_links):
        raise ValueError(f"directed link ids run from 0 to {2 * fabric.n_links - 1}")
    mask = np.zeros(2 * fabric.n_links, dtype=np.bool_)
    mask[ids] = True
    return np.asarray(mask.reshape(fabric.n_links, 2))


def both_directions(links: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the directed ids of links, both ways."""
    ids = np.asarray(links, dtype=np.int64).reshape(-1, 1)
    return np.asarray((2 * ids + np.array([UP, DOWN])).reshape(-1), dtype=np.int64)


def capacity(fabric: Fabric, broken: npt.ArrayLike = NOTHING) -> Capacity:
    """Return the capacity that `broken` links leave everywhere."""
    alive = ~broken_mask(fabric, broken)
    port = alive[: fabric.n_ports].reshape(fabric.n_nics, fabric.planes, 2)
    uplinks = alive[fabric.n_ports :].reshape(fabric.n_t0, fabric.t1_per_plane, 2).sum(axis=1)
    hosts = _hosts_by_t0(fabric, alive[: fabric.n_ports])
    by_plane = (fabric.n_domains, fabric.t0_per_plane, 2)
    by_group = (fabric.rails, fabric.planes, fabric.t0_per_plane, 2)
    g = np.float64(fabric.link_gbps)
    return Capacity(
        nic=port.sum(axis=1) * g,
        t0_host=hosts * g,
        t0_uplink=uplinks * g,
        group_uplink=uplinks.reshape(by_group).sum(axis=1) * g,
        plane_host=hosts.reshape(by_plane).sum(axis=1) * g,
        plane_uplink=uplinks.reshape(by_plane).sum(axis=1) * g,
    )


def _hosts_by_t0(fabric: Fabric, port_alive: Mask) -> npt.NDArray[np.int64]:
    t0 = fabric.link_upper[: fabric.n_ports]
    ways = [np.bincount(t0, weights=port_alive[:, way], minlength=fabric.n_t0) for way in (UP, DOWN)]
    return np.stack(ways, axis=1).astype(np.int64)


def path_counts(
    fabric: Fabric, src: npt.ArrayLike, dst: npt.ArrayLike, broken: npt.ArrayLike = NOTHING
) -> npt.NDArray[np.int32]:
    """Return (n, planes) usable paths from NICs `src` to NICs `dst`, both (n,), in each plane.

    NICs of different T0s have a path for each T1 whose up-link at the source's T0 and down-link at the destination's
    T0 are whole; under one T0 there is one path. There is none from a NIC to itself, nor between rails.
    """
    mask = broken_mask(fabric, broken)
    sources, targets = (np.atleast_1d(a) for a in np.broadcast_arrays(src, dst))
    t1s = _alive_words(fabric, mask)
    chunks = [slice(i, i + _PAIRS_AT_ONCE) for i in range(0, len(sources), _PAIRS_AT_ONCE)]
    parts = [_count(fabric, mask, t1s, sources[c], targets[c]) for c in chunks]
    return np.concatenate(parts) if parts else np.zeros((0, fabric.planes), dtype=np.int32)


def _alive_words(fabric: Fabric, mask: Mask) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return, for up and for down, (n_t0, words) bit sets of the T1s whose link is whole."""
    alive = ~mask[fabric.n_ports :].reshape(fabric.n_t0, fabric.t1_per_plane, 2)
    padded = np.zeros((fabric.n_t0, -(-fabric.t1_per_plane // 64) * 64, 2), dtype=np.bool_)
    padded[:, : fabric.t1_per_plane] = alive
    up, down = (np.packbits(padded[:, :, way], axis=1).view(np.uint64) for way in (UP, DOWN))
    return up, down


def _count(
    f: Fabric,
    mask: Mask,
    t1s: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
    src: npt.NDArray[np.integer],
    dst: npt.NDArray[np.integer],
) -> npt.NDArray[np.int32]:
    planes = np.arange(f.planes)
    s, d = src[:, None], dst[:, None]
    up, down = t1s
    common = up[f.t0_of(s, planes)] & down[f.t0_of(d, planes)]
    across = np.bitwise_count(common).sum(axis=2, dtype=np.int32)
    local = (f.nic_t0_index[s] == f.nic_t0_index[d]) | np.zeros_like(across, dtype=np.bool_)
    ends = ~mask[f.port_link(s, planes), UP] & ~mask[f.port_link(d, planes), DOWN]
    reachable = ends & (f.nic_rail[s] == f.nic_rail[d]) & (s != d)
    return np.where(reachable, np.where(local, 1, across), 0).astype(np.int32)


def t0_pair_paths(fabric: Fabric, domain: int, broken: npt.ArrayLike = NOTHING) -> npt.NDArray[np.int32]:
    """Return (t0_per_plane, t0_per_plane) usable T1s from one T0 of a plane to another, by index in the plane.

    The diagonal holds the T1s by which a T0 can reach itself, as bounced probes do.
    """
    mask = broken_mask(fabric, broken)[fabric.n_ports :].reshape(fabric.n_domains, fabric.t0_per_plane, -1, 2)
    alive = (~mask[domain]).astype(np.float32)  # float for BLAS; exact, since counts stay far below 2**24
    return np.asarray(np.rint(alive[:, :, UP] @ alive[:, :, DOWN].T), dtype=np.int32)


def least_paths(fabric: Fabric, broken: npt.ArrayLike = NOTHING) -> npt.NDArray[np.int32]:
    """Return (n_domains,) the fewest T1s that any two different T0s of each plane still share; -1 with one T0."""
    if fabric.t0_per_plane == 1:
        return np.full(fabric.n_domains, -1, dtype=np.int32)
    other = ~np.eye(fabric.t0_per_plane, dtype=np.bool_)
    return np.array([t0_pair_paths(fabric, d, broken)[other].min() for d in range(fabric.n_domains)], dtype=np.int32)
