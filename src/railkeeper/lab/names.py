"""How the parts of a fabric are called inside the lab: namespaces, interfaces, interface numbers, MAC addresses.

The end of a link has a number: 2 * link + side, side 0 the lower end (NIC, or T0 under a T1), 1 the upper. So the end
that sends into a directed link has the directed link's own number, and the end that receives has that number with its
last bit flipped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError
from railkeeper.fabric.names import t0_name, t1_name

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric

LAB_LINK_BPS = 20e6
"""What the spec's `link_gbps` is in the lab: its real links are faster than all of its traffic together."""

SID_LINK = "sr0"
SID_INDEX = 90
# The kernel hurries a change of carrier along only where the two ends of a veth pair have different numbers.
_FIRST_UPPER, _FIRST_LOWER = 100, 20_100
_PREFIX = re.compile(r"[A-Za-z0-9_]{1,16}")


def check_prefix(prefix: str) -> str:
    """Return a lab's prefix if it may be one; raises InputError."""
    if not _PREFIX.fullmatch(prefix):
        raise InputError("lab prefix", f"is {prefix!r}", "1 to 16 letters, digits or underscores")
    return prefix


def node_ns(prefix: str, node: int) -> str:
    """Return the namespace of a node, e.g. `rk-n12`."""
    return f"{prefix}-n{node}"


def t0_ns(fabric: Fabric, prefix: str, t0: int) -> str:
    """Return the namespace of a T0, e.g. `rk-p3t0-7`."""
    return f"{prefix}-{t0_name(fabric, t0).replace('/', '')}"


def t1_ns(fabric: Fabric, prefix: str, t1: int) -> str:
    """Return the namespace of a T1, e.g. `rk-p3t1-11`."""
    return f"{prefix}-{t1_name(fabric, t1).replace('/', '')}"


def nic_interface(fabric: Fabric, port: int) -> str:
    """Return the interface of a NIC's port in its node, e.g. `nic0p3`."""
    nic, plane = divmod(int(port), fabric.planes)
    return f"nic{nic % fabric.nics_per_node}p{plane}"


def interface_of_end(fabric: Fabric, end: int) -> str:
    """Return the interface of the end of a link: `nic0p3`, or `d4` and `u2` on a T0, or `d7` on a T1."""
    link, upper = divmod(int(end), 2)
    if link < fabric.n_ports:
        return f"d{fabric.nic_downlink[link // fabric.planes]}" if upper else nic_interface(fabric, link)
    t0, j = divmod(link - fabric.n_ports, fabric.t1_per_plane)
    return f"d{t0 % fabric.t0_per_plane}" if upper else f"u{j}"


def index_of_end(fabric: Fabric, end: int) -> int:
    """Return the interface number of the end of a link; the same in every lab of the fabric."""
    link, upper = divmod(int(end), 2)
    if link < fabric.n_ports:
        if not upper:
            return _FIRST_LOWER + link % (fabric.nics_per_node * fabric.planes)
        return _FIRST_UPPER + int(fabric.nic_downlink[link // fabric.planes])
    t0, j = divmod(link - fabric.n_ports, fabric.t1_per_plane)
    return _FIRST_UPPER + t0 % fabric.t0_per_plane if upper else _FIRST_LOWER + j


def space_of_end(fabric: Fabric, end: int) -> int:
    """Return the number of the namespace that holds the end: nodes first, then T0s, then T1s."""
    link, upper = divmod(int(end), 2)
    if link < fabric.n_ports:
        if upper:
            return fabric.n_nodes + int(fabric.link_upper[link])
        return link // (fabric.nics_per_node * fabric.planes)
    if upper:
        return fabric.n_nodes + fabric.n_t0 + int(fabric.link_upper[link])
    return fabric.n_nodes + int(fabric.link_lower[link])


def mac_of_end(end: int) -> bytes:
    """Return the MAC address that the lab gives to the end of a link: locally administered, never random."""
    return b"\x02\x00" + int(end).to_bytes(4, "big")


def gateway_of_end(end: int) -> bytes:
    """Return the link-local address under which the neighbour reaches this end.

    No interface holds it: static neighbours resolve it, so that no neighbour discovery crosses a lossy link.
    """
    return b"\xfe\x80" + bytes(13) + bytes([1 + int(end) % 2])
