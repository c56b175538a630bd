"""Reads the ports of all switches of a lab, as a switch's management would report them: one short dump per switch.

A switch whose management is down (its `lo`, as during a reboot) does not answer, and nothing is said of its ports. The
NICs' ends are left unread: their agents report those.
"""

from __future__ import annotations

import resource
import struct
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError
from railkeeper.lab import names, netns, rtnl
from railkeeper.telemetry.ports import DOWN, UP, PortStates, unread_ports

if TYPE_CHECKING:
    from types import TracebackType

    from railkeeper.lab.build import Lab
    from railkeeper.lab.plan import LabPlan

_LO = 1
_OPERSTATE, _CARRIER, _CARRIER_DOWN_COUNT = 16, 33, 48
_OPER_UP = 6
_HEAD = struct.Struct("=iI")
_ATTR = struct.Struct("=HH")
_U32 = struct.Struct("=I")


class SwitchReader:
    """One netlink socket in each switch's namespace."""

    def __init__(self, lab: Lab) -> None:
        self._plan: LabPlan = lab.plan
        f = lab.fabric
        self._spaces = range(f.n_nodes, lab.plan.n_spaces)
        self._ends = [
            {names.index_of_end(f, end): end for end in self._plan.space(space).ends} for space in self._spaces
        ]
        self._sockets: list[rtnl.RouteSocket] = []
        allow_files(len(self._spaces))
        with netns.own_restored():
            for space in self._spaces:
                netns.enter(self._plan.space_names[space])
                self._sockets.append(rtnl.RouteSocket())
        lab.at_close(self.close)

    def __enter__(self) -> SwitchReader:  # noqa: PYI034 (not made to be inherited from)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the sockets back; again is no error."""
        for s in self._sockets:
            s.close()
        self._sockets = []

    def read(self) -> PortStates:
        """Return the state of all switch ports now."""
        states = unread_ports(self._plan.fabric)
        for i, s in enumerate(self._sockets):
            try:
                s.ask(rtnl.dump_links())
                seen = [_link(body) for kind, body in s.answers() if kind == rtnl.NEWLINK]
            except (OSError, OutsideError):
                seen = []
            answers = any(index == _LO and up for index, up, _, _ in seen)
            states.switch_answers[i] = int(answers)
            if answers:
                self._note(states, self._ends[i], seen)
        return states

    def _note(self, states: PortStates, ends: dict[int, int], seen: list[tuple[int, bool, bool, int]]) -> None:
        for index, up, carrier, downs in seen:
            end = ends.get(index)
            if end is not None:
                link, upper = divmod(end, 2)
                (states.upper if upper else states.lower)[link] = UP if up and carrier else DOWN
                (states.upper_downs if upper else states.lower_downs)[link] = downs


def allow_files(more: int) -> None:
    """Let this process hold so many more files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = more + 1024
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def _link(body: memoryview) -> tuple[int, bool, bool, int]:
    """Return (number, set up, carrier, losses of carrier); stops at the last attribute that is wanted."""
    index, flags = _HEAD.unpack_from(body, 4)
    running, carrier, downs = False, False, 0
    at, end = 16, len(body)
    while at + 4 <= end:
        size, kind = _ATTR.unpack_from(body, at)
        if kind == _OPERSTATE:
            running = body[at + 4] == _OPER_UP
        elif kind == _CARRIER:
            carrier = body[at + 4] == 1
        elif kind == _CARRIER_DOWN_COUNT:
            downs = _U32.unpack_from(body, at + 4)[0]
            break
        at += max(4, (size + 3) & ~3)
    return index, bool(flags & rtnl.IFF_UP), running and carrier, downs
