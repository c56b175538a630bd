"""Families: ports that carry equal paths, and so should look alike more than all ports of a tier do.

Uplinks of a T0 share its traffic to all other T0s; the ports of all T1s down to one T0 share what comes to it. Ports of
one T1 are no such family: their load is that of the jobs below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.entities import NIC_END, T0_UPLINK, T1_DOWN

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

NO_FAMILY = -1


@dataclass(frozen=True)
class Families:
    """Members by family: those of family f are `members[start[f]:start[f + 1]]`.

    - of: (n,) int32 family of each entity, NO_FAMILY for those that have none
    - start: (F + 1,) int64; members: (m,) int32 ids, ascending in each family
    """

    of: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    members: npt.NDArray[np.int32]

    def siblings(self, entity: int) -> npt.NDArray[np.int32]:
        """Return all members of an entity's family, itself included; none where it has no family."""
        family = int(self.of[entity])
        return self.members[:0] if family == NO_FAMILY else self.in_family(family)

    def in_family(self, family: int) -> npt.NDArray[np.int32]:
        """Return the members of a family."""
        return self.members[self.start[family] : self.start[family + 1]]


def families_of(keys: npt.NDArray[np.int64]) -> Families:
    """Return the families of entities with equal keys; a negative key is no family."""
    _, of = np.unique(keys, return_inverse=True)
    of = of - np.unique(keys[keys < 0]).size
    of[of < 0] = NO_FAMILY
    members = np.argsort(of, kind="stable")[np.count_nonzero(of < 0) :]
    count = np.bincount(of[members]) if len(members) else np.zeros(0, dtype=np.int64)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Families(of=of.astype(np.int32), start=start, members=members.astype(np.int32))


def equal_paths(ports: Entities) -> Families:
    """Return the families of equal paths among the ports between T0s and T1s."""
    keys = np.full(len(ports), -1, dtype=np.int64)
    up, down = np.flatnonzero(ports.role == T0_UPLINK), np.flatnonzero(ports.role == T1_DOWN)
    keys[up] = ports.owner[up]
    other = ports.other[down]
    below = np.where(other >= 0, ports.owner[np.maximum(other, 0)], -1)
    above_all = int(ports.owner.max(initial=0)) + 1
    keys[down] = np.where(below >= 0, above_all + below, -1)
    return families_of(keys)


def by_switch(ports: Entities) -> Families:
    """Return the ports of each switch as families."""
    return families_of(np.where(ports.role == NIC_END, -1, ports.owner).astype(np.int64))


def mean_of_others(
    families: Families, ids: npt.NDArray[np.int32], values: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return for each of the ids the mean over its family without itself, and over how many that is.

    Values that are NaN do not count; the mean is NaN where nobody else has one.
    """
    wanted = np.unique(families.of[ids])
    wanted = wanted[wanted != NO_FAMILY]
    total = np.zeros(len(families.start), dtype=np.float64)
    count = np.zeros(len(families.start), dtype=np.int64)
    members = gather(families, wanted)
    which = families.of[members]
    seen = values[members]
    good = ~np.isnan(seen)
    total += np.bincount(which[good], weights=seen[good], minlength=len(total))
    count += np.bincount(which[good], minlength=len(count))
    family, own = families.of[ids], values[ids].astype(np.float64)
    there = ~np.isnan(own)
    left = np.where(family == NO_FAMILY, 0, count[family] - there)
    rest = total[family] - np.where(there, own, 0.0)
    return np.where(left > 0, rest / np.maximum(left, 1), np.nan), left


def gather(families: Families, wanted: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the members of the wanted families, one family after the other."""
    size = families.start[wanted + 1] - families.start[wanted]
    begin = np.repeat(families.start[wanted] - np.concatenate([[0], np.cumsum(size)[:-1]]), size)
    return families.members[begin + np.arange(int(size.sum()))] if len(wanted) else families.members[:0]
