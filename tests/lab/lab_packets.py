"""A plain sender and receiver of stamped UDP packets in a lab, and the fabrics that tests build."""

import os
import socket
import struct
import time
import zlib
from dataclasses import dataclass

from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import PathKind, make_paths, outer_addresses
from railkeeper.fabric.spec import parse_spec
from railkeeper.lab import names, netns

PORT = 9100
_IPPROTO_UDP, _NO_CHECK6_TX, _NO_CHECK6_RX = 17, 101, 102
_RCVBUFFORCE = 33
_BATCH = 16


def fabric_of(*, optics="", **shape):
    lines = "\n".join(f"{key} = {value}" for key, value in shape.items())
    return Fabric(parse_spec(f"[fabric]\n{lines}\n{optics}"))


def small_fabric():
    """Two planes of 2 + 2 switches, 4 nodes of one NIC, two ports an optic."""
    optics = "[optics]\nnic_ports_per_optic = 2\nt0_ports_per_optic = 2"
    return fabric_of(planes=2, t0_per_plane=2, t1_per_plane=2, nics_per_t0=2, optics=optics)


def fault(fabric, **fields):
    return parse_fault(fabric, {"id": "f", **fields}, where="test")


def t0_bounce(src, plane):
    return make_paths(PathKind.T0_BOUNCE, src, plane)


def t1_bounce(src, plane, t1):
    return make_paths(PathKind.T1_BOUNCE, src, plane, t1=t1)


def oneway(src, dst, plane, t1):
    return make_paths(PathKind.ONEWAY, src, plane, dst=dst, t1=t1)


@dataclass
class Seen:
    sent: int
    good: int
    corrupt: int
    least_ms: float
    most_ms: float

    @property
    def lost(self):
        return self.sent - self.good - self.corrupt


def udp_socket(lab, node, *, device=None, zero_checksum=True):
    with netns.entered(names.node_ns(lab.prefix, node)):
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    if zero_checksum:
        s.setsockopt(_IPPROTO_UDP, _NO_CHECK6_TX, 1)
        s.setsockopt(_IPPROTO_UDP, _NO_CHECK6_RX, 1)
    if device:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    s.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, 1 << 22)
    s.bind(("::", PORT))
    s.setblocking(False)
    return s


def send_over(lab, path, count=200, *, pps=20_000, wait_s=0.3, device=None, zero_checksum=True):
    """Send stamped packets along one path and count what arrives at its end."""
    src, dst = (int(lab.fabric.node_of(n[0])) for n in (path.src, path.dst))
    out = udp_socket(lab, src, device=device, zero_checksum=zero_checksum)
    home = out if dst == src else udp_socket(lab, dst)
    address = socket.inet_ntop(socket.AF_INET6, outer_addresses(lab.fabric, path)[0].tobytes())
    with out, home:
        return _exchange(out, home, (address, PORT), count, pps, wait_s)


def _exchange(out, home, to, count, pps, wait_s):
    sent, arrived = 0, []
    start = time.monotonic()
    for i in range(count):
        try:
            out.sendto(_packet(), to)
            sent += 1
        except OSError:
            pass  # no route: the port is down
        if i % _BATCH == 0:
            arrived += _drain(home)
            time.sleep(max(0.0, start + i / pps - time.monotonic()))
    quiet_since = time.monotonic()
    while len(arrived) < sent and time.monotonic() < quiet_since + wait_s:
        more = _drain(home)
        if more:
            arrived += more
            quiet_since = time.monotonic()
        time.sleep(0.001)
    good = [ms for ok, ms in arrived if ok]
    return Seen(sent, len(good), len(arrived) - len(good), min(good, default=0.0), max(good, default=0.0))


def _packet():
    body = os.urandom(200)
    return struct.pack("<dI36x", time.time(), zlib.crc32(body)) + body


def _drain(home):
    out = []
    while True:
        try:
            data = home.recv(4096)
        except BlockingIOError:
            return out
        stamp, crc = struct.unpack_from("<dI", data)
        out.append((zlib.crc32(data[48:]) == crc, 1e3 * (time.time() - stamp)))
