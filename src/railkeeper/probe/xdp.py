"""Sending by AF_XDP in copy mode: whole frames, past the host's routing and queues, for very many probes per second.

Works on any interface, without a driver's help and without a BPF program; needs CAP_NET_RAW. What it goes past is not
probed: a shaper on the sending interface, for one. Layouts: linux/if_xdp.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    import numpy.typing as npt

AF_XDP, SOL_XDP = 44, 283
_MMAP_OFFSETS, _TX_RING, _UMEM_REG, _FILL_RING, _COMPLETION_RING, _MAX_TX_BUDGET = 1, 3, 4, 5, 6, 9
_AT_TX_RING, _AT_COMPLETION_RING = 0x80000000, 0x180000000
_COPY_MODE = 2
_FRAME_BYTES = 2048
_HEADER_BYTES = 62
_IP_LENGTH, _DESTINATION, _UDP_LENGTH = slice(18, 20), slice(38, 54), slice(58, 60)
_DESCRIPTOR = np.dtype([("address", "u8"), ("length", "u4"), ("options", "u4")])
_BUSY = frozenset({errno.EAGAIN, errno.EBUSY, errno.ENOBUFS, errno.EINTR})
_MAX_KICKS = 1000
_BIND_TRIES, _BIND_PAUSE_S = 100, 0.01

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class FrameAddress:
    """Where frames of one interface come from and go to: MAC addresses (6 bytes), IPv6 source (16), UDP port."""

    interface: int
    source_mac: bytes
    next_mac: bytes
    source: bytes
    port: int


class XdpSender:
    """Sends UDP packets by one interface; `slots` (a power of two) is the most per call.

    Raises OutsideError where the kernel or the account can't do it.
    """

    def __init__(self, address: FrameAddress, *, slots: int = 256) -> None:
        self._slots = slots
        self._maps: list[mmap.mmap] = []
        self._memory = mmap.mmap(-1, slots * _FRAME_BYTES)
        self._frames = np.frombuffer(self._memory, dtype=np.uint8).reshape(slots, _FRAME_BYTES)
        self._frames[:, :_HEADER_BYTES] = np.frombuffer(_header(address), dtype=np.uint8)
        try:
            self._socket = socket.socket(AF_XDP, socket.SOCK_RAW | socket.SOCK_CLOEXEC)
            self._set_up(address.interface)
        except OSError as e:
            raise OutsideError(f"AF_XDP is not to be had ({e.strerror})") from e

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, payload: npt.NDArray[np.uint8], addresses: npt.NDArray[np.uint8]) -> int:
        """Send rows of `payload` (n, width) to `addresses` (n, 16); returns how many left, from the front."""
        n, width = len(payload), int(payload.shape[1])
        produced = int(self._produced[0])
        slots = (produced + np.arange(n)) % self._slots
        part = slice(int(slots[0]), int(slots[0]) + n) if n and slots[-1] >= slots[0] else slots
        self._frames[part, _HEADER_BYTES : _HEADER_BYTES + width] = payload
        self._frames[part, _DESTINATION] = addresses
        length = np.frombuffer(struct.pack(">H", 8 + width), dtype=np.uint8)
        self._frames[part, _IP_LENGTH] = self._frames[part, _UDP_LENGTH] = length
        self._ring["length"][part] = _HEADER_BYTES + width
        self._produced[0] = np.uint32((produced + n) & 0xFFFFFFFF)
        return n - self._kick((produced + n) & 0xFFFFFFFF)

    def close(self) -> None:
        """Close the socket and let go of its rings, without which the kernel would keep the interface's queue busy."""
        self._produced = self._consumed = self._completed = self._released = np.zeros(1, dtype=np.uint32)
        self._ring = np.zeros(0, dtype=_DESCRIPTOR)
        while self._maps:
            self._maps.pop().close()
        self._socket.close()

    def _kick(self, target: int) -> int:
        """Make the kernel send up to `target`; returns how many it would not, which are taken back."""
        for _ in range(_MAX_KICKS):
            done = _libc.sendto(self._socket.fileno(), None, 0, socket.MSG_DONTWAIT, None, 0) >= 0
            self._released[0] = self._completed[0]  # frames are copied when sent: their slots are free
            if int(self._consumed[0]) == target:
                return 0
            if not done and ctypes.get_errno() not in _BUSY:
                break
        left = (target - int(self._consumed[0])) & 0xFFFFFFFF
        self._produced[0] = self._consumed[0]  # the kernel looks at the ring only when kicked
        return left

    def _set_up(self, interface: int) -> None:
        s, n = self._socket, self._slots
        memory = struct.pack("QQIIII", self._frames.ctypes.data, n * _FRAME_BYTES, _FRAME_BYTES, 0, 0, 0)
        s.setsockopt(SOL_XDP, _UMEM_REG, memory)
        for ring in (_FILL_RING, _COMPLETION_RING, _TX_RING):
            s.setsockopt(SOL_XDP, ring, struct.pack("I", n))
        self._map_rings(struct.unpack("16Q", s.getsockopt(SOL_XDP, _MMAP_OFFSETS, 128)))
        with contextlib.suppress(OSError):  # before Linux 6.17: 32 frames per kick
            s.setsockopt(SOL_XDP, _MAX_TX_BUDGET, struct.pack("I", n))
        _bind(s.fileno(), interface)

    def _map_rings(self, offsets: tuple[int, ...]) -> None:
        produced, consumed, ring, _ = offsets[4:8]
        completed, released, ring_c, _ = offsets[12:16]
        n = self._slots
        tx = self._map(ring + n * _DESCRIPTOR.itemsize, _AT_TX_RING)
        done = self._map(ring_c + n * 8, _AT_COMPLETION_RING)
        self._produced, self._consumed = _u32(tx, produced), _u32(tx, consumed)
        self._completed, self._released = _u32(done, completed), _u32(done, released)
        self._ring = np.frombuffer(tx, dtype=_DESCRIPTOR, count=n, offset=ring)
        self._ring["address"] = np.arange(n, dtype=np.uint64) * np.uint64(_FRAME_BYTES)

    def _map(self, size: int, at: int) -> mmap.mmap:
        self._maps.append(mmap.mmap(self._socket.fileno(), size, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=at))
        return self._maps[-1]


def _bind(fd: int, interface: int) -> None:
    """Bind to the interface's first queue; one that another socket has just left is busy for a moment yet."""
    address = struct.pack("HHIII", AF_XDP, _COPY_MODE, interface, 0, 0)
    for _ in range(_BIND_TRIES):
        if _libc.bind(fd, address, len(address)) == 0:
            return
        code = ctypes.get_errno()
        if code != errno.EBUSY:
            break
        time.sleep(_BIND_PAUSE_S)
    raise OSError(code, os.strerror(code))


def _u32(memory: mmap.mmap, offset: int) -> npt.NDArray[np.uint32]:
    return np.frombuffer(memory, dtype=np.uint32, count=1, offset=offset)


def _header(a: FrameAddress) -> bytes:
    """Ethernet, IPv6 and UDP headers; lengths and destination are filled in per packet, the checksum stays zero."""
    ethernet = a.next_mac + a.source_mac + b"\x86\xdd"
    ip = struct.pack(">IHBB", 6 << 28, 0, socket.IPPROTO_UDP, 64) + a.source + bytes(16)
    return ethernet + ip + struct.pack(">HHHH", a.port, a.port, 0, 0)
