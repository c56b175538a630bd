"""State of the network interfaces where the agent runs, by route netlink.

Not by /sys/class/net: that shows the namespace in which it was mounted, not the one in which a process runs.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError, OutsideError
from railkeeper.fabric.names import Kind, parse_name, port_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from railkeeper.fabric.model import Fabric

_GETLINK, _GETNEIGH, _DONE, _ERROR = 18, 30, 3, 2
_REQUEST_DUMP = 0x301
_ADDRESS, _IFNAME, _EXT_MASK, _CARRIER_DOWN_COUNT = 1, 3, 29, 48
_NEIGH_MAC = 2
_NUD_VALID = 0x02 | 0x04 | 0x08 | 0x10 | 0x80  # reachable, stale, delay, probe, permanent
_SKIP_STATS = 1 << 3
_UP, _LOWER_UP = 0x1, 0x10000
_HEAD, _LINK, _ATTR = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HH")
_NEIGH = struct.Struct("=BxxxiHBB")
_LINK_DUMP = _LINK.pack(0, 0, 0, 0, 0) + struct.pack("=HHI", 8, _EXT_MASK, _SKIP_STATS)
_NEIGH_DUMP = _NEIGH.pack(socket.AF_INET6, 0, 0, 0, 0)


@dataclass(frozen=True)
class Interface:
    """One interface: number, whether up with a carrier, how often it has lost its carrier (-1 untold), MAC address."""

    index: int
    up: bool
    downs: int
    mac: bytes = b""


class InterfaceReader:
    """Reads the interfaces of the network namespace in which it is made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(1.0)

    def read(self) -> dict[str, Interface]:
        """Return all interfaces by name; raises OutsideError when the kernel does not answer."""
        return dict(_interface(body) for body in self._dump(_GETLINK, _LINK_DUMP))

    def neighbour(self, index: int) -> bytes:
        """Return the MAC address of an IPv6 neighbour behind an interface, empty where none is known."""
        for body in self._dump(_GETNEIGH, _NEIGH_DUMP):
            _, interface, state, _, _ = _NEIGH.unpack_from(body)
            mac = _attributes(body, _NEIGH.size).get(_NEIGH_MAC, b"")
            if interface == index and state & _NUD_VALID and len(mac) == 6 and not mac[0] & 1:
                return mac
        return b""

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _dump(self, kind: int, body: bytes) -> list[bytes]:
        try:
            self._socket.sendall(_HEAD.pack(_HEAD.size + len(body), kind, _REQUEST_DUMP, 0, 0) + body)
            return list(self._answers())
        except OSError as e:
            raise OutsideError(f"interfaces can't be read ({e})", retry=True) from e

    def _answers(self) -> Iterator[bytes]:
        while True:
            data, at = self._socket.recv(1 << 18), 0
            while at + _HEAD.size <= len(data):
                size, kind, *_ = _HEAD.unpack_from(data, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", data, at + _HEAD.size)[0]
                    raise OSError(code, os.strerror(code))
                yield data[at + _HEAD.size : at + size]
                at += (size + 3) & ~3


def missing(names: Iterable[str]) -> list[str]:
    """Return which interfaces are not there (yet) in the caller's network namespace."""
    reader = InterfaceReader()
    try:
        there = reader.read()
    finally:
        reader.close()
    return [name for name in names if name not in there]


def _interface(body: bytes) -> tuple[str, Interface]:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    a = _attributes(body, _LINK.size)
    name = a.get(_IFNAME, b"").rstrip(b"\0").decode(errors="replace")
    downs = struct.unpack("=I", a[_CARRIER_DOWN_COUNT])[0] if _CARRIER_DOWN_COUNT in a else -1
    return name, Interface(index, bool(flags & _UP and flags & _LOWER_UP), downs, a.get(_ADDRESS, b""))


def _attributes(body: bytes, at: int) -> dict[int, bytes]:
    out: dict[int, bytes] = {}
    while at + _ATTR.size <= len(body):
        size, kind = _ATTR.unpack_from(body, at)
        out[kind] = body[at + _ATTR.size : at + size]
        at += max((size + 3) & ~3, _ATTR.size)
    return out


def parse_interfaces(fabric: Fabric, node: int, texts: Iterable[str]) -> tuple[str, ...]:
    """Read ``nic0/p3=eth2`` (or with the node in front) into the interface names of a node's ports, in port order.

    Every port must be named. Raises InputError that says which is wrong or missing.
    """
    width = fabric.nics_per_node * fabric.planes
    out = [""] * width
    for text in texts:
        port_text, _, interface = text.partition("=")
        full = port_text if port_text.startswith("n") and not port_text.startswith("nic") else f"n{node}/{port_text}"
        port = parse_name(fabric, full, where="--interface")
        if port.kind is not Kind.PORT or port.id // width != node or not interface:
            raise InputError(
                "--interface", f"{text!r} names no port of n{node}", "give PORT=INTERFACE, e.g. nic0/p0=eth2"
            )
        if out[port.id % width]:
            raise InputError("--interface", f"is there twice for {port_text}", "give one for each port of the node")
        out[port.id % width] = interface
    if "" in out:
        missing = port_name(fabric, node * width + out.index(""))
        raise InputError("--interface", f"{missing} has no interface", f"give each of the {width} ports one")
    return tuple(out)
