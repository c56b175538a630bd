"""The ports of each NIC side by side, one a plane: a table that shows whether a NIC's planes carry alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.families import families_of
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PlaneTable:
    """ports: (N, P) int32 ids of the ports of NICs with two or more, -1 where one has fewer; owner: (N,) the NICs."""

    ports: npt.NDArray[np.int32]
    owner: npt.NDArray[np.int32]

    def values(self, column: Floats) -> Floats:
        """Return (N, P) values of a column over all ports; NaN where there is no port."""
        if self.ports.size and self.ports.min() >= 0:
            return column[self.ports]
        return np.where(self.ports >= 0, column[np.maximum(self.ports, 0)], np.float32(np.nan))


def plane_table(ports: Entities) -> PlaneTable:
    """Return the table of NICs of which two or more ports are known."""
    owner = np.where(ports.role == NIC_END, ports.owner, -1).astype(np.int64)
    families = families_of(owner)
    size = np.diff(families.start)
    several = np.flatnonzero(size > 1)
    widest = int(size.max(initial=0))
    table = np.full((len(several), widest), -1, dtype=np.int32)
    for k in range(widest):
        has = several[size[several] > k]
        table[np.searchsorted(several, has), k] = families.members[families.start[has] + k]
    return PlaneTable(table, ports.owner[table[:, 0]] if widest else np.empty(0, dtype=np.int32))


def to_the_mean_of_others(values: Floats) -> Floats:
    """Return (N, P) each value over the mean of the others of its row; NaN where no other is known or they are 0."""
    known = ~np.isnan(values)
    total = np.where(known, values, np.float32(0)).sum(axis=1, keepdims=True, dtype=np.float32)
    others = known.sum(axis=1, keepdims=True, dtype=np.float32) - known
    rest = np.maximum(total - np.where(known, values, np.float32(0)), np.float32(0))
    out = np.full(values.shape, np.nan, dtype=np.float32)
    np.divide(values * others, rest, out=out, where=known & (others > 0) & (rest > 0))
    return out


def planes_of_rails(entities: Entities, *roles: int) -> npt.NDArray[np.int64]:
    """Return (G,) for each group of peers the first group of the same role and rail: planes beside each other; -1 none.

    With `roles`, only groups of these.

    Rails are told by NICs: domains in which the same NIC has ports are planes of one rail.
    """
    ends = np.flatnonzero((entities.role == NIC_END) & (entities.owner >= 0) & (entities.domain >= 0))
    beside = np.full(entities.n_groups, -1, dtype=np.int64)
    if not len(ends):
        return beside
    n_domains = int(entities.domain.max()) + 1
    first = np.full(int(entities.owner[ends].max()) + 1, n_domains, dtype=np.int64)
    np.minimum.at(first, entities.owner[ends], entities.domain[ends])
    rail = np.arange(n_domains)
    rail[entities.domain[ends]] = first[entities.owner[ends]]
    some = np.full(entities.n_groups, -1, dtype=np.int64)
    some[entities.group] = np.arange(len(entities))
    there = np.flatnonzero(some >= 0)
    there = there[entities.domain[some[there]] >= 0]
    there = there[np.isin(entities.role[some[there]], roles)] if roles else there
    key = entities.role[some[there]].astype(np.int64) * n_domains + rail[entities.domain[some[there]]]
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    beside[there] = there[index[inverse]]
    return beside
