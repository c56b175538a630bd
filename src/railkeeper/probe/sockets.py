"""A UDP socket that moves packets in batches: many destinations per system call, arrival times from the kernel.

Packets carry a zero UDP checksum, because a micro-SID shift changes the destination address and no switch mends the
checksum; whoever uses the socket guards the payload with a check of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    import numpy.typing as npt

UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX = 101, 102
SO_TIMESTAMPNS = 35
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SO_MEMINFO, _MEMINFO_DROPS, _MEMINFO_WORDS = 55, 8, 9
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM})

_IOVEC = np.dtype([("base", "u8"), ("len", "u8")])
_HEADER = np.dtype(
    [("name", "u8"), ("namelen", "u4"), ("_pad0", "u4"), ("iov", "u8"), ("iovlen", "u8"), ("control", "u8"),
     ("controllen", "u8"), ("flags", "i4"), ("_pad1", "u4"), ("len", "u4"), ("_pad2", "u4")]
)  # fmt: skip
_ADDRESS = np.dtype(
    [("family", "u2"), ("port", ">u2"), ("flow", "u4"), ("ip", "u1", 16), ("scope", "u4"), ("_pad", "u4")]
)
_ADDRESS_BYTES = 28
# One control message each way: IPV6_PKTINFO out (which interface), a kernel time stamp in.
_PKTINFO = np.dtype(
    [("len", "u8"), ("level", "i4"), ("type", "i4"), ("source", "u1", 16), ("interface", "i4"), ("_pad", "u4")]
)
_PKTINFO_BYTES = 36
_STAMP = np.dtype([("len", "u8"), ("level", "i4"), ("type", "i4"), ("s", "i8"), ("ns", "i8")])

_libc = ctypes.CDLL(None, use_errno=True)
_sendmmsg, _recvmmsg = _libc.sendmmsg, _libc.recvmmsg
_sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
_recvmmsg.argtypes = [*_sendmmsg.argtypes, ctypes.c_void_p]


@dataclass(frozen=True)
class Arrivals:
    """One batch of received packets, in order of arrival.

    - payload: (n, size) bytes, a view that the next `receive` overwrites; beyond `length` it is undefined
    - length: (n,) payload bytes; a packet longer than the buffer has the buffer's size + 1 or more
    - time_ns: (n,) kernel receive time, unix clock
    """

    payload: npt.NDArray[np.uint8]
    length: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.length)


@dataclass(frozen=True)
class Sent:
    """What became of a batch: (n,) `sent`; `unsent` found no room in the host, `refused` had no way out of it.

    A refusal (no route, interface down) says something of a local port; missing room only of this host.
    """

    sent: npt.NDArray[np.bool_]
    unsent: int
    refused: int


class BatchUdp:
    """An IPv6 UDP socket on `port` (0: any) of the network namespace in which it is made; never blocks.

    `batch` packets of up to `size` payload bytes move per call. Raises OutsideError when the port can't be had.
    """

    def __init__(self, port: int, *, batch: int = 256, size: int = 2048, buffer_bytes: int = 8 << 20) -> None:
        self.batch, self.size = batch, size
        self._socket = _open(port, buffer_bytes)
        self._tx = _Sender(batch)
        self._rx = _Receiver(batch, size)

    def fileno(self) -> int:
        """Return the file descriptor, for poll."""
        return self._socket.fileno()

    @property
    def port(self) -> int:
        """The bound UDP port."""
        return int(self._socket.getsockname()[1])

    @property
    def dropped(self) -> int:
        """Arrivals that this socket had no room for, since it exists (wraps at 2**32)."""
        raw = self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * _MEMINFO_WORDS)
        return int(struct.unpack(f"{len(raw) // 4}I", raw)[_MEMINFO_DROPS])

    def send(
        self,
        payload: npt.NDArray[np.uint8],
        addresses: npt.NDArray[np.uint8],
        port: int,
        *,
        lengths: npt.NDArray[np.integer] | int | None = None,
        interfaces: npt.NDArray[np.integer] | int = 0,
    ) -> Sent:
        """Send rows of `payload` (n, width) to `addresses` (n, 16) at UDP `port`.

        `lengths` (n,) or one for all: bytes of each row to send, default all. `interfaces`: index of the interface
        to leave by, 0 for the routing table's choice.
        """
        n = len(payload)
        sent = np.zeros(n, dtype=np.bool_)
        unsent = refused = 0
        for start in range(0, n, self.batch):
            part = slice(start, min(start + self.batch, n))
            self._tx.fill(
                payload[part], addresses[part], port, _part(lengths, part, payload.shape[1]), _part(interfaces, part, 0)
            )
            result = self._tx.push(self.fileno(), part.stop - part.start)
            sent[part] = result.sent
            unsent, refused = unsent + result.unsent, refused + result.refused
        return Sent(sent, unsent, refused)

    def receive(self) -> Arrivals:
        """Return up to `batch` packets that have arrived; fewer than `batch` means that none is left."""
        return self._rx.pull(self.fileno())

    def close(self) -> None:
        """Close the socket; a second time does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(port: int, buffer_bytes: int) -> socket.socket:
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)
        s.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        _set_buffer(s, socket.SO_SNDBUF, SO_SNDBUFFORCE, buffer_bytes)
        _set_buffer(s, socket.SO_RCVBUF, SO_RCVBUFFORCE, buffer_bytes)
        s.bind(("::", port))
    except OSError as e:
        s.close()
        raise OutsideError(f"UDP port {port} can't be opened ({e.strerror})", retry=e.errno == errno.EADDRINUSE) from e
    return s


