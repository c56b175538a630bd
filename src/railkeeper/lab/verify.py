"""Compares a lab with its plan, by what the kernel says: every address, neighbour, route, flavour and carrier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from railkeeper.fabric import address
from railkeeper.lab import names, netns, readback, rtnl
from railkeeper.lab.readback import RouteSeen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.plan import LabPlan, Route, Space

_PAUSE_S = 0.005


def verify(plan: LabPlan, *, patience_s: float = 0.0) -> list[str]:
    """Return how the namespaces differ from the plan; empty when they don't, or no longer do within `patience_s`."""
    deadline = time.monotonic() + patience_s
    problems = verify_spaces(plan, range(plan.n_spaces))
    while problems and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        problems = verify_spaces(plan, range(plan.n_spaces))
    return problems


def verify_spaces(plan: LabPlan, spaces: Iterable[int]) -> list[str]:
    """Return how these namespaces differ from the plan now."""
    out: list[str] = []
    with netns.own_restored():
        for i in spaces:
            space = plan.space(i)
            netns.enter(space.name)
            with rtnl.RouteSocket() as s:
                out += [f"{space.name}: {problem}" for problem in verify_here(plan.fabric, space, s)]
    return out


def verify_here(fabric: Fabric, space: Space, socket: rtnl.RouteSocket) -> list[str]:
    """Do so for the one namespace in which the socket was opened."""
    out = _links(fabric, space, socket)
    have = set(readback.read_routes(socket))
    out += [f"route {_text(r)} is not as planned" for r in space.routes if _seen(fabric, r) not in have]
    neighbours = readback.read_neighbours(socket)
    for end in space.ends:
        want = names.index_of_end(fabric, end), names.gateway_of_end(end ^ 1), names.mac_of_end(end ^ 1)
        if want not in neighbours:
            out.append(f"{names.interface_of_end(fabric, end)} has lost its static neighbour")
    return out + _addresses(fabric, space, socket, {r.prefix for r in have if r.table == readback.LOCAL_TABLE})


def _addresses(fabric: Fabric, space: Space, socket: rtnl.RouteSocket, heard: set[bytes]) -> list[str]:
    """Check that addresses are there and listened to: the kernel gets to the second a moment after the first."""
    have = readback.read_addresses(socket) if space.addresses else set()
    return [
        f"{names.interface_of_end(fabric, end)} does not have its address {address.text(own)}"
        for end, own in space.addresses
        if (names.index_of_end(fabric, end), own) not in have or own not in heard
    ]


def _links(fabric: Fabric, space: Space, socket: rtnl.RouteSocket) -> list[str]:
    links = readback.read_links(socket)
    out = []
    for end in space.ends:
        name, seen = names.interface_of_end(fabric, end), links.get(names.index_of_end(fabric, end))
        if seen is None or seen.name != name or seen.mac != names.mac_of_end(end):
            out.append(f"interface {name} is not there")
        elif not (seen.up and seen.running):
            out.append(f"interface {name} is down")
    if space.switch and not (names.SID_INDEX in links and links[names.SID_INDEX].up):
        out.append(f"{names.SID_LINK}, which holds the uSIDs, is down")
    return out


def _seen(fabric: Fabric, route: Route) -> RouteSeen:
    if route.end < 0:
        return RouteSeen(route.prefix, route.bits, names.SID_INDEX, b"", route.table, next_csid=True)
    index, via = names.index_of_end(fabric, route.end), names.gateway_of_end(route.end ^ 1)
    return RouteSeen(route.prefix, route.bits, index, via, route.table, next_csid=False)


def _text(route: Route) -> str:
    return f"{address.text(route.prefix)}/{route.bits}"
