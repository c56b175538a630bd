"""Probes per second of one process on one core: sent, received and judged, the kernel's forwarding included.

`run` needs a network that forwards by micro-SIDs, such as a lab, and a way into the namespace of one of its nodes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.base.errors import InputError, OutsideError
from railkeeper.fabric import address
from railkeeper.fabric.paths import PathKind, join_paths, make_paths, outer_addresses
from railkeeper.probe.aggregate import Table
from railkeeper.probe.interfaces import InterfaceReader
from railkeeper.probe.sockets import UDP_NO_CHECK6_TX, BatchUdp
from railkeeper.probe.window import Window
from railkeeper.probe.wire import PROBE_BYTES, make_stamper
from railkeeper.probe.xdp import FrameAddress, XdpSender

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.paths import Paths

    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]
    Send = Callable[[Bytes, Bytes], Flags]  # packets and addresses in, which left out

# `plain` is one system call a packet from Python's own socket: the baseline.
METHODS = ("plain", "udp", "xdp")
MIX = "T0:self and T0:T1:T0:self, one for one"
# The last is what a mapper's agent sends: as many probes to its T0s as to T1s.
ROUTES: dict[str, tuple[PathKind, ...]] = {
    "T0:self": (PathKind.T0_BOUNCE,),
    "T0:T1:T0:self": (PathKind.T1_BOUNCE,),
    "T0:T1:T0:T1:T0:self": (PathKind.FAR_BOUNCE,),
    MIX: (PathKind.T0_BOUNCE, PathKind.T1_BOUNCE),
}
_LAST_TICK_NS = 1_000_000_000  # later than this all of the last tick has come


@dataclass(frozen=True)
class Figure:
    """What one run gave: rates per second of wall time and of processor time, and whether anything was lost."""

    method: str
    route: str
    batch: int
    seconds: float
    probes_per_s: float
    probes_per_cpu_s: float
    sent: int
    judged: int
    lost: int


def run(
    fabric: Fabric,
    enter: Callable[[], None],
    interfaces: Sequence[str],
    *,
    methods: Sequence[str] = METHODS,
    routes: Sequence[str] = tuple(ROUTES),
    seconds: float = 2.0,
    batch: int = 512,
    core: int | None = None,
) -> list[Figure]:
    """Measure as node 0, whose ports are `interfaces`, in a process of its own on one core that calls `enter` first.

    Raises OutsideError when that process fails.
    """

    def work() -> list[dict[str, object]]:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0)) if core is None else core})
        enter()
        gc.freeze()
        return [
            asdict(measure(fabric, interfaces, method, route, seconds=seconds, batch=batch))
            for route in routes
            for method in methods
        ]

    return [Figure(**f) for f in _in_child(work)]


def _in_child(work: Callable[[], list[dict[str, object]]]) -> list[dict[str, Any]]:
    """Return what `work` returns in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with contextlib.suppress(BaseException), os.fdopen(writing, "w") as out:
            json.dump(_told(work), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    result = json.loads(text) if text else "the measuring process died"
    if isinstance(result, str):
        raise OutsideError(f"probe benchmark: {result}")
    return list(result)


def _told(work: Callable[[], list[dict[str, object]]]) -> list[dict[str, object]] | str:
    try:
        return work()
    except Exception as e:  # noqa: BLE001  whatever it was, the parent raises it
        return f"{type(e).__name__}: {e}"


def measure(
    fabric: Fabric, interfaces: Sequence[str], method: str, route: str, *, seconds: float, batch: int
) -> Figure:
    """Measure one way of sending over one route, from node 0's namespace, in this process."""
    with contextlib.ExitStack() as stack:
        paths = join_paths([_paths(fabric, kind) for kind in ROUTES[route]])
        rows = _rows(paths, batch)
        udp = stack.enter_context(BatchUdp(0, batch=batch, size=PROBE_BYTES))
        senders: dict[str, Callable[[], Send]] = {
            "plain": lambda: _plain_send(udp.port, stack),
            "udp": lambda: _udp_send(udp),
            "xdp": lambda: _xdp_send(fabric, interfaces, udp.port, paths.plane[rows], stack),
        }
        send = senders[method]()
        loop = _Loop(fabric, paths, batch, udp, send)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        while time.perf_counter() - began_s < seconds:
            loop.round(time.time_ns())
        loop.judge(time.time_ns() + _LAST_TICK_NS)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return Figure(
        method=method, route=route, batch=batch, seconds=round(wall_s, 3),
        probes_per_s=round(loop.judged / wall_s), probes_per_cpu_s=round(loop.judged / cpu_s), sent=loop.sent,
        judged=loop.judged, lost=loop.sent - loop.judged,
    )  # fmt: skip


class _Loop:
    """Everything an agent does with a probe, as fast as it goes: stamp, send, receive, read, judge."""

    def __init__(self, fabric: Fabric, paths: Paths, batch: int, udp: BatchUdp, send: Send) -> None:
        self._rows = _rows(paths, batch)
        self._stamper = make_stamper(paths)
        table = Table(paths, self._stamper.keys, np.ones(len(paths), dtype=np.bool_))
        self._window = Window(fabric, 0, table, tick_s=0.5, grace_s=0.2, start_ns=time.time_ns() - _LAST_TICK_NS)
        self._packets = np.empty((batch, PROBE_BYTES), dtype=np.uint8)
        self._addresses = outer_addresses(fabric, paths)[self._rows]
        self._udp, self._send, self._batch = udp, send, batch
        self.sent = self.judged = 0

    def round(self, now_ns: int) -> None:
        tick = self._window.tick_at(now_ns)
        seq = self._window.number(tick, self._rows)
        self._stamper.stamp(self._packets, self._rows, tick=tick, time_ns=now_ns, seq=seq)
        left = self._send(self._packets, self._addresses)
        self._window.sent(tick, self._rows[left], 0)
        self.sent += int(left.sum())
        self._drain(now_ns)
        self.judge(now_ns)

    def judge(self, now_ns: int) -> None:
        for report in self._window.close(now_ns):
            self.judged += int(report.stats.received.sum())

    def _drain(self, now_ns: int) -> None:
        while len(got := self._udp.receive()):
            self._window.arrived(got.payload, got.length, got.time_ns, now_ns)
            if len(got) < self._batch:
                return


def _udp_send(udp: BatchUdp) -> Send:
    return lambda packets, addresses: udp.send(packets, addresses, udp.port).sent


def _plain_send(port: int, stack: contextlib.ExitStack) -> Send:
    plain = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    plain.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)

    def send(packets: Bytes, addresses: Bytes) -> Flags:
        targets = [(socket.inet_ntop(socket.AF_INET6, a.tobytes()), port) for a in addresses]
        for packet, target in zip(packets, targets, strict=True):
            plain.sendto(packet, target)
        return np.ones(len(packets), dtype=np.bool_)

    return send


