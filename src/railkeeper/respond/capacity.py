"""What a set of denied directed links leaves: capacity of planes and NICs, and paths of NIC pairs.

Arrays are laid out as (rail, plane, T0, ...), so that every question is a sum over one axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Bools = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Usable:
    """Which directed links may be used.

    - host_up, host_down: (rails, planes, T0, host ports of a T0)
    - up, down: (rails, planes, T0, T1)
    """

    host_up: Bools
    host_down: Bools
    up: Bools
    down: Bools


def usable(fabric: Fabric, denied: Iterable[int]) -> Usable:
    """Return what is left when the directed links (2 * link + direction) in `denied` are not used."""
    free = np.ones(2 * fabric.n_links, dtype=np.bool_)
    free[np.fromiter(denied, dtype=np.int64)] = False
    halves = (free[0::2], free[1::2])
    host = [_host_layout(fabric, half[: fabric.n_ports]) for half in halves]
    spine = [_spine_layout(fabric, half[fabric.n_ports :]) for half in halves]
    return Usable(host_up=host[0], host_down=host[1], up=spine[0], down=spine[1])


def _host_layout(f: Fabric, ports: Bools) -> Bools:
    # NIC ids run over T0 index, position under the T0, rail: the same formula with one rail and with several.
    return ports.reshape(f.t0_per_plane, f.nics_per_t0, f.rails, f.planes).transpose(2, 3, 0, 1)


def _spine_layout(f: Fabric, links: Bools) -> Bools:
    return links.reshape(f.rails, f.planes, f.t0_per_plane, f.t1_per_plane)


def plane_capacity(fabric: Fabric, left: Usable) -> Floats:
    """Return (n_domains,) the share of each plane's capacity that is left, 0 to 1.

    A T0 carries no more than the fewer of its host links and its uplinks, sending and receiving.
    """
    per_t0: Floats = np.minimum(_t0_carries(left.host_up, left.up), _t0_carries(left.host_down, left.down))
    return np.asarray(per_t0.mean(axis=2).reshape(-1) / _t0_full(fabric), dtype=np.float64)


def _t0_carries(host: Bools, spine: Bools) -> Floats:
    hosts = host.sum(axis=3, dtype=np.float64)
    # Under a single T0 no packet needs an uplink.
    return np.asarray(hosts if host.shape[2] == 1 else np.minimum(hosts, spine.sum(axis=3, dtype=np.float64)))


def _t0_full(f: Fabric) -> int:
    return f.nics_per_t0 if f.t0_per_plane == 1 else min(f.nics_per_t0, f.t1_per_plane)


def nic_capacity(fabric: Fabric, left: Usable) -> Floats:
    """Return (n_nics,) the share of each NIC's capacity that is left over all its planes, 0 to 1."""
    uplinks = np.minimum(left.up.mean(axis=3), left.down.mean(axis=3))
    if fabric.t0_per_plane == 1:
        uplinks = np.ones_like(uplinks)
    share = (left.host_up & left.host_down) * uplinks[..., None]
    return np.ascontiguousarray(share.mean(axis=1).transpose(1, 2, 0)).reshape(-1)


def path_share(fabric: Fabric, left: Usable) -> Floats:
    """Return (n_domains,) the share of the paths between NICs of different T0s that is left in each plane."""
    sends = left.host_up.sum(axis=3, dtype=np.float64)[..., None] * left.up
    takes = left.host_down.sum(axis=3, dtype=np.float64)[..., None] * left.down
    count = (sends.sum(axis=2) * takes.sum(axis=2) - (sends * takes).sum(axis=2)).sum(axis=2).reshape(-1)
    t0, k = fabric.t0_per_plane, fabric.nics_per_t0
    full = t0 * (t0 - 1) * k * k * fabric.t1_per_plane
    return np.asarray(count / full if full else np.ones_like(count))


class WorstPair(NamedTuple):
    """The ordered NIC pair that is left with the fewest planes; -1 where there is no pair."""

    planes: int
    src: int
    dst: int


def worst_pair(fabric: Fabric, left: Usable, min_paths: int) -> WorstPair:
    """Return the pair with the fewest planes in which it has at least `min_paths` paths.

    A pair under one T0 has one path a plane, and needs no more.
    """
    rails = [_worst_in_rail(fabric, left, rail, min_paths) for rail in range(fabric.rails)]
    return min(rails)


def _worst_in_rail(f: Fabric, left: Usable, rail: int, min_paths: int) -> WorstPair:
    wide = _wide_planes(left, rail, min_paths)
    keys = _nic_classes(left, rail)
    classes, first, count = np.unique(keys, return_index=True, return_counts=True)
    t0, sends, takes = classes >> 16, (classes >> 8) & 0xFF, classes & 0xFF
    planes = np.bitwise_count(sends[:, None] & takes[None, :] & wide[t0[:, None], t0[None, :]]).astype(np.int64)
    # A class of one NIC is no pair with itself.
    alone = np.flatnonzero(count == 1)
    planes[alone, alone] = f.planes + 1
    src, dst = divmod(int(planes.argmin()), len(classes))
    fewest = int(planes[src, dst])
    if fewest > f.planes:
        return WorstPair(f.planes, -1, -1)
    a, b = int(first[src]), int(first[dst] if src != dst else np.flatnonzero(keys == classes[dst])[1])
    return WorstPair(fewest, a * f.rails + rail, b * f.rails + rail)


def _wide_planes(left: Usable, rail: int, min_paths: int) -> npt.NDArray[np.uint8]:
    """Return (T0, T0) bit masks of the planes in which two T0s have enough paths."""
    up, down = left.up[rail].astype(np.float32), left.down[rail].astype(np.float32)
    enough = np.matmul(up, down.transpose(0, 2, 1)) >= min_paths
    diagonal = np.arange(enough.shape[1])
    enough[:, diagonal, diagonal] = True
    return _masks(enough, axis=0)


def _masks(flags: Bools, axis: int) -> npt.NDArray[np.uint8]:
    return np.asarray(np.packbits(flags, axis=axis, bitorder="little").take(0, axis=axis))


def _nic_classes(left: Usable, rail: int) -> npt.NDArray[np.int64]:
    """Return a number for each NIC of a rail: its T0, the planes it can send in, the planes it can take from.

    NICs of one number can't be told apart.
    """
    sends, takes = (_masks(a[rail], axis=0).astype(np.int64) for a in (left.host_up, left.host_down))
    t0 = np.arange(sends.shape[0], dtype=np.int64)[:, None]
    return ((t0 << 16) | (sends << 8) | takes).reshape(-1)
