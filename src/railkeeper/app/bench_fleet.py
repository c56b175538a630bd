"""A whole fleet's telemetry, tick after tick, from faults that are known: what the benchmark feeds the engine.

Jobs of 512 NICs work and pause in turns, every NIC spreads its traffic over all planes, switches over all uplinks. On
good links some packets are damaged, dropped and paused all the same, and every target is read at a moment of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.app.bench_fleet_kernels import ECN, PORT_COUNTERS, TRIMS, grow
from railkeeper.telemetry.entities import NIC_END, Entities
from railkeeper.telemetry.fabric_entities import nic_entities, node_entities, port_entities, switch_entities
from railkeeper.telemetry.frame import ABSENT, Block, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

PORT_GAUGES = ("oper_up", "admin_up", "speed_gbps", "rx_power_dbm[0]")
OPER_UP, ADMIN_UP, SPEED, RX_POWER = range(4)
NIC_COUNTERS = (
    "ack_timeouts", "seq_naks_rx", "out_of_sequence_rx", "retransmitted_packets", "rnr_naks_rx", "no_receive_buffer",
    "ecn_marked_rx", "cnp_tx", "cnp_rx", "icrc_errors", "pcie_correctable_errors", "pcie_replays",
)  # fmt: skip
# Events a second of a NIC at work.
_NIC_PER_S = (2e-3, 2e-3, 5e-2, 5e-2, 1e-3, 1e-3, 2000.0, 900.0, 900.0, 0.0, 1e-4, 1e-3)
NIC_GAUGES = ("pcie_width", "pcie_width_max", "pcie_speed_gts", "pcie_speed_max_gts")
_NIC_IS = (16.0, 16.0, 32.0, 32.0)
ENTITIES = {"port": port_entities, "nic": nic_entities, "node": node_entities, "switch": switch_entities}
START_S = 1_700_000_000.0
JITTER_S = 0.2
JOB_NICS = 512


@dataclass
class Ports:
    """What the ports' growth comes from; faults change it.

    - share: (n,) what an end sends to what it should; up: (n,) bool; ber: (n,) bits repaired to the bit
    """

    share: npt.NDArray[np.float32]
    up: npt.NDArray[np.bool_]
    ber: npt.NDArray[np.float32]


class Fleet:
    """All telemetry of a fabric. `tick` makes the next frame in arrays that are used again: it holds until the next."""

    def __init__(self, fabric: Fabric, tick_s: float, seed: int = 1) -> None:
        self.fabric, self.tick_s, self.seed, self.number = fabric, tick_s, seed, 0
        self.entities: dict[str, Entities] = {kind: make(fabric) for kind, make in ENTITIES.items()}
        chance = np.random.default_rng(seed)
        n = len(self.entities["port"])
        ber = np.clip(chance.lognormal(math.log(1e-9), 1.2, n), 1e-12, 1e-7).astype(np.float32)
        self.ports = Ports(np.ones(n, dtype=np.float32), np.ones(n, dtype=np.bool_), ber)
        self.port_counters = np.zeros((len(PORT_COUNTERS), n), dtype=np.uint64)
        self.port_counters[:] = chance.integers(0, 10**9, n, dtype=np.uint64)
        self.nic_counters = chance.integers(0, 10**6, (len(NIC_COUNTERS), fabric.n_nics), dtype=np.uint64)
        self.nic_per_s = np.tile(np.array(_NIC_PER_S)[:, None], (1, fabric.n_nics))
        self.nic_gauges = np.tile(np.array(_NIC_IS, dtype=np.float32)[:, None], (1, fabric.n_nics))
        self.no_sid = np.zeros((1, len(self.entities["switch"])), dtype=np.uint64)
        self._no_switch = self.entities["port"].role == NIC_END
        self.port_counters[ECN, self._no_switch] = self.port_counters[TRIMS, self._no_switch] = ABSENT
        self.port_gauges = np.ones((len(PORT_GAUGES), n), dtype=np.float32)
        self.port_gauges[SPEED] = fabric.link_gbps
        self.port_gauges[RX_POWER] = chance.normal(0.5, 0.4, n)
        self.harms: list[Callable[[Fleet], None]] = []
        self._sampled = {kind: np.full(len(e), self._now_ns(0)) for kind, e in self.entities.items()}

    def _now_ns(self, number: int) -> int:
        return int((START_S + number * self.tick_s) * 1e9)

    def tick(self) -> Frame:
        """Let everything grow by one tick, then each of the `harms` do its own, and return the frame."""
        self.number += 1
        chance = np.random.default_rng((self.seed, self.number))
        before = self._sampled["port"]
        self._sampled = self._sample(chance)
        seconds = ((self._sampled["port"] - before) * 1e-9).astype(np.float32)
        load = self._load(chance) * self.ports.share
        grow(
            self.port_counters, self.seed * 1_000_003 + self.number, self.fabric.link_gbps, self.fabric.n_ports,
            load, self.ports.up, self.ports.ber, seconds,
        )  # fmt: skip
        self.nic_counters += chance.poisson(self.nic_per_s * self.tick_s).astype(np.uint64)
        for harm in self.harms:
            harm(self)
        self.port_gauges[OPER_UP] = self.ports.up
        return self._frame()

    def _sample(self, chance: np.random.Generator) -> dict[str, npt.NDArray[np.int64]]:
        """Return when each entity is read: everything of a node or a switch at once."""
        now, ports = self._now_ns(self.number), self.entities["port"]
        late = {k: (chance.random(len(self.entities[k])) * JITTER_S * 1e9).astype(np.int64) for k in ("node", "switch")}
        node, switch = now - late["node"], now - late["switch"]
        nic = node[self.entities["nic"].owner]
        at_nic = nic[np.where(self._no_switch, ports.owner, 0)]
        at_switch = switch[np.where(self._no_switch, 0, ports.owner)]
        port = np.where(self._no_switch, at_nic, at_switch)
        return {"node": node, "switch": switch, "nic": nic, "port": port}

    def _load(self, chance: np.random.Generator) -> npt.NDArray[np.float32]:
        """Return (n,) what each end sends, to its speed: jobs at work and at rest; uplinks share what planes carry."""
        fabric, load = self.fabric, np.empty(len(self.ports.share), dtype=np.float32)
        jobs = -(-fabric.n_nics // JOB_NICS)
        phase = (self.number * self.tick_s / 300 + np.arange(jobs) * 0.37) % 1.0
        busy = np.where(phase < 0.15, 0.002, 0.45 + 0.1 * np.sin(2 * np.pi * phase)).astype(np.float32)
        nic = np.repeat(busy, JOB_NICS)[: fabric.n_nics] * chance.normal(1, 0.03, fabric.n_nics).astype(np.float32)
        load[: 2 * fabric.n_ports] = np.repeat(np.maximum(nic, 0), 2 * fabric.planes)
        load[2 * fabric.n_ports :] = busy.mean()
        return load

    def _frame(self) -> Frame:
        blocks = {
            "port": self._block("port", PORT_COUNTERS, self.port_counters, PORT_GAUGES, self.port_gauges),
            "nic": self._block("nic", NIC_COUNTERS, self.nic_counters, NIC_GAUGES, self.nic_gauges),
            "switch": self._block("switch", ("srv6_no_sid_drops",), self.no_sid, (), None),
        }
        return Frame(START_S + self.number * self.tick_s, blocks)

    def _block(
        self, kind: str, names: tuple[str, ...], counters: npt.NDArray[np.uint64], gauge_names: tuple[str, ...],
        gauges: npt.NDArray[np.float32] | None,
    ) -> Block:  # fmt: skip
        n = len(self.entities[kind])
        none = np.empty((0, n), dtype=np.float32)
        return Block(
            self.entities[kind], self._sampled[kind], names, np.full(len(names), 64, dtype=np.uint8), counters,
            gauge_names, none if gauges is None else gauges,
        )  # fmt: skip


def values_in(frame: Frame) -> int:
    """Return how many counter values a frame has: those that are there."""
    return sum(int(np.count_nonzero(row != np.uint64(ABSENT))) for b in frame.blocks.values() for row in b.counters)
