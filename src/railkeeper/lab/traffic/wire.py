"""The packets of the lab's transport: a 48-byte header, then payload or the body of a SACK.

Big-endian. All carry a zero UDP checksum and a CRC-32 of their own (over the header before the CRC, then the rest), as
RoCE has its ICRC. `seq` numbers transmissions, `psn` numbers data: a retransmission has the old `psn` and a new `seq`,
so that a SACK's bitmap over `seq` says exactly which transmission arrived, and over which path.
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

MAGIC, VERSION = 0x524B, 1
HEADER_BYTES, CRC_AT = 48, 44
SACK_BITS = 256
PROBE_BYTES = 72
NO_EV = 0xFFFF


class Type(enum.IntEnum):
    """What a packet is."""

    DATA = 1
    SACK = 2
    PROBE = 3  # EV probe: asks the peer for a REPLY
    REPLY = 4


REVERSE = 1
"""Flag: the packet runs against the flow's data; its `src` is the end that receives data."""
RETRANSMIT = 2
"""Flag: the data was sent before."""

# `mark` is how far the data has come: from the data's sender what is acknowledged, from its receiver what is complete.
HEADER = np.dtype(
    [
        ("magic", ">u2"), ("version", "u1"), ("type", "u1"), ("flags", "u1"), ("feedback", "u1"), ("plane", "u1"),
        ("_pad", "u1"), ("src", ">u4"), ("dst", ">u4"), ("ev", ">u2"), ("t1", ">i2"), ("epoch", ">u4"),
        ("seq", ">u4"), ("psn", ">u4"), ("mark", ">u4"), ("time_ns", ">u8"), ("crc", ">u4"),
    ]
)  # fmt: skip
_HEAD = struct.Struct(">HBBBBBBIIHhIIIIQ")
_SACK = struct.Struct(f">IIQIHH{SACK_BITS // 4}s")
SACK_BYTES = HEADER_BYTES + _SACK.size
_MIN_BYTES = {Type.DATA: HEADER_BYTES, Type.SACK: SACK_BYTES, Type.PROBE: PROBE_BYTES, Type.REPLY: PROBE_BYTES}


@dataclass(frozen=True)
class Sack:
    """The body of a SACK.

    `peer_epoch`: run of the sender it answers; `top`: highest `seq` seen; `echo_ns`: the time in the newest arrival, 0
    without one; `hold_ns`: how long the receiver kept it; `bad_ev`: EV for which M = ALWAYS_SKIP, NO_EV without one;
    `seen`: (256,) whether `top - 255 + i` has arrived; `marked`: (256,) whether it met congestion, M = SKIP_ONCE.
    """

    peer_epoch: int
    top: int
    echo_ns: int
    hold_ns: int
    bad_ev: int
    seen: npt.NDArray[np.bool_]
    marked: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Parsed:
    """What a batch of datagrams is.

    - rows: (k,) which datagrams are whole packets; head: (k,) their headers
    - corrupt: (c,) headers of packets whose content is damaged (a header may be, too: check before use)
    - stray: datagrams that are no packets of ours
    """

    rows: npt.NDArray[np.int64]
    head: npt.NDArray[Any]
    corrupt: npt.NDArray[Any]
    stray: int


def control(
    kind: Type, *, src: int, dst: int, plane: int, ev: int, t1: int, epoch: int, time_ns: int, seq: int = 0,
    mark: int = 0, flags: int = 0, feedback: int = 0, sack: Sack | None = None,
) -> bytes:  # fmt: skip
    """Return one SACK, PROBE or REPLY."""
    head = _HEAD.pack(
        MAGIC, VERSION, kind, flags, feedback, plane, 0, src, dst, ev, t1, epoch, seq, 0, mark, time_ns
    )  # fmt: skip
    body = bytes(PROBE_BYTES - HEADER_BYTES)
    if sack is not None:
        bits = np.packbits(np.concatenate([sack.seen, sack.marked])).tobytes()
        body = _SACK.pack(sack.peer_epoch, sack.top, sack.echo_ns, sack.hold_ns, sack.bad_ev, 0, bits)
    return head + zlib.crc32(body, zlib.crc32(head)).to_bytes(4, "big") + body


def read_sack(payload: npt.NDArray[np.uint8]) -> Sack:
    """Return the body of a SACK from its datagram (bytes,)."""
    raw = payload[HEADER_BYTES:SACK_BYTES].tobytes()
    peer_epoch, top, echo_ns, hold_ns, bad_ev, _, bits = _SACK.unpack(raw)
    both = np.unpackbits(np.frombuffer(bits, dtype=np.uint8)).view(np.bool_)
    return Sack(peer_epoch, top, echo_ns, hold_ns, bad_ev, both[:SACK_BITS], both[SACK_BITS:])


def seal(packets: npt.NDArray[np.uint8]) -> None:
    """Write the CRC into packets (n, bytes) in place; rows must lie one behind the other in memory."""
    n, width = packets.shape
    view = packets.reshape(-1).data
    crcs = np.empty(n, dtype=">u4")
    for i in range(n):
        at = i * width
        crcs[i] = zlib.crc32(view[at + HEADER_BYTES : at + width], zlib.crc32(view[at : at + CRC_AT]))
    packets[:, CRC_AT:HEADER_BYTES] = crcs.view(np.uint8).reshape(n, 4)


def headers(packets: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return a copy of the headers (n,) of datagrams (n, bytes)."""
    return np.ascontiguousarray(packets[:, :HEADER_BYTES]).view(HEADER).reshape(len(packets))


def parse(payload: npt.NDArray[np.uint8], length: npt.NDArray[np.int64]) -> Parsed:
    """Tell packets from garbage: `payload` (n, size) contiguous rows, `length` (n,). Never raises on content."""
    size = payload.shape[1]
    head = headers(payload)
    ours = (head["magic"] == MAGIC) & (head["version"] == VERSION) & (length >= HEADER_BYTES) & (length <= size)
    candidates = np.flatnonzero(ours)
    whole = np.zeros(len(payload), dtype=np.bool_)
    view = payload.reshape(-1).data
    kinds, crcs, lengths = head["type"].tolist(), head["crc"].tolist(), length.tolist()
    for i in candidates.tolist():
        at, n = i * size, lengths[i]
        crc = zlib.crc32(view[at + HEADER_BYTES : at + n], zlib.crc32(view[at : at + CRC_AT]))
        whole[i] = crc == crcs[i] and n >= _MIN_BYTES.get(kinds[i], size + 1)
    damaged = candidates[~whole[candidates]]
    rows = np.flatnonzero(whole)
    return Parsed(rows, head[rows], head[damaged], len(payload) - len(candidates))
