"""All parts of a fabric as numbers, and which parts each link belongs to; no object per part.

A part is a set of links that fail together. Its number counts through links, T0s, T1s, NICs, nodes, NIC optics and T0
optics. Parts that hold the same links have one number: that of the first kind in this order.

An *entity* is what is watched: each directed link (number 2 * link + direction), and each wider part (number
`n_links` + part).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import Component, Kind
from railkeeper.health.fleet.index_kernels import links_by_part

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int32]

ORDER = (Kind.LINK, Kind.T0, Kind.T1, Kind.NIC, Kind.NODE, Kind.NIC_OPTIC, Kind.T0_OPTIC)
OF_ONE_HOST = frozenset({Kind.NIC, Kind.NODE, Kind.NIC_OPTIC})
NONE = -1


@dataclass(frozen=True)
class PartSpace:
    """The parts of a fabric by number."""

    fabric: Fabric

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many parts of each kind in `ORDER`."""
        f = self.fabric
        return (
            f.n_links, f.n_t0, f.n_t1, f.n_nics, f.n_nodes, f.n_nics * f.optics_per_nic, f.n_t0 * f.optics_per_t0,
        )  # fmt: skip

    @cached_property
    def first(self) -> tuple[int, ...]:
        """Number of the first part of each kind, and the number of all at the end."""
        return tuple(int(x) for x in np.concatenate([[0], np.cumsum(self.counts)]))

    @property
    def n_parts(self) -> int:
        return self.first[-1]

    @property
    def n_entities(self) -> int:
        """Directed links, and all parts but links."""
        return self.fabric.n_links + self.n_parts

    def component(self, part: int) -> Component:
        """Return the component that lends a part its name."""
        at = int(np.searchsorted(self.first, part, side="right")) - 1
        return Component(ORDER[at], part - self.first[at])

    def number(self, component: Component) -> int:
        """Return the part that holds the links of a component, -1 for a part that was left out as a repeat."""
        if component.kind is Kind.PORT:
            return component.id
        links = links_of(self.fabric, component)
        if len(links) == 1:
            return int(links[0])
        wanted = set(links.tolist())
        for part in self.parts_of_link[links[0]]:
            if part >= 0 and set(self.links(int(part)).tolist()) == wanted:
                return int(part)
        return NONE

    def links(self, part: int) -> Ints:
        """Return the links of a part, ascending."""
        start, link = self._links
        return link[start[part] : start[part + 1]]

    def links_of_all(self, parts: npt.NDArray[np.integer]) -> tuple[Ints, npt.NDArray[np.int64]]:
        """Return the links of several parts, one part behind the other, and (parts + 1,) where each part's begin."""
        start, link = self._links
        first, count = start[parts].astype(np.int64), self.size(parts)
        bounds = np.concatenate([[0], np.cumsum(count)])
        return link[np.repeat(first - bounds[:-1], count) + np.arange(bounds[-1])], bounds

    @cached_property
    def _links(self) -> tuple[Ints, Ints]:
        start = np.zeros(self.n_parts + 1, dtype=np.int32)
        link = np.empty(int((self.parts_of_link >= 0).sum()), dtype=np.int32)
        links_by_part(self.parts_of_link, start, link)
        return start, link

    def kind(self, parts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Return the place in `ORDER` of each part."""
        return np.asarray(np.searchsorted(self.first, parts, side="right") - 1)

    def size(self, parts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Return how many links each part has."""
        start = self._links[0]
        return np.asarray(start[np.asarray(parts) + 1].astype(np.int64) - start[parts])

    @cached_property
    def parts_of_link(self) -> Ints:
        """(n_links, 6) parts that hold each link, the link itself first; -1 where there is no such part."""
        f = self.fabric
        out = np.full((f.n_links, 6), NONE, dtype=np.int32)
        link = np.arange(f.n_links, dtype=np.int32)
        host, up = slice(0, f.n_ports), slice(f.n_ports, f.n_links)
        out[:, 0] = link
        out[host, 1] = self.first[1] + f.link_upper[host]
        out[up, 1], out[up, 2] = self.first[1] + f.link_lower[up], self.first[2] + f.link_upper[up]
        if f.t0_per_plane == 1:
            out[up, 2] = NONE
        nic = link[host] // f.planes
        if f.planes > 1:
            out[host, 2] = self.first[3] + nic
        if f.nics_per_node > 1:
            out[host, 3] = self.first[4] + nic // f.nics_per_node
        self._add_optics(out)
        return out

    def _add_optics(self, out: Ints) -> None:
        """Enter optics that hold more than one link, and not just what a NIC or a T0 holds."""
        f = self.fabric
        for column, (base, optic) in {4: (5, f.nic_optic_of_port), 5: (6, f.t0_optic_of_link)}.items():
            if optic is None or (column == 4 and f.optics_per_nic == 1) or (column == 5 and f.optics_per_t0 == 1):
                continue
            width = np.bincount(optic, minlength=self.counts[base])
            real = width[optic] > 1
            out[: len(optic), column][real] = self.first[base] + optic[real]


def entity_of(space: PartSpace, parts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the entity of each part that is wider than a link."""
    return np.asarray(parts, dtype=np.int64) + space.fabric.n_links