def _set_buffer(s: socket.socket, option: int, force: int, size: int) -> None:
    """Ask for a buffer beyond the system's limit where we may, else for as much as the limit allows."""
    s.setsockopt(socket.SOL_SOCKET, option, size)
    with contextlib.suppress(PermissionError):
        s.setsockopt(socket.SOL_SOCKET, force, size)


def _part(value: npt.NDArray[np.integer] | int | None, part: slice, default: int) -> npt.NDArray[np.integer] | int:
    if value is None:
        return default
    return value if isinstance(value, int) else value[part]


class _Sender:
    """The kernel's structures for sendmmsg, laid out once; `fill` writes only what changes."""

    def __init__(self, batch: int) -> None:
        self._header = np.zeros(batch, dtype=_HEADER)
        self._iov = np.zeros(batch, dtype=_IOVEC)
        self._address = np.zeros(batch, dtype=_ADDRESS)
        self._info = np.zeros(batch, dtype=_PKTINFO)
        self._address["family"] = socket.AF_INET6
        self._info["len"] = _PKTINFO_BYTES
        self._info["level"], self._info["type"] = socket.IPPROTO_IPV6, socket.IPV6_PKTINFO
        h, steps = self._header, np.arange(batch, dtype=np.uint64)
        h["name"] = self._address.ctypes.data + steps * np.uint64(_ADDRESS.itemsize)
        h["namelen"] = _ADDRESS_BYTES
        h["iov"], h["iovlen"] = self._iov.ctypes.data + steps * np.uint64(_IOVEC.itemsize), 1
        h["control"] = self._info.ctypes.data + steps * np.uint64(_PKTINFO.itemsize)
        h["controllen"] = _PKTINFO.itemsize
        self._steps = steps
        self._keep: npt.NDArray[np.uint8] | None = None

    def fill(
        self,
        payload: npt.NDArray[np.uint8],
        addresses: npt.NDArray[np.uint8],
        port: int,
        lengths: npt.NDArray[np.integer] | int,
        interfaces: npt.NDArray[np.integer] | int,
    ) -> None:
        n = len(payload)
        if payload.strides[1] != 1 or payload.strides[0] < 0:
            payload = np.ascontiguousarray(payload)
        self._keep = payload  # the kernel reads it by address
        self._iov["base"][:n] = payload.ctypes.data + self._steps[:n] * np.uint64(payload.strides[0])
        self._iov["len"][:n] = lengths
        self._address["ip"][:n] = addresses
        self._address["port"][:n] = port
        self._info["interface"][:n] = interfaces

    def push(self, fd: int, n: int) -> Sent:
        """Hand over all packets; one that the kernel turns down is stepped over."""
        sent = np.zeros(n, dtype=np.bool_)
        at = unsent = refused = 0
        base = self._header.ctypes.data
        while at < n:
            done = _sendmmsg(fd, base + at * _HEADER.itemsize, n - at, 0)
            if done > 0:
                sent[at : at + done] = True
                at += done
                continue
            code = ctypes.get_errno()
            if code == errno.EINTR:
                continue
            if code in _NO_ROOM:  # more of the same would find no room either
                unsent += n - at
                break
            if code == errno.EBADF:
                raise OutsideError(f"sendmmsg: {os.strerror(code)}")
            refused += 1
            at += 1
        return Sent(sent, unsent, refused)


class _Receiver:
    """The kernel's structures for recvmmsg."""

    def __init__(self, batch: int, size: int) -> None:
        self._payload = np.zeros((batch, size), dtype=np.uint8)
        self._iov = np.zeros(batch, dtype=_IOVEC)
        self._stamp = np.zeros(batch, dtype=_STAMP)
        self._header = np.zeros(batch, dtype=_HEADER)
        steps = np.arange(batch, dtype=np.uint64)
        self._iov["base"] = self._payload.ctypes.data + steps * np.uint64(size)
        self._iov["len"] = size
        h = self._header
        h["iov"], h["iovlen"] = self._iov.ctypes.data + steps * np.uint64(_IOVEC.itemsize), 1
        h["control"] = self._stamp.ctypes.data + steps * np.uint64(_STAMP.itemsize)
        self._batch = batch

    def pull(self, fd: int) -> Arrivals:
        self._header["controllen"] = _STAMP.itemsize
        # MSG_TRUNC: the true length even of what did not fit, so that a cut packet is not taken for a whole one.
        n = _recvmmsg(fd, self._header.ctypes.data, self._batch, socket.MSG_DONTWAIT | socket.MSG_TRUNC, None)
        if n < 0:
            code = ctypes.get_errno()
            if code == errno.EBADF:
                raise OutsideError(f"recvmmsg: {os.strerror(code)}")
            n = 0  # nothing there, or a signal came
        stamp = self._stamp[:n]
        time_ns = stamp["s"] * 1_000_000_000 + stamp["ns"]
        return Arrivals(self._payload[:n], self._header["len"][:n].astype(np.int64), time_ns)
