"""Route netlink, as little of it as the lab needs: links, addresses, neighbours, routes, rules.

Messages are built and read here and not by a library, because the lab stands or falls with one nested attribute (the
NEXT-C-SID flavour) that libraries drop in silence; what was asked for is read back in verify.py. Many messages go to
the kernel in one call. Source of numbers and layouts: linux/rtnetlink.h, if_link.h, seg6_local.h, veth.h.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple, Self

from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEWLINK, DELLINK, GETLINK, SETLINK = 16, 17, 18, 19
NEWADDR, GETADDR = 20, 22
NEWROUTE, DELROUTE, GETROUTE = 24, 25, 26
NEWNEIGH, GETNEIGH = 28, 30
NEWRULE = 32

REQUEST, ACK, REPLACE, CREATE = 0x1, 0x4, 0x100, 0x400
DUMP = 0x300
EXCL = 0x200
NESTED = 0x8000
IFF_UP = 0x1
NUD_PERMANENT = 0x80
MAIN_TABLE = 254
UNICAST, LOCAL, BLACKHOLE = 1, 2, 6

_ERROR, _DONE = 2, 3
_CHUNK_BYTES = 32 * 1024
_HEAD = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")
_IFADDR = struct.Struct("=BBBBI")
_RTMSG = struct.Struct("=BBBBBBBBI")
_NDMSG = struct.Struct("=BxxxiHBB")
_U32 = struct.Struct("=I")
_ATTR = struct.Struct("=HH")


def attr(kind: int, value: bytes) -> bytes:
    """Return one attribute, padded to four bytes."""
    size = 4 + len(value)
    return _ATTR.pack(size, kind) + value + b"\0" * (-size % 4)


def attr_u32(kind: int, value: int) -> bytes:
    """Return an attribute that holds a 32-bit number."""
    return struct.pack("=HHI", 8, kind, value)


def message(kind: int, flags: int, body: bytes) -> bytes:
    """Return a request; its sequence number is filled in when it is sent."""
    return _HEAD.pack(16 + len(body), kind, REQUEST | flags, 0, 0) + body


# -- links ------------------------------------------------------------------------------------------
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_TXQLEN, _IFLA_LINKINFO = 1, 3, 13, 18
_IFLA_TXQS, _IFLA_RXQS, _IFLA_NS_FD, _IFLA_EXT_MASK = 31, 32, 28, 29
_SKIP_STATS = 1 << 3
_ONE_QUEUE = attr_u32(_IFLA_TXQS, 1) + attr_u32(_IFLA_RXQS, 1)
_VETH = attr(1, b"veth\0")


def new_link(kind: str, name: str, index: int) -> bytes:
    """Create a software link of a kind such as `ifb` that is up."""
    info = attr(_IFLA_LINKINFO | NESTED, attr(1, kind.encode() + b"\0"))
    head = _IFINFO.pack(0, 0, index, IFF_UP, IFF_UP)
    return message(NEWLINK, CREATE | EXCL, head + attr(_IFLA_IFNAME, name.encode() + b"\0") + _ONE_QUEUE + info)


class VethEnd(NamedTuple):
    """Name, number and MAC address of one end of a veth pair."""

    name: str
    number: int
    mac: bytes


def new_veth(near: VethEnd, far: VethEnd, far_ns_fd: int) -> bytes:
    """Create a veth pair; this end is up, the far one, in another namespace, can't be yet and is down."""
    peer = _end(far, 0) + attr_u32(_IFLA_NS_FD, far_ns_fd)
    info = attr(_IFLA_LINKINFO | NESTED, _VETH + attr(2 | NESTED, attr(1, peer)))
    return message(NEWLINK, CREATE | EXCL, _end(near, IFF_UP) + info)


def _end(end: VethEnd, flags: int) -> bytes:
    head = _IFINFO.pack(0, 0, end.number, flags, IFF_UP)
    return head + attr(_IFLA_IFNAME, end.name.encode() + b"\0") + attr(_IFLA_ADDRESS, end.mac) + _ONE_QUEUE


def set_link(index: int, *, up: bool) -> bytes:
    """Set a link up or down."""
    return message(SETLINK, 0, _IFINFO.pack(0, 0, index, IFF_UP if up else 0, IFF_UP))


def set_tap(index: int, mac: bytes, queue_frames: int) -> bytes:
    """Give a TAP a MAC address and a queue, and set it up."""
    head = _IFINFO.pack(0, 0, index, IFF_UP, IFF_UP)
    return message(SETLINK, 0, head + attr(_IFLA_ADDRESS, mac) + attr_u32(_IFLA_TXQLEN, queue_frames))


def dump_links(*, statistics: bool = False) -> bytes:
    """Ask for all links, with or without their statistics."""
    mask = 0 if statistics else _SKIP_STATS
    return message(GETLINK, DUMP, _IFINFO.pack(0, 0, 0, 0, 0) + attr_u32(_IFLA_EXT_MASK, mask))


# -- addresses, neighbours, routes, rules -----------------------------------------------------------
def new_address(index: int, address: bytes) -> bytes:
    """Give a link an IPv6 address /128 (or leave it as it is) without duplicate detection."""
    nodad = 0x02
    return message(NEWADDR, CREATE | REPLACE, _IFADDR.pack(socket.AF_INET6, 128, nodad, 0, index) + attr(2, address))


def new_neighbour(index: int, address: bytes, mac: bytes) -> bytes:
    """Fix the link-layer address of a neighbour for good."""
    head = _NDMSG.pack(socket.AF_INET6, index, NUD_PERMANENT, 0, 0)
    return message(NEWNEIGH, CREATE | REPLACE, head + attr(1, address) + attr(2, mac))


