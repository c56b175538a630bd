"""Path arithmetic: from (kind, source, destination, plane, T1) to outer address and to the links crossed.

Paths are computed, never stored. A path row is five or six small integers, columns of equal length:

========== ================================================= ============================== ==================
kind       route                                             columns used                   outer uSIDs
========== ================================================= ============================== ==================
T0_BOUNCE  NIC, T0, NIC                                      src, plane                     T0 self
T1_BOUNCE  NIC, T0, T1, T0, NIC                              src, plane, t1                 T0 T1 T0 self
FAR_BOUNCE NIC, T0, T1, far T0, return T1, T0, NIC           src, plane, t1, far, back      T0 T1 T0' T1' T0 self
ONEWAY     NIC, T0, T1, T0', NIC' (T0 once under the same)   src, dst, plane, t1            T0 T1 T0' dst
========== ================================================= ============================== ==================

`t1`, `back` are indices within the plane, `far` is the index of a T0 within the plane; -1 where unused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric import address

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int32]

MAX_LINKS = 6


class PathKind(enum.IntEnum):
    """How a path runs."""

    T0_BOUNCE = 0
    T1_BOUNCE = 1
    FAR_BOUNCE = 2
    ONEWAY = 3


@dataclass(frozen=True)
class Paths:
    """Columns of paths, each (n,) int32; see the module's table."""

    kind: Ints
    src: Ints
    dst: Ints
    plane: Ints
    t1: Ints
    far: Ints
    back: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Paths:
        """Return the chosen rows."""
        return Paths(*(getattr(self, f.name)[rows] for f in fields(self)))

    def key(self) -> npt.NDArray[np.int64]:
        """Return (n, 7) integers that tell paths apart."""
        return np.stack([getattr(self, f.name) for f in fields(self)], axis=1).astype(np.int64)


def make_paths(
    kind: npt.ArrayLike,
    src: npt.ArrayLike,
    plane: npt.ArrayLike,
    *,
    dst: npt.ArrayLike | None = None,
    t1: npt.ArrayLike = -1,
    far: npt.ArrayLike = -1,
    back: npt.ArrayLike = -1,
) -> Paths:
    """Broadcast columns to rows; `dst` defaults to the source itself."""
    columns = np.broadcast_arrays(kind, src, src if dst is None else dst, plane, t1, far, back)
    return Paths(*(np.atleast_1d(np.array(c, dtype=np.int32)) for c in columns))


def join_paths(parts: list[Paths]) -> Paths:
    """Put rows of several tables one behind the other."""
    return Paths(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Paths)))


def same_t0(fabric: Fabric, paths: Paths) -> npt.NDArray[np.bool_]:
    """Return which one-way rows stay under one T0."""
    return np.asarray(fabric.nic_t0_index[paths.src] == fabric.nic_t0_index[paths.dst])


def links_crossed(fabric: Fabric, paths: Paths) -> Ints:
    """Return (n, 6) directed links in the order of travel, -1 as padding."""
    out = np.full((len(paths), MAX_LINKS), -1, dtype=np.int32)
    out[:, 0] = 2 * fabric.port_link(paths.src, paths.plane)
    t0 = fabric.t0_of(paths.src, paths.plane)
    home = 2 * fabric.port_link(paths.dst, paths.plane) + 1
    for kind, fill in _FILLERS.items():
        rows = np.flatnonzero(paths.kind == kind)
        if len(rows):
            out[rows] = fill(fabric, paths.take(rows), t0[rows], home[rows], out[rows])
    return out


def _fill_t0(_f: Fabric, _p: Paths, _t0: Ints, home: Ints, out: Ints) -> Ints:
    out[:, 1] = home
    return out


def _fill_t1(f: Fabric, p: Paths, t0: Ints, home: Ints, out: Ints) -> Ints:
    link = f.fabric_link(t0, p.t1)
    out[:, 1], out[:, 2], out[:, 3] = 2 * link, 2 * link + 1, home
    return out


def _fill_far(f: Fabric, p: Paths, t0: Ints, home: Ints, out: Ints) -> Ints:
    far = t0 - t0 % f.t0_per_plane + p.far
    out[:, 1] = 2 * f.fabric_link(t0, p.t1)
    out[:, 2] = 2 * f.fabric_link(far, p.t1) + 1
    out[:, 3] = 2 * f.fabric_link(far, p.back)
    out[:, 4] = 2 * f.fabric_link(t0, p.back) + 1
    out[:, 5] = home
    return out


def _fill_oneway(f: Fabric, p: Paths, t0: Ints, home: Ints, out: Ints) -> Ints:
    local = same_t0(f, p)
    far = f.t0_of(p.dst, p.plane)
    out[:, 1] = np.where(local, home, 2 * f.fabric_link(t0, p.t1))
    out[:, 2] = np.where(local, -1, 2 * f.fabric_link(far, p.t1) + 1)
    out[:, 3] = np.where(local, -1, home)
    return out


_FILLERS = {
    PathKind.T0_BOUNCE: _fill_t0,
    PathKind.T1_BOUNCE: _fill_t1,
    PathKind.FAR_BOUNCE: _fill_far,
    PathKind.ONEWAY: _fill_oneway,
}


def outer_addresses(fabric: Fabric, paths: Paths) -> npt.NDArray[np.uint8]:
    """Return (n, 16) outer destination addresses that steer packets along the paths."""
    t0 = address.t0_usid(fabric, fabric.t0_of(paths.src, paths.plane))
    t1 = address.t1_usid(fabric, paths.t1)
    far = address.T0_BASE + paths.far
    back = address.t1_usid(fabric, paths.back)
    dst_t0 = address.t0_usid(fabric, fabric.t0_of(paths.dst, paths.plane))
    dst = address.nic_usid(fabric, paths.dst)
    usids = np.zeros((len(paths), address.MAX_USIDS), dtype=np.int32)
    routes: dict[PathKind, list[Ints]] = {
        PathKind.T0_BOUNCE: [t0, dst],
        PathKind.T1_BOUNCE: [t0, t1, t0, dst],
        PathKind.FAR_BOUNCE: [t0, t1, far, back, t0, dst],
        PathKind.ONEWAY: [t0, t1, dst_t0, dst],
    }
    for kind, route in routes.items():
        rows = paths.kind == kind
        for i, column in enumerate(route):
            usids[rows, i] = column[rows]
    local = (paths.kind == PathKind.ONEWAY) & same_t0(fabric, paths)
    usids[local] = 0
    usids[local, 0], usids[local, 1] = t0[local], dst[local]
    domain = fabric.nic_rail[paths.src] * fabric.planes + paths.plane
    return address.encode_rows(domain, usids)
