"""Ten faults of ten kinds for the fleet of the benchmark, and which findings tell each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.app.bench_fleet import NIC_COUNTERS, Fleet
from railkeeper.app.bench_fleet_kernels import (
    CRC,
    FEC_LOST,
    LINK_DOWNS,
    PFC_RX,
    PFC_RX_US,
    PFC_TX,
    RX_DISCARDS,
    RX_ERRORS,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.health.detect.finding import Finding

Place = tuple[str, int]


@dataclass(frozen=True)
class Fault:
    """One fault.

    - right: places (kind, entity) of which one must be found; near: others that it touches, where findings are no
      false alarm
    - harm: what it does to the fleet after each tick's growth
    """

    name: str
    right: frozenset[Place]
    near: frozenset[Place]
    harm: Callable[[Fleet], None]


def ten_faults(fleet: Fleet) -> list[Fault]:
    """Return the faults of a fleet, in places far from each other."""
    links, hosts = fleet.fabric.n_links, fleet.fabric.n_ports
    host = [int(hosts * share) for share in (0.03, 0.17, 0.29, 0.41)]
    core = [hosts + int((links - hosts) * share) for share in (0.11, 0.53)]
    nic = [int(fleet.fabric.n_nics * share) for share in (0.57, 0.71, 0.83)]
    switch = int(fleet.fabric.n_t0 * 0.37)
    return [
        _on_link(fleet, "damaged frames at one end", host[0], lambda f: _damage(f, 2 * host[0] + 1)),
        _on_link(fleet, "flapping link", core[0], lambda f: _flap(f, core[0])),
        _on_link(fleet, "little FEC margin", core[1], lambda f: _weak(f, 2 * core[1])),
        _on_link(fleet, "discards at a port", host[1], lambda f: _count(f, RX_DISCARDS, [2 * host[1]], 3000)),
        _on_link(fleet, "slow port", host[2], lambda f: _slow(f, host[2])),
        _on_link(fleet, "port down", host[3], lambda f: _down(f, host[3])),
        _on_nic(fleet, "NIC that pauses the fabric", nic[0], lambda f: _storm(f, nic[0])),
        _on_nic(fleet, "RDMA loss of a NIC", nic[1], lambda f: _lossy(f, nic[1])),
        _on_nic(fleet, "half the PCIe lanes", nic[2], lambda f: _lanes(f, nic[2])),
        Fault("unknown micro-SIDs", frozenset({("switch", switch)}), frozenset(), lambda f: _no_sid(f, switch)),
    ]


def missed(faults: list[Fault], findings: list[Finding]) -> list[Fault]:
    """Return the faults of which no finding tells the right place."""
    said = {(f.kind, f.entity) for f in findings}
    return [fault for fault in faults if not fault.right & said]


def unexplained(faults: list[Fault], findings: list[Finding]) -> list[Finding]:
    """Return the findings in places that no fault touches."""
    touched = {place for fault in faults for place in fault.right | fault.near}
    return [f for f in findings if (f.kind, f.entity) not in touched]


def _on_link(fleet: Fleet, name: str, link: int, harm: Callable[[Fleet], None]) -> Fault:
    ends = frozenset({("port", 2 * link), ("port", 2 * link + 1)})
    near = _nic_places(fleet, link // fleet.fabric.planes) if link < fleet.fabric.n_ports else frozenset()
    return Fault(name, ends, near, harm)


def _on_nic(fleet: Fleet, name: str, nic: int, harm: Callable[[Fleet], None]) -> Fault:
    places = _nic_places(fleet, nic)
    return Fault(name, frozenset(p for p in places if p[0] != "node"), places, harm)


def _nic_places(fleet: Fleet, nic: int) -> frozenset[Place]:
    """Return a NIC, its node, and both ends of all its links."""
    links = [nic * fleet.fabric.planes + plane for plane in range(fleet.fabric.planes)]
    node = int(fleet.entities["nic"].owner[nic])
    return frozenset({("nic", nic), ("node", node), *(("port", 2 * li + end) for li in links for end in (0, 1))})


def _count(fleet: Fleet, column: int, ports: list[int], per_s: float) -> None:
    fleet.port_counters[column, ports] += np.uint64(per_s * fleet.tick_s)


def _damage(fleet: Fleet, port: int) -> None:
    for column in (CRC, RX_ERRORS, FEC_LOST):
        _count(fleet, column, [port], 500)


def _flap(fleet: Fleet, link: int) -> None:
    _count(fleet, LINK_DOWNS, [2 * link, 2 * link + 1], 2 / fleet.tick_s)
    fleet.ports.up[2 * link : 2 * link + 2] = fleet.number % 3 != 0


def _weak(fleet: Fleet, port: int) -> None:
    fleet.ports.ber[port] = 1.5e-4


def _slow(fleet: Fleet, link: int) -> None:
    fleet.ports.share[2 * link : 2 * link + 2] = 0.3


def _down(fleet: Fleet, link: int) -> None:
    fleet.ports.up[2 * link : 2 * link + 2] = False


def _storm(fleet: Fleet, nic: int) -> None:
    """Let the NIC hold the network on all planes for half of the time."""
    planes = fleet.fabric.planes
    ends = [2 * (nic * planes + plane) for plane in range(planes)]
    _count(fleet, PFC_TX, ends, 60_000)
    _count(fleet, PFC_RX, [end + 1 for end in ends], 60_000)
    _count(fleet, PFC_RX_US, [end + 1 for end in ends], 500_000)


def _lossy(fleet: Fleet, nic: int) -> None:
    per_s = {"ack_timeouts": 30, "seq_naks_rx": 300, "out_of_sequence_rx": 300, "retransmitted_packets": 900}
    for name, rate in per_s.items():
        fleet.nic_counters[NIC_COUNTERS.index(name), nic] += np.uint64(rate * fleet.tick_s)


def _lanes(fleet: Fleet, nic: int) -> None:
    fleet.nic_gauges[0, nic] = 8


def _no_sid(fleet: Fleet, switch: int) -> None:
    fleet.no_sid[0, switch] += np.uint64(200 * fleet.tick_s)
