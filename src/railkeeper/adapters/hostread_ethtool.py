"""Statistics of `ethtool -S`: asked of the kernel directly, or read from the text that ethtool prints.

Asked by ioctl: the driver's own statistics have no netlink message, and a program for each of 32 ports would cost more
than all the rest.
"""

from __future__ import annotations

import array
import fcntl
import re
import socket
import struct
from functools import lru_cache

from railkeeper.base.errors import InputError

_SIOCETHTOOL = 0x8946
_GET_STRINGS, _GET_STATISTICS, _GET_SET_INFO = 0x1B, 0x1D, 0x37
_SET_STATISTICS = 1  # ETH_SS_STATS
_NAME_BYTES = 32
MOST_STATISTICS = 20_000
MOST_LINES = 20_000
_LINE = re.compile(r"\s{1,64}(\S.{0,127}?): (\d{1,20})\s*\Z", re.ASCII)


def open_socket() -> socket.socket:
    """Return the socket through which all interfaces are asked."""
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def read_ethtool(sock: socket.socket, netdev: str) -> dict[str, int] | None:
    """Return the driver's statistics of an interface; None if it has none, or is gone."""
    try:
        count = _count(sock, netdev)
        if not 0 < count <= MOST_STATISTICS:
            return None
        names = _names(sock, netdev, count)
        values = array.array("B", struct.pack("II", _GET_STATISTICS, count) + bytes(8 * count))
        _call(sock, netdev, values)
    except OSError:
        return None
    # A driver that has fewer by now says so; one that has more has written only as many as we had room for.
    told = min(count, struct.unpack_from("I", values, 4)[0])
    return dict(zip(names, struct.unpack_from(f"{told}Q", values, 8), strict=False))


def _count(sock: socket.socket, netdev: str) -> int:
    info = array.array("B", struct.pack("IIQ", _GET_SET_INFO, 0, 1 << _SET_STATISTICS) + bytes(4))
    _call(sock, netdev, info)
    mask, count = struct.unpack_from("QI", info, 8)
    return int(count) if mask else 0


def _names(sock: socket.socket, netdev: str, count: int) -> tuple[str, ...]:
    table = array.array("B", struct.pack("III", _GET_STRINGS, _SET_STATISTICS, count) + bytes(_NAME_BYTES * count))
    _call(sock, netdev, table)
    return _decoded(table.tobytes()[12:])


@lru_cache(maxsize=256)
def _decoded(table: bytes) -> tuple[str, ...]:
    cuts = range(0, len(table), _NAME_BYTES)
    names = [table[at : at + _NAME_BYTES].split(b"\0")[0].decode("utf-8", "backslashreplace").strip() for at in cuts]
    return tuple(names)


def _call(sock: socket.socket, netdev: str, buffer: array.array[int]) -> None:
    address, _ = buffer.buffer_info()
    request = struct.pack("16sP", netdev.encode()[:15], address) + bytes(16)
    fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request)


def parse_ethtool(text: str, where: str = "ethtool -S") -> dict[str, int]:
    """Return the statistics of what `ethtool -S` has printed. Raises InputError for anything else."""
    lines = text.split("\n")
    if not lines or lines[0].strip() != "NIC statistics:":
        raise InputError(where, "it does not begin with 'NIC statistics:'", "save the output of ethtool -S NETDEV")
    if len(lines) > MOST_LINES:
        raise InputError(where, f"{len(lines)} lines", f"at most {MOST_LINES} are read")
    values: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        found = _LINE.match(line)
        if found is None:
            raise InputError(f"{where}: line {number}", "it is no 'name: number'", "save the output of ethtool -S")
        if found[1] in values:
            raise InputError(f"{where}: line {number}", f"{found[1]} is there twice", "save one interface in each file")
        values[found[1]] = int(found[2])
    return values
