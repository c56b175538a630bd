"""Reads the counters of all ports of a lab, NICs' and switches', as the kernel keeps them: one dump a namespace.

What a fault of the lab drops by a filter is in no counter: so it is with a gray switch. A switch whose management is
down says nothing.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import OutsideError
from railkeeper.lab import names, netns, rtnl
from railkeeper.lab.switchread import allow_files
from railkeeper.telemetry.frame import ABSENT, NO_TIME

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.lab.build import Lab

# Columns, in the order of `struct rtnl_link_stats64`; the losses of carrier come from an attribute of their own.
STATS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_discards", "tx_discards")
COLUMNS = (*STATS, "link_downs")
_LO = 1
_OPERSTATE, _STATS64, _CARRIER, _CARRIER_DOWN_COUNT = 16, 23, 33, 48
_OPER_UP = 6
_HEAD = struct.Struct("=iI")
_U32 = struct.Struct("=I")
_U64S = struct.Struct(f"={len(STATS)}Q")


@dataclass(frozen=True)
class PortCounters:
    """Counters of the ends of all links, by 2 * link + end.

    - t_ns: (n,) int64 unix time of the reading, NO_TIME where nothing was read
    - counters: (len(COLUMNS), n) uint64, ABSENT where nothing was read; up: (n,) int8: 1, 0, -1 unread
    """

    t_ns: npt.NDArray[np.int64]
    counters: npt.NDArray[np.uint64]
    up: npt.NDArray[np.int8]


class CounterReader:
    """One netlink socket in each namespace."""

    def __init__(self, lab: Lab) -> None:
        self._fabric = lab.fabric
        plan = lab.plan
        self._switches_from = lab.fabric.n_nodes
        spaces = range(plan.n_spaces)
        self._ends = [{names.index_of_end(lab.fabric, end): end for end in plan.space(i).ends} for i in spaces]
        self._sockets: list[rtnl.RouteSocket] = []
        allow_files(plan.n_spaces)
        with netns.own_restored():
            for i in spaces:
                netns.enter(plan.space_names[i])
                self._sockets.append(rtnl.RouteSocket())
        lab.at_close(self.close)

    def close(self) -> None:
        """Give the sockets back; again is no error."""
        for s in self._sockets:
            s.close()
        self._sockets = []

    def read(self) -> PortCounters:
        """Return all counters now."""
        n = 2 * self._fabric.n_links
        found = PortCounters(
            np.full(n, NO_TIME, dtype=np.int64),
            np.full((len(COLUMNS), n), ABSENT, dtype=np.uint64),
            np.full(n, -1, dtype=np.int8),
        )
        for i, s in enumerate(self._sockets):
            self._read(s, i, found)
        return found

    def _read(self, s: rtnl.RouteSocket, space: int, found: PortCounters) -> None:
        try:
            s.ask(rtnl.dump_links(statistics=True))
            seen = [_link(body) for kind, body in s.answers() if kind == rtnl.NEWLINK]
        except (OSError, OutsideError):
            return
        if space >= self._switches_from and not any(index == _LO and up for index, up, _ in seen):
            return
        now = time.time_ns()
        for index, up, values in seen:
            end = self._ends[space].get(index)
            if end is not None and values is not None:
                found.t_ns[end], found.up[end] = now, int(up)
                found.counters[:, end] = values


def _link(body: memoryview) -> tuple[int, bool, tuple[int, ...] | None]:
    """Return (number, passes packets, counters); None where the kernel gives no statistics."""
    index, flags = _HEAD.unpack_from(body, 4)
    said = rtnl.attributes(body, 16)
    running = _OPERSTATE in said and said[_OPERSTATE][0] == _OPER_UP
    carrier = _CARRIER in said and said[_CARRIER][0] == 1
    # The state follows the carrier a little later; `lo` is running in a state of its own.
    up = bool(flags & rtnl.IFF_UP) and ((running and carrier) or index == _LO)
    if _STATS64 not in said:
        return index, up, None
    downs = _U32.unpack_from(said[_CARRIER_DOWN_COUNT])[0] if _CARRIER_DOWN_COUNT in said else 0
    return index, up, (*_U64S.unpack_from(said[_STATS64]), downs)


def pack_counters(read: PortCounters) -> dict[str, bytes]:
    """Return counters as bytes by column."""
    return {name: column.tobytes() for name, column in vars(read).items()}


def unpack_counters(columns: dict[str, bytes]) -> PortCounters:
    """Return the counters of such bytes."""
    t_ns = np.frombuffer(columns["t_ns"], dtype=np.int64)
    counters = np.frombuffer(columns["counters"], dtype=np.uint64).reshape(len(COLUMNS), len(t_ns))
    return PortCounters(t_ns, counters, np.frombuffer(columns["up"], dtype=np.int8))
