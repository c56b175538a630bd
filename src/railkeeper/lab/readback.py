"""Reads a namespace's state back from the kernel, in the words of the plan."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from railkeeper.lab import rtnl

if TYPE_CHECKING:
    from railkeeper.lab.rtnl import RouteSocket

_END, _NEXT_CSID = 1, 1 << 4
_SEG6_LOCAL = 7
_OPER_UP = 6
LOCAL_TABLE = 255
_KINDS = frozenset({rtnl.UNICAST, rtnl.LOCAL})


class RouteSeen(NamedTuple):
    """A route to somewhere as the kernel has it; routes of the table LOCAL_TABLE lead to the namespace itself."""

    prefix: bytes
    bits: int
    link: int
    via: bytes
    table: int
    next_csid: bool


class LinkSeen(NamedTuple):
    """A link as the kernel has it; `downs` counts losses of carrier since it exists.

    A link that is not `running` yet drops packets although it has a carrier: the kernel opens its queue a moment later.
    """

    name: str
    up: bool
    running: bool
    downs: int
    mac: bytes


def read_routes(socket: RouteSocket) -> list[RouteSeen]:
    """Return all unicast and local IPv6 routes."""
    socket.ask(rtnl.dump(rtnl.GETROUTE))
    return [_route(body) for kind, body in socket.answers() if kind == rtnl.NEWROUTE and body[7] in _KINDS]


def _route(body: memoryview) -> RouteSeen:
    a = rtnl.attributes(body, 12)
    return RouteSeen(
        prefix=bytes(a[1]) if 1 in a else bytes(16),
        bits=body[1],
        link=_u32(a.get(4)),
        via=bytes(a.get(5, b"")),
        table=_u32(a.get(15)),
        next_csid=21 in a and struct.unpack("=H", a[21])[0] == _SEG6_LOCAL and _is_next_csid(a[22]),
    )


def _is_next_csid(encap: memoryview) -> bool:
    a = rtnl.attributes(encap, 0)
    flavour = rtnl.attributes(a[11], 0) if 11 in a else {}
    bits = [bytes(flavour.get(k, b"")) for k in (2, 3)]
    return _u32(a.get(1)) == _END and _u32(flavour.get(1)) == _NEXT_CSID and bits == [b"\x20", b"\x10"]


def read_links(socket: RouteSocket) -> dict[int, LinkSeen]:
    """Return all links by their number."""
    socket.ask(rtnl.dump_links())
    return dict(_link(body) for kind, body in socket.answers() if kind == rtnl.NEWLINK)


def _link(body: memoryview) -> tuple[int, LinkSeen]:
    index, flags = struct.unpack_from("=iI", body, 4)
    a = rtnl.attributes(body, 16)
    return index, LinkSeen(
        name=bytes(a[3]).rstrip(b"\0").decode(),
        up=bool(flags & rtnl.IFF_UP),
        running=bytes(a.get(33, b"\0")) == b"\1" and bytes(a.get(16, b"\0")) == bytes([_OPER_UP]),
        downs=_u32(a.get(48)),
        mac=bytes(a.get(1, b"")),
    )


def read_neighbours(socket: RouteSocket) -> set[tuple[int, bytes, bytes]]:
    """Return all static neighbours as (link, address, MAC)."""
    socket.ask(rtnl.dump(rtnl.GETNEIGH))
    out = set()
    for kind, body in socket.answers():
        index, state = struct.unpack_from("=iH", body, 4)
        if kind == rtnl.NEWNEIGH and state & rtnl.NUD_PERMANENT:
            a = rtnl.attributes(body, 12)
            out.add((index, bytes(a[1]), bytes(a[2])))
    return out


def read_addresses(socket: RouteSocket) -> set[tuple[int, bytes]]:
    """Return all IPv6 addresses as (link, address)."""
    socket.ask(rtnl.dump(rtnl.GETADDR))
    out = set()
    for kind, body in socket.answers():
        if kind == rtnl.NEWADDR:
            out.add((struct.unpack_from("=I", body, 4)[0], bytes(rtnl.attributes(body, 8)[1])))
    return out


def _u32(value: memoryview | None) -> int:
    return int.from_bytes(bytes(value), "little") if value is not None else 0
