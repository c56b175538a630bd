"""Links that take longer: arriving frames make a detour through a TAP and the relay process.

At the receiving end, frames with the neighbour's MAC address as source go to a TAP; the relay gives them back after
the delay under another source address, and the TAP's input is put onto the link again as if it had just arrived. So
filters at the receiving end and shapers at the sending one work on delayed links as on all others, and sockets that
are bound to the interface see what they always see.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError
from railkeeper.lab import names, netns
from railkeeper.lab.command import run_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.lab.plan import LabPlan

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x2, 0x1000
_TIMEOUT_S = 10.0


class Delays:
    """The delayed links of a lab, by the end that receives. Of several on one link the sum counts."""

    def __init__(self, plan: LabPlan) -> None:
        self._plan = plan
        self._wanted: dict[int, dict[str, int]] = defaultdict(dict)
        self._relay: _RelayProcess | None = None

    def add(self, ends: Iterable[int], who: str, delay_ns: int) -> None:
        """Delay what arrives at these ends, on behalf of `who`."""
        if self._relay is None:
            self._relay = _RelayProcess()
        for end in ends:
            wanted = self._wanted[end]
            fresh = not wanted
            wanted[who] = delay_ns
            if fresh:
                self._detour(self._relay, end, delay_ns)
            else:
                self._relay.command({"op": "set", "end": end, "delay_ns": sum(wanted.values())})

    def remove(self, ends: Iterable[int], who: str) -> None:
        """Take back what `who` wanted."""
        for end in ends:
            wanted = self._wanted[end]
            if wanted.pop(who, None) is None or self._relay is None:
                continue
            if wanted:
                self._relay.command({"op": "set", "end": end, "delay_ns": sum(wanted.values())})
            else:
                self._straight(self._relay, end)

    def close(self) -> None:
        """End the relay process."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def _detour(self, relay: _RelayProcess, end: int, delay_ns: int) -> None:
        space, device, tap = self._where(end)
        with netns.entered(space):
            fd = _open_tap(tap)
        try:
            relay.command({"op": "set", "end": end, "delay_ns": delay_ns}, fd)
        finally:
            os.close(fd)
        run_in(
            space, ["ip", "link", "set", tap, "address", names.mac_of_end(end).hex(":"), "txqueuelen", "20000", "up"]
        )
        neighbour = names.mac_of_end(end ^ 1).hex(":")
        run_in(space, ["tc", "-batch", "-"], _DETOUR.format(device=device, tap=tap, neighbour=neighbour))

    def _straight(self, relay: _RelayProcess, end: int) -> None:
        space, device, _tap = self._where(end)
        run_in(space, ["tc", "qdisc", "del", "dev", device, "clsact"])
        relay.command({"op": "remove", "end": end})

    def _where(self, end: int) -> tuple[str, str, str]:
        device = names.interface_of_end(self._plan.fabric, end)
        return self._plan.name_of_end(end), device, f"tap-{device}"


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

    def command(self, command: dict[str, int | str], fd: int | None = None) -> None:
        """Send a command and wait until it is in force."""
        try:
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
