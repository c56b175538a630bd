"""What a node has to send in one wake-up, handed to the socket in two calls: control packets, then data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.lab.traffic.wire import HEADER, HEADER_BYTES, MAGIC, RETRANSMIT, SACK_BYTES, VERSION, Type, seal

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.lab.traffic.sender import TxFlow
    from railkeeper.probe.sockets import BatchUdp

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Outbox:
    """Buffers for at most `batch` data packets of `size` payload bytes; `interfaces`: (ports of the node,) indices."""

    def __init__(self, size: int, batch: int, interfaces: npt.NDArray[np.int64]) -> None:
        self._rows = np.zeros((batch, HEADER_BYTES + size), dtype=np.uint8)
        self._rows[:, HEADER_BYTES:] = np.resize(np.arange(251, dtype=np.uint8), size)
        self._head = self._rows[:, :HEADER_BYTES].view(HEADER).reshape(batch)
        self._head["magic"], self._head["version"], self._head["type"] = MAGIC, VERSION, Type.DATA
        self._control: list[tuple[bytes, bytes, int]] = []
        self._interfaces = interfaces
        self.batch = batch

    def add(self, packet: bytes, address: npt.NDArray[np.uint8], port: int) -> None:
        """Queue one control packet for `address` (16,), out of the node's `port`-th NIC port."""
        self._control.append((packet, address.tobytes(), int(self._interfaces[port])))

    def flush(self, socket: BatchUdp, port: int) -> int:
        """Send the queued control packets to UDP `port`; return how many found no room in the host."""
        queue, self._control = self._control, []
        if not queue:
            return 0
        rows = np.frombuffer(b"".join(p.ljust(SACK_BYTES, b"\0") for p, _, _ in queue), dtype=np.uint8)
        addresses = np.frombuffer(b"".join(a for _, a, _ in queue), dtype=np.uint8).reshape(-1, 16)
        lengths = np.array([len(p) for p, _, _ in queue])
        interfaces = np.array([i for _, _, i in queue])
        result = socket.send(
            rows.reshape(-1, SACK_BYTES), addresses, port, lengths=lengths, interfaces=interfaces
        )  # fmt: skip
        return result.unsent

    def send_data(
        self, socket: BatchUdp, port: int, flow: TxFlow, packets: tuple[Ints, Ints, Ints], *, epoch: int,
        first_port: int, now_ns: int,
    ) -> tuple[Bools, int]:  # fmt: skip
        """Send data packets of a flow: (PSNs, EVs they were lost on, EVs), each (n,), n at most `batch`.

        `first_port`: place of the flow's NIC among the node's ports. Returns which left (n,) and how many found no
        room; those stand at the end.
        """
        psns, lost_on, evs = packets
        n = len(psns)
        head = self._head[:n]
        plane = flow.paths.plane[evs]
        head["flags"], head["plane"] = np.where(lost_on >= 0, RETRANSMIT, 0), plane
        head["src"], head["dst"], head["epoch"], head["mark"] = flow.src, flow.dst, epoch, flow.cum
        head["ev"], head["t1"], head["psn"], head["time_ns"] = evs, flow.paths.t1[evs], psns, now_ns
        head["seq"] = flow.next_seq + np.arange(n)
        seal(self._rows[:n])
        result = socket.send(
            self._rows[:n], flow.addresses[evs], port, interfaces=self._interfaces[first_port + plane]
        )  # fmt: skip
        return result.sent, result.unsent
