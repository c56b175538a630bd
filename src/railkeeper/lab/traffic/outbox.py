"""What a node has to send in one wake-up, handed to the socket in one call: control packets, then data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.lab.traffic.wire import HEADER, HEADER_BYTES, MAGIC, RETRANSMIT, VERSION, Type, seal

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.lab.traffic.sender import TxFlow
    from railkeeper.probe.sockets import BatchUdp

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_CONTROL = 256


@dataclass(frozen=True)
class Burst:
    """Data packets of one flow, (n,) each: PSNs, the EVs they were lost on (-1: new), the EVs they take now."""

    flow: TxFlow
    psns: Ints
    lost_on: Ints
    evs: Ints


class Outbox:
    """Buffers for at most `batch` data packets of `size` payload bytes; `interfaces`: (ports of the node,) indices.

    Control packets fill the rows before the data's from the end, so that what is to be sent is one block of rows.
    """

    def __init__(self, size: int, batch: int, interfaces: Ints) -> None:
        n, self._width = _CONTROL + batch, HEADER_BYTES + size
        self._rows = np.zeros((n, self._width), dtype=np.uint8)
        self._rows[_CONTROL:, HEADER_BYTES:] = np.resize(np.arange(251, dtype=np.uint8), size)
        self._head = self._rows[:, :HEADER_BYTES].view(HEADER).reshape(n)[_CONTROL:]
        self._head["magic"], self._head["version"], self._head["type"] = MAGIC, VERSION, Type.DATA
        self._addresses = np.zeros((n, 16), dtype=np.uint8)
        self._ports = np.zeros(n, dtype=np.int64)
        self._lengths = np.full(n, self._width)
        self._interfaces = interfaces
        self._control = _CONTROL
        self._bursts: list[Burst] = []
        self._used = 0
        self.crowded = 0

    @property
    def room(self) -> int:
        """How many more data packets fit."""
        return len(self._head) - self._used

    def add(self, packet: bytes, address: npt.NDArray[np.uint8], port: int) -> None:
        """Queue one control packet for `address` (16,), out of the node's `port`-th NIC port."""
        if not self._control:
            self.crowded += 1
            return
        self._control -= 1
        at = self._control
        self._rows[at, : len(packet)] = np.frombuffer(packet, dtype=np.uint8)
        self._addresses[at], self._ports[at], self._lengths[at] = address, port, len(packet)

    def add_data(self, burst: Burst, *, epoch: int, first_port: int, now_ns: int) -> None:
        """Queue data, at most `room` packets; `first_port`: place of the flow's NIC among the node's ports."""
        flow, evs, n = burst.flow, burst.evs, len(burst.psns)
        own = slice(self._used, self._used + n)
        plane = flow.paths.plane[evs]
        head = self._head[own]
        head["flags"], head["plane"] = np.where(burst.lost_on >= 0, RETRANSMIT, 0), plane
        head["src"], head["dst"], head["epoch"], head["mark"] = flow.src, flow.dst, epoch, flow.cum
        head["ev"], head["t1"], head["psn"], head["time_ns"] = evs, flow.paths.t1[evs], burst.psns, now_ns
        head["seq"] = flow.next_seq + np.arange(n)
        rows = slice(_CONTROL + own.start, _CONTROL + own.stop)
        self._addresses[rows], self._ports[rows] = flow.addresses[evs], first_port + plane
        self._bursts.append(burst)
        self._used += n

    def flush(self, socket: BatchUdp, port: int) -> tuple[int, list[tuple[Burst, Bools, Bools]]]:
        """Send all to UDP `port`.

        Returns how many control packets found no room in the host, and for each burst which packets (n,) have left
        and which (n,) were turned down by a dead port; the rest found no room.
        """
        rows = slice(self._control, _CONTROL + self._used)
        seal(self._rows[_CONTROL : rows.stop])
        result = socket.send(
            self._rows[rows], self._addresses[rows], port, lengths=self._lengths[rows],
            interfaces=self._interfaces[self._ports[rows]],
        )  # fmt: skip
        # What found no room stands at the end of the block: the socket does not go on after it.
        no_room = np.arange(len(result.sent)) >= len(result.sent) - result.unsent
        before = _CONTROL - rows.start
        crowded, self.crowded = self.crowded + int(np.count_nonzero(no_room[:before])), 0
        outcome, at = [], before
        for burst in self._bursts:
            own = slice(at, at + len(burst.psns))
            outcome.append((burst, result.sent[own], ~result.sent[own] & ~no_room[own]))
            at = own.stop
        self._control, self._bursts, self._used = _CONTROL, [], 0
        return crowded, outcome
