"""The plans of all agents as one table of paths, without a plan object for each.

The same rows in the same order as `make_plan` of each node put one behind the other, at the speed of array arithmetic:
a fabric of 131,072 NICs takes seconds instead of minutes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths, join_paths
from railkeeper.probe.plan import ProbeBudget, make_plan, t1_share_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int32]

FEW_T0 = 3  # with fewer T0s a plane, peers repeat or share the T0, and how many differ from NIC to NIC
PEERS_AT_MOST = 2


def all_paths(fabric: Fabric, budget: ProbeBudget | None = None) -> Paths:
    """Return the paths that all agents of a fabric probe, ordered by node."""
    b = budget or ProbeBudget()
    if fabric.t0_per_plane < FEW_T0 or b.peers > PEERS_AT_MOST:
        return join_paths([make_plan(fabric, n, b).paths for n in range(fabric.n_nodes)])
    t1 = _t1_shares(fabric, b)
    parts = [_block(fabric, PathKind.T0_BOUNCE, None), _block(fabric, PathKind.T1_BOUNCE, t1)]
    parts.append(_far_block(fabric, t1))
    parts += [_block(fabric, PathKind.ONEWAY, t1, dst=_peer(fabric, i)) for i in range(b.peers)]
    return Paths(*(np.concatenate([p[i] for p in parts], axis=1).reshape(-1) for i in range(len(fields(Paths)))))


def _t1_shares(f: Fabric, b: ProbeBudget) -> Ints:
    """Return (n_nics, share) T1s of each NIC."""
    share = t1_share_of(f, b.agents_per_link)
    first = f.nic_downlink[:, None].astype(np.int64) * share + np.arange(share)
    return np.asarray(first % f.t1_per_plane, dtype=np.int32)


def _columns(f: Fabric, kind: PathKind, t1: Ints, dst: Ints | None, via: tuple[Ints, Ints]) -> list[Ints]:
    """Return the columns of a block, each (n_nics, planes * width): plane by plane, T1s within."""
    width = t1.shape[1]
    shape = (f.n_nics, f.planes * width)
    nic = np.broadcast_to(np.arange(f.n_nics, dtype=np.int32)[:, None], shape)
    plane = np.broadcast_to(np.repeat(np.arange(f.planes, dtype=np.int32), width), shape)
    to = nic if dst is None else np.broadcast_to(dst[:, None], shape)
    tiled = [np.tile(c, (1, f.planes)) for c in (t1, *via)]
    return [np.full(shape, int(kind), dtype=np.int32), nic, to, plane, *tiled]


def _block(f: Fabric, kind: PathKind, t1: Ints | None, dst: Ints | None = None) -> list[Ints]:
    one = np.full((f.n_nics, 1), -1, dtype=np.int32) if t1 is None else t1
    none = np.full_like(one, -1)
    return _columns(f, kind, one, dst, (none, none))


def _far_block(f: Fabric, t1: Ints) -> list[Ints]:
    t0, k, n_t1 = f.nic_t0_index[:, None].astype(np.int64), f.nic_downlink[:, None].astype(np.int64), f.t1_per_plane
    far = (t0 + 1 + (k + t1) % (f.t0_per_plane - 1)) % f.t0_per_plane
    back = (t1 + 1 + far % (n_t1 - 1)) % n_t1 if n_t1 > 1 else t1
    return _columns(f, PathKind.FAR_BOUNCE, t1, None, (far.astype(np.int32), np.asarray(back, dtype=np.int32)))


def _peer(f: Fabric, i: int) -> Ints:
    """Return (n_nics,) the i-th peer of each NIC; all are under other T0s."""
    t0_step, k_step = ((1, 0), (2, 0))[i]
    t0 = (f.nic_t0_index.astype(np.int64) + t0_step) % f.t0_per_plane
    k = (f.nic_downlink.astype(np.int64) + k_step) % f.nics_per_t0
    return np.asarray((t0 * f.nics_per_t0 + k) * f.rails + f.nic_rail, dtype=np.int32)