def new_route(
    prefix: bytes, bits: int, *, via: bytes = b"", index: int = 0, table: int = MAIN_TABLE, metric: int = 1024,
    encap: bytes = b"", kind: int = UNICAST,
) -> bytes:  # fmt: skip
    """Set an IPv6 route, replacing one that has the same prefix and metric."""
    static, universe = 4, 0
    head = _RTMSG.pack(socket.AF_INET6, bits, 0, 0, 0, static, universe, kind, 0)
    body = attr_u32(15, table) + attr_u32(6, metric)
    body += attr(1, prefix) if bits else b""
    body += attr_u32(4, index) if index else b""
    body += attr(5, via) if via else b""
    return message(NEWROUTE, CREATE | REPLACE, head + body + encap)


def del_route(prefix: bytes, bits: int) -> bytes:
    """Delete a route of the main table."""
    head = _RTMSG.pack(socket.AF_INET6, bits, 0, 0, MAIN_TABLE, 0, 0, 0, 0)
    return message(DELROUTE, 0, head + attr(1, prefix))


def _end_next_csid() -> bytes:
    flavour = attr_u32(1, 1 << 4) + attr(2, bytes([32])) + attr(3, bytes([16]))
    counters = b"".join(attr(k, bytes(8)) for k in (2, 3, 4))
    body = attr_u32(1, 1) + attr(10 | NESTED, counters) + attr(11 | NESTED, flavour)
    return attr(22 | NESTED, body) + attr(21, struct.pack("=H", 7))


END_NEXT_CSID = _end_next_csid()
"""Encapsulation attributes of SRv6 End with the NEXT-C-SID flavour, block of 32 bits, uSID of 16, with counters."""


def new_rule_oif(name: str, table: int, priority: int) -> bytes:
    """Send packets that a socket binds to a device through a table of their own."""
    to_table = 1
    head = struct.pack("=BBBBBBBBI", socket.AF_INET6, 0, 0, 0, 0, 0, 0, to_table, 0)
    body = head + attr(17, name.encode() + b"\0") + attr_u32(15, table) + attr_u32(6, priority)
    return message(NEWRULE, CREATE, body)


def dump(kind: int) -> bytes:
    """Ask for all IPv6 objects of a kind: GETADDR, GETROUTE or GETNEIGH."""
    body = {GETADDR: _IFADDR, GETROUTE: _RTMSG, GETNEIGH: _NDMSG}[kind]
    return message(kind, DUMP, bytes([socket.AF_INET6]) + bytes(body.size - 1))


# -- the socket -------------------------------------------------------------------------------------
class RouteSocket:
    """A route netlink socket of the namespace in which the calling thread is."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self.sock.bind((0, 0))
        self.sock.settimeout(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the socket back."""
        self.sock.close()

    def apply(self, messages: Sequence[bytes], where: str, *, ignore: frozenset[int] = frozenset()) -> None:
        """Send requests; raises OutsideError that names the first one refused with an errno not in `ignore`."""
        start = 0
        while start < len(messages):
            end, size = start, 0
            while end < len(messages) and size + len(messages[end]) <= _CHUNK_BYTES:
                size += len(messages[end])
                end += 1
            self._send_all(messages[start:end])
            self._check(end - start, where, ignore)
            start = end

    def _send_all(self, messages: Sequence[bytes]) -> None:
        # Numbered 1 to n; only the last asks for an answer, refusals answer by themselves.
        buffer = bytearray(b"".join(messages))
        at = 0
        for number, m in enumerate(messages, 1):
            _U32.pack_into(buffer, at + 8, number)
            at += len(m)
        last = at - len(messages[-1])
        struct.pack_into("=H", buffer, last + 6, struct.unpack_from("=H", buffer, last + 6)[0] | ACK)
        self.sock.sendall(buffer)

    def _check(self, last: int, where: str, ignore: frozenset[int]) -> None:
        failed: tuple[int, int] | None = None
        while True:
            for kind, seq, body in split(self.sock.recv(1 << 18)):
                code = -struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
                if code and code not in ignore and failed is None:
                    failed = seq, code
                if kind == _ERROR and seq == last:
                    _raise(failed, where)
                    return

    def ask(self, request: bytes) -> None:
        """Send a dump request, to be read by `answers`."""
        self.sock.sendall(request)

    def answers(self) -> Iterator[tuple[int, memoryview]]:
        """Yield (message type, body) of a dump."""
        while True:
            for kind, _seq, body in split(self.sock.recv(1 << 18)):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OutsideError(f"netlink dump: {os.strerror(-struct.unpack_from('=i', body)[0])}")
                yield kind, body


def _raise(failed: tuple[int, int] | None, where: str) -> None:
    if failed is not None:
        raise OutsideError(f"{where}: the kernel refused request {failed[0]}: {os.strerror(failed[1])}")


def split(data: bytes) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (type, sequence number, body) of each message in a datagram."""
    view, at = memoryview(data), 0
    while at + 16 <= len(view):
        size, kind, _flags, seq, _pid = _HEAD.unpack_from(view, at)
        yield kind, seq, view[at + 16 : at + size]
        at += (size + 3) & ~3


def attributes(body: memoryview, start: int) -> dict[int, memoryview]:
    """Return the attributes of a message (or of a nested attribute, start 0) by number."""
    out: dict[int, memoryview] = {}
    at, end = start, len(body)
    while at + 4 <= end:
        size, kind = _ATTR.unpack_from(body, at)
        if size < 4:
            break
        out[kind & 0x3FFF] = body[at + 4 : at + size]
        at += (size + 3) & ~3
    return out
