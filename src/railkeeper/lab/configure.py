"""The netlink requests that make a namespace what its plan says, whole or one link at a time.

A link that was set down has lost its routes, neighbours and perhaps its address: `restore_end` gives all of it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.lab import names, rtnl

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.plan import Route, Space


def configure(fabric: Fabric, space: Space, sid_kind: str) -> list[bytes]:
    """Return all requests for a namespace whose links exist already."""
    out = [rtnl.new_link(sid_kind, names.SID_LINK, names.SID_INDEX)] if space.switch else []
    if space.switch:
        # What no route wants ends here, without an ICMP error that could reach a NIC of the same local uSID.
        out.append(rtnl.new_route(bytes(16), 0, kind=rtnl.BLACKHOLE, metric=4096))
    out += [rtnl.set_link(names.index_of_end(fabric, end), up=True) for end in space.ends if not end % 2]
    out += [address_request(fabric, end, own) for end, own in space.addresses]
    out += [neighbour_request(fabric, end) for end in space.ends]
    out += [rtnl.new_rule_oif(names.interface_of_end(fabric, r.end), r.table, r.table) for r in space.rules]
    return out + [route_request(fabric, r) for r in space.routes]


def restore_end(fabric: Fabric, space: Space, end: int) -> list[bytes]:
    """Return the requests that give one link of a namespace back what it loses when it is set down."""
    out = [address_request(fabric, e, own) for e, own in space.addresses if e == end]
    out.append(neighbour_request(fabric, end))
    return out + [route_request(fabric, r) for r in space.routes if r.end == end]


def own_sids(space: Space) -> list[Route]:
    """Return the routes of the namespace's own uSIDs."""
    return [r for r in space.routes if r.end < 0]


def route_request(fabric: Fabric, route: Route) -> bytes:
    """Return the request for a route of the plan."""
    if route.end < 0:
        return rtnl.new_route(route.prefix, route.bits, index=names.SID_INDEX, encap=rtnl.END_NEXT_CSID)
    index, via = names.index_of_end(fabric, route.end), names.gateway_of_end(route.end ^ 1)
    return rtnl.new_route(route.prefix, route.bits, via=via, index=index, table=route.table)


def neighbour_request(fabric: Fabric, end: int) -> bytes:
    """Return the request for the static neighbour behind the end of a link."""
    far = end ^ 1
    return rtnl.new_neighbour(names.index_of_end(fabric, end), names.gateway_of_end(far), names.mac_of_end(far))


def address_request(fabric: Fabric, end: int, own: bytes) -> bytes:
    """Return the request for the address of a NIC's port."""
    return rtnl.new_address(names.index_of_end(fabric, end), own)
