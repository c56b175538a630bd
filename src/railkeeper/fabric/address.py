"""SRv6 micro-SID plan, format F3216: a 32-bit block per plane, then up to six 16-bit uSIDs.

The block of domain d (rail * planes + plane) is ``fcbb:d::/32``. uSIDs: T0 i = 0x0100 + i, T1 j = 0x8000 + j,
both global within the block (GIB); the NIC behind downlink k of a T0 = 0xe000 + k, local to that T0 (LIB), so that
131,072 NICs fit into 16 bits. A NIC's port answers to ``fcbb:d:e000+k::``: the last uSID is its address, and
nothing needs decapsulation. Source: RFC 9800 (NEXT-C-SID), RFC 8986.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

BLOCK_TOP = 0xFCBB
T0_BASE = 0x0100
T1_BASE = 0x8000
NIC_BASE = 0xE000
MAX_USIDS = 6


def block(domain: int) -> str:
    """Return the locator block of a plane, e.g. ``fcbb:3::/32``."""
    return f"{ipaddress.IPv6Address((BLOCK_TOP << 112) | (domain << 96))}/32"


def encode(domain: int, usids: Sequence[int]) -> bytes:
    """Return the 16-byte outer destination address that visits `usids` in order.

    Raises ValueError for more than six uSIDs or one that is no 16-bit number above 0.
    """
    if not 1 <= len(usids) <= MAX_USIDS:
        raise ValueError(f"{len(usids)} uSIDs: an F3216 address holds 1 to {MAX_USIDS}")
    if not all(0 < u <= 0xFFFF for u in usids):
        raise ValueError("a uSID is a number from 1 to 0xffff; 0 ends the list")
    words = [BLOCK_TOP, domain, *usids, *([0] * (MAX_USIDS - len(usids)))]
    return b"".join(w.to_bytes(2, "big") for w in words)


def encode_rows(domain: npt.ArrayLike, usids: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Encode many paths at once: `domain` (n,), `usids` (n, up to 6) with 0 as padding at the end -> (n, 16) bytes."""
    n, width = usids.shape
    words = np.zeros((n, 2 + MAX_USIDS), dtype=">u2")
    words[:, 0] = BLOCK_TOP
    words[:, 1] = domain
    words[:, 2 : 2 + width] = usids
    return words.view(np.uint8).reshape(n, 16)


def decode(address: bytes) -> tuple[int, list[int]]:
    """Return (domain, uSIDs) of an outer address.

    Raises InputError when it is not of this plan.
    """
    words = [int.from_bytes(address[i : i + 2], "big") for i in range(0, len(address), 2)]
    if len(words) != 2 + MAX_USIDS or words[0] != BLOCK_TOP:
        raise InputError("address", f"{address.hex()} is not of block {BLOCK_TOP:x}::/16", "16 bytes of this plan")
    usids = words[2:]
    used = next((i for i, u in enumerate(usids) if u == 0), MAX_USIDS)
    if not used or any(usids[used:]):
        raise InputError("address", f"{text(address)} has a gap in its uSIDs", "uSIDs first, then only zeros")
    return words[1], usids[:used]


def shift(address: bytes) -> bytes:
    """Do what a switch does to an address whose first uSID is its own: shift the uSIDs left by one (RFC 9800)."""
    return address[:4] + address[6:] + b"\0\0"


def text(address: bytes) -> str:
    """Return the usual text form of a 16-byte address."""
    return str(ipaddress.IPv6Address(address))


def t0_usid(fabric: Fabric, t0: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return the uSID of T0s (ids)."""
    return np.asarray(T0_BASE + np.asarray(t0) % fabric.t0_per_plane, dtype=np.int32)


def t1_usid(fabric: Fabric, t1: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return the uSID of T1s (ids, or indices within the plane)."""
    return np.asarray(T1_BASE + np.asarray(t1) % fabric.t1_per_plane, dtype=np.int32)


def nic_usid(fabric: Fabric, nic: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return the uSID of NICs (ids), local to their T0."""
    return np.asarray(NIC_BASE + fabric.nic_downlink[np.asarray(nic)], dtype=np.int32)


def nic_address(fabric: Fabric, nic: int, plane: int) -> bytes:
    """Return the address that the NIC's port in `plane` answers to; unique under its T0 only."""
    domain = int(fabric.nic_rail[nic]) * fabric.planes + plane
    return encode(domain, [int(nic_usid(fabric, nic))])
