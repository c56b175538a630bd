"""Parts that can fail: sets of links, one entry for all components that carry the same links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import Component, Kind, name_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int32]

UP, DOWN, BOTH = 0, 1, 2
DIRECTION_NAMES = ("up", "down", "both")
ALL_PARTS_LINKS = 4096  # up to so many links, all parts are candidates at once; above, those near the evidence


@dataclass(frozen=True, eq=False)
class Part:
    """Links (ascending ids) that fail together, the component that names them, and others with the same links."""

    component: Component
    links: Ints
    aliases: tuple[Component, ...]

    def directed(self, direction: int) -> Ints:
        """Return the directed links of one direction (0 up, 1 down) or of both (2)."""
        if direction == BOTH:
            return np.sort(np.concatenate([2 * self.links, 2 * self.links + 1]))
        return 2 * self.links + np.int32(direction)

    @cached_property
    def link_set(self) -> frozenset[int]:
        return frozenset(self.links.tolist())

    def within(self, other: Part) -> bool:
        """Whether another part has all of these links and more."""
        return self.link_set < other.link_set

    def meets(self, other: Part) -> bool:
        """Whether the two have links in common."""
        return not self.link_set.isdisjoint(other.link_set)

    @property
    def is_switch(self) -> bool:
        return self.component.kind in {Kind.T0, Kind.T1}

    @property
    def of_one_host(self) -> bool:
        """Whether all of its traffic begins or ends in one node, so that the node's own trouble looks alike."""
        return self.component.kind in {Kind.NIC, Kind.NODE, Kind.PORT, Kind.NIC_OPTIC}


class Parts:
    """All parts of a fabric, made when first asked for and then kept."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._of_component: dict[Component, Part] = {}
        self._all: list[Part] | None = None

    def of(self, component: Component) -> Part:
        """Return the part that carries the links of a component."""
        if component not in self._of_component:
            self._group_around(int(links_of(self.fabric, component)[0]))
        return self._of_component[component]

    def around(self, links: npt.NDArray[np.integer]) -> list[Part]:
        """Return each part that has one of the links; all parts where the fabric is small."""
        if self.fabric.n_links <= ALL_PARTS_LINKS:
            if self._all is None:
                self._all = self._collect(range(self.fabric.n_links))
            return self._all
        return self._collect(int(x) for x in links)

    def _collect(self, links: object) -> list[Part]:
        found: dict[Component, Part] = {}
        for link in links:  # type: ignore[attr-defined]
            for c in _components_with(self.fabric, link):
                part = self.of(c)
                found[part.component] = part
        return list(found.values())

    def _group_around(self, link: int) -> None:
        groups: dict[bytes, list[Component]] = {}
        for c in _components_with(self.fabric, link):
            groups.setdefault(links_of(self.fabric, c).tobytes(), []).append(c)
        for members in groups.values():
            part = Part(members[0], links_of(self.fabric, members[0]), tuple(members[1:]))
            for c in members:
                self._of_component.setdefault(c, part)

    def name(self, part: Part) -> str:
        """Return the name of the component that stands for a part."""
        return name_of(self.fabric, part.component)

    def names(self, part: Part) -> tuple[str, ...]:
        """Return all names that a part has, the one that stands for it first."""
        return tuple(name_of(self.fabric, c) for c in (part.component, *part.aliases))


def _components_with(f: Fabric, link: int) -> list[Component]:
    """Return the components that carry a link, in the order in which they lend their name to equal sets."""
    out = [Component(Kind.LINK, link)]
    if link < f.n_ports:
        nic = link // f.planes
        out += [Component(Kind.NIC, nic), Component(Kind.NODE, nic // f.nics_per_node)]
        out += [Component(Kind.PORT, link), Component(Kind.T0, int(f.link_upper[link]))]
        if f.nic_optic_of_port is not None:
            out.append(Component(Kind.NIC_OPTIC, int(f.nic_optic_of_port[link])))
    else:
        out += [Component(Kind.T0, int(f.link_lower[link])), Component(Kind.T1, int(f.link_upper[link]))]
    if f.t0_optic_of_link is not None:
        out.append(Component(Kind.T0_OPTIC, int(f.t0_optic_of_link[link])))
    return out
