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

_GETLINK, _DONE, _ERROR = 18, 3, 2
_REQUEST_DUMP = 0x301
_IFNAME, _EXT_MASK, _CARRIER_DOWN_COUNT = 3, 29, 48
_SKIP_STATS = 1 << 3
_UP, _LOWER_UP = 0x1, 0x10000
_HEAD, _LINK, _ATTR = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HH")
_DUMP = (
    _HEAD.pack(_HEAD.size + _LINK.size + 8, _GETLINK, _REQUEST_DUMP, 0, 0)
    + _LINK.pack(0, 0, 0, 0, 0)
    + struct.pack("=HHI", 8, _EXT_MASK, _SKIP_STATS)
)


@dataclass(frozen=True)
class Interface:
    """One interface: its number, whether it is up with a carrier, and how often it has lost its carrier (-1 untold)."""

    index: int
    up: bool
    downs: int


class InterfaceReader:
    """Reads the interfaces of the network namespace in which it is made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(1.0)

    def read(self) -> dict[str, Interface]:
        """Return all interfaces by name; raises OutsideError when the kernel does not answer."""
        try:
            self._socket.sendall(_DUMP)
            return dict(self._answers())
        except OSError as e:
            raise OutsideError(f"interfaces can't be read ({e})", retry=True) from e

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _answers(self) -> Iterator[tuple[str, Interface]]:
        while True:
            data, at = self._socket.recv(1 << 18), 0
            while at + _HEAD.size <= len(data):
                size, kind, *_ = _HEAD.unpack_from(data, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", data, at + _HEAD.size)[0]
                    raise OSError(code, os.strerror(code))
                yield _interface(data[at + _HEAD.size : at + size])
                at += (size + 3) & ~3


def _interface(body: bytes) -> tuple[str, Interface]:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    name, downs, at = "", -1, _LINK.size
    while at + _ATTR.size <= len(body):
        size, kind = _ATTR.unpack_from(body, at)
        if kind == _IFNAME:
            name = body[at + 4 : at + size].rstrip(b"\0").decode(errors="replace")
        elif kind == _CARRIER_DOWN_COUNT:
            downs = struct.unpack_from("=I", body, at + 4)[0]
        at += max((size + 3) & ~3, 4)
    return name, Interface(index, bool(flags & _UP and flags & _LOWER_UP), downs)


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
        out[port.id % width] = interface
    if "" in out:
        missing = port_name(fabric, node * width + out.index(""))
        raise InputError("--interface", f"{missing} has no interface", f"give each of the {width} ports one")
    return tuple(out)