def _xdp_send(
    fabric: Fabric, interfaces: Sequence[str], port: int, planes: npt.NDArray[np.int32], stack: contextlib.ExitStack
) -> Send:
    """Return a function that sends each packet by the interface of its plane."""
    reader = InterfaceReader()
    stack.callback(reader.close)
    there = reader.read()
    by_plane: list[tuple[npt.NDArray[np.intp], XdpSender]] = []
    for plane in np.unique(planes):
        i = there[interfaces[plane]]
        source = address.nic_address(fabric, 0, int(plane))
        sender = XdpSender(
            FrameAddress(i.index, i.mac, reader.neighbour(i.index), source, port), slots=_slots(len(planes))
        )
        by_plane.append((np.flatnonzero(planes == plane), stack.enter_context(sender)))

    def send(packets: Bytes, addresses: Bytes) -> Flags:
        left = np.zeros(len(packets), dtype=np.bool_)
        for rows, sender in by_plane:
            left[rows[: sender.send(packets[rows], addresses[rows])]] = True
        return left

    return send


def _rows(paths: Paths, batch: int) -> npt.NDArray[np.intp]:
    """Paths of each kind as often as of the others, in turn, those of one kind and plane next to each other."""
    kinds = [np.flatnonzero(paths.kind == kind) for kind in np.unique(paths.kind)]
    share = batch // len(kinds)
    rows = np.concatenate([np.resize(mine, share) for mine in kinds])
    return np.sort(np.concatenate([rows, rows[: batch - len(rows)]]))


def _slots(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _paths(f: Fabric, kind: PathKind) -> Paths:
    """Paths of node 0's first NIC: all planes, up to four T1s of each."""
    t1 = np.arange(min(4, f.t1_per_plane))
    plane, t1 = np.repeat(np.arange(f.planes), len(t1)), np.tile(t1, f.planes)
    if kind == PathKind.T0_BOUNCE:
        return make_paths(kind, 0, np.arange(f.planes))
    if kind == PathKind.T1_BOUNCE:
        return make_paths(kind, 0, plane, t1=t1)
    if f.t0_per_plane < 2:
        raise InputError("fabric.t0_per_plane", "is 1", "a far bounce needs another T0")
    return make_paths(kind, 0, plane, t1=t1, far=1 + t1 % (f.t0_per_plane - 1), back=(t1 + 1) % f.t1_per_plane)
