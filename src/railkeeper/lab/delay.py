"""Links that take longer: arriving frames make a detour through a TAP and the relay process.

At the receiving end, frames with the neighbour's MAC address as source go to a TAP; the relay gives them back after
the delay under another source address, and the TAP's input is put onto the link again as if it had just arrived. So
filters at the receiving end and shapers at the sending one work on delayed links as on all others, and sockets that
are bound to the interface see what they always see.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError
from railkeeper.lab import names, netns, rtnl
from railkeeper.lab.command import run_all, run_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.lab.plan import LabPlan

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x2, 0x1000
_TIMEOUT_S = 10.0
_QUEUE_FRAMES = 20_000


class Delays:
    """The delayed links of a lab, by the end that receives. Of several on one link the sum counts."""

    def __init__(self, plan: LabPlan) -> None:
        self._plan = plan
        self._wanted: dict[int, dict[str, int]] = defaultdict(dict)
        self._relay: _RelayProcess | None = None
        self._taps = itertools.count(1)

    def add(self, ends: Iterable[int], who: str, delay_ns: int) -> None:
        """Delay what arrives at these ends, on behalf of `who`."""
        relay = self._relay = self._relay or _RelayProcess()
        fresh = []
        for end in ends:
            if not self._wanted[end]:
                fresh.append(end)
            self._wanted[end][who] = delay_ns
            if end not in fresh:
                relay.command({"op": "set", "end": end, "delay_ns": sum(self._wanted[end].values())})
        run_all([partial(self._detour, relay, space, group) for space, group in self._by_space(fresh).items()])

    def remove(self, ends: Iterable[int], who: str) -> None:
        """Take back what `who` wanted."""
        last = []
        for end in ends:
            if self._wanted[end].pop(who, None) is None or self._relay is None:
                continue
            if self._wanted[end]:
                self._relay.command({"op": "set", "end": end, "delay_ns": sum(self._wanted[end].values())})
            else:
                last.append(end)
        run_all([partial(self._straight, space, group) for space, group in self._by_space(last).items()])

    def close(self) -> None:
        """End the relay process."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def _detour(self, relay: _RelayProcess, space: str, ends: list[int]) -> None:
        script = ""
        for end in ends:
            tap = self._add_tap(relay, space, end)
            neighbour = names.mac_of_end(end ^ 1).hex(":")
            script += _DETOUR.format(device=self._device(end), tap=tap, neighbour=neighbour)
        run_in(space, ["tc", "-batch", "-"], script)

    def _add_tap(self, relay: _RelayProcess, space: str, end: int) -> str:
        # A name of its own each time: the kernel needs a while to let go of a TAP.
        tap = f"tap{next(self._taps)}"
        with netns.entered(space):
            fd = _open_tap(tap)
            try:
                relay.command({"op": "set", "end": end, "delay_ns": sum(self._wanted[end].values())}, fd)
            finally:
                os.close(fd)
            with rtnl.RouteSocket() as s:
                s.apply([rtnl.set_tap(socket.if_nametoindex(tap), names.mac_of_end(end), _QUEUE_FRAMES)], space)
        return tap

    def _straight(self, space: str, ends: list[int]) -> None:
        run_in(space, ["tc", "-batch", "-"], "".join(f"qdisc del dev {self._device(end)} clsact\n" for end in ends))
        for end in ends:
            if self._relay is not None:
                self._relay.command({"op": "remove", "end": end})

    def _device(self, end: int) -> str:
        return names.interface_of_end(self._plan.fabric, end)

    def _by_space(self, ends: Iterable[int]) -> dict[str, list[int]]:
        out: dict[str, list[int]] = defaultdict(list)
        for end in ends:
            out[self._plan.name_of_end(end)].append(end)
        return out


_DETOUR = """\
qdisc add dev {tap} clsact
filter add dev {tap} ingress protocol all prio 1 u32 match u32 0 0 action mirred ingress redirect dev {device}
qdisc add dev {device} clsact
filter add dev {device} ingress protocol all prio 1 u32 match ether src {neighbour} \
action mirred egress redirect dev {tap}
"""


def _open_tap(name: str) -> int:
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    except OSError as e:
        raise OutsideError(f"delays need /dev/net/tun: {e.strerror}") from e
    try:
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("=16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    except OSError as e:
        os.close(fd)
        raise OutsideError(f"TAP {name}: {e.strerror}") from e
    return fd


class _RelayProcess:
    """The relay and our end of its control socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "railkeeper.lab.relay", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        ours.settimeout(_TIMEOUT_S)
        self._control = ours
        self._lock = threading.Lock()

    def command(self, command: dict[str, int | str], fd: int | None = None) -> None:
        """Send a command and wait until it is in force."""
        try:
            with self._lock:
                socket.send_fds(self._control, [json.dumps(command).encode()], [] if fd is None else [fd])
                answer = self._control.recv(1)
        except OSError as e:
            raise OutsideError(f"the delay relay does not answer: {e}") from e
        if answer != b"k":
            raise OutsideError("the delay relay has ended")

    def close(self) -> None:
        self._control.close()
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
