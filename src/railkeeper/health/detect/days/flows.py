"""What flows on simulated days: bytes on every port, and the congestion that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.entities import NIC_END, T0_HOST, T0_UPLINK, T1_DOWN

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.days.jobs import Demand
    from railkeeper.telemetry.entities import Entities

    Doubles = npt.NDArray[np.float64]
    Columns = dict[str, Doubles]

PACKET_BYTES = 4150.0
KEEPALIVE_PER_S = 20.0


@dataclass(frozen=True)
class Paths:
    """How unevenly paths are used, all the time: (n_links,) factors about 1 of each direction."""

    up: Doubles
    down: Doubles


def draw_paths(fabric: Fabric, rng: np.random.Generator) -> Paths:
    """Return factors of equal paths: hashing and path sets are never quite even."""
    up, down = rng.lognormal(0.0, 0.03, (2, fabric.n_links))
    return Paths(up, down)


def bytes_on_ports(
    fabric: Fabric, demand: Demand, paths: Paths, up: npt.NDArray[np.bool_], rng: np.random.Generator
) -> Doubles:
    """Return (n_links, 2) bytes per s that the lower and the upper end of each link send; `up` says which work."""
    hosts, line = fabric.n_ports, fabric.link_gbps * 1e9 / 8
    nic, t0 = np.arange(hosts) // fabric.planes, fabric.link_upper[:hosts]
    out = np.zeros((fabric.n_links, 2))
    works = up[:hosts] * rng.lognormal(0.0, 0.01, hosts)
    spread = works / np.maximum(np.bincount(nic, works, fabric.n_nics), 1e-9)[nic] * fabric.planes
    out[:hosts, 0] = demand.sends[nic] * spread * line
    out[:hosts, 1] = demand.receives[nic] * spread * line
    lower, upper = fabric.link_lower[hosts:], fabric.link_upper[hosts:]
    for end, factor in ((0, paths.up), (1, paths.down)):
        leaves = np.bincount(t0, out[:hosts, end] * demand.crosses[nic], fabric.n_t0)
        weight = up[hosts:] * factor[hosts:] * rng.lognormal(0.0, 0.02, fabric.n_fabric_links)
        out[hosts:, end] = leaves[lower] * weight / np.maximum(np.bincount(lower, weight, fabric.n_t0), 1e-9)[lower]
    del upper
    return np.minimum(out, 0.98 * line)


def flow_columns(ports: Entities, sent: Doubles, gbps: float, rng: np.random.Generator) -> Columns:
    """Return bytes, packets and marks of every port; `sent` is (n_links, 2)."""
    tx, rx = sent.reshape(-1), sent[:, ::-1].reshape(-1)
    line = gbps * 1e9 / 8
    switch = ports.role != NIC_END
    packets = tx / PACKET_BYTES + rx / PACKET_BYTES / 16 + KEEPALIVE_PER_S
    other = rx / PACKET_BYTES + tx / PACKET_BYTES / 16 + KEEPALIVE_PER_S
    load = np.maximum(tx / line - 0.5, 0.0)
    marks = packets * 0.03 * load * rng.lognormal(0.0, 0.7, len(tx)) * switch
    waits = tx / line * 1e4 * rng.lognormal(0.0, 0.5, len(tx))
    fill = (2e4 + 6e5 * load) * rng.lognormal(0.0, 0.5, len(tx))
    return {
        "tx_bytes": tx, "rx_bytes": rx, "tx_packets": packets, "rx_packets": other, "xmit_wait": waits,
        "ecn_marked_packets[3]": np.where(switch, marks, np.nan),
        "trim_packets": np.where(switch, marks * 1e-3, np.nan),
        "queue_watermark_bytes[3]": np.where(switch, fill, np.nan),
        "pg_watermark_bytes[3]": np.where(switch, fill * 0.7, np.nan),
        "pg_headroom_watermark_bytes[3]": np.where(switch, fill * 0.01, np.nan),
    }  # fmt: skip


def congest(ports: Entities, columns: Columns, hot: Doubles, incast: Doubles, rng: np.random.Generator) -> None:
    """Add hot spots in the fabric and incast at hosts, in place; strengths (n,) of ports that send.

    Incast fills the queue of the T0's host-facing port; the T0 marks, trims, drops a few, and pauses its uplinks now
    and then.
    """
    n = len(ports)
    hot = np.where((ports.role == T0_UPLINK) | (ports.role == T1_DOWN), hot, 0.0)
    incast = np.where(ports.role == T0_HOST, incast, 0.0) * (columns["tx_bytes"] > 1e8)
    struck, packets = hot + incast, columns["tx_packets"]
    noise = rng.lognormal(0.0, 0.3, n)
    columns["ecn_marked_packets[3]"] += packets * 0.3 * struck * noise
    columns["trim_packets"] += packets * (0.01 * hot + 0.1 * incast) * noise
    columns["queue_watermark_bytes[3]"] += 8e6 * struck * noise
    columns["tx_discards"] += packets * 2e-5 * incast * noise
    columns["queue_drops[3]"] += packets * 2e-5 * struck * noise
    holds = np.zeros(int(ports.owner.max()) + 1)
    np.maximum.at(holds, ports.owner[ports.role == T0_HOST], incast[ports.role == T0_HOST])
    paused = np.where(ports.role == T0_UPLINK, holds[ports.owner] * 3e4, 0.0) * noise
    columns["pfc_tx_paused_us[3]"] += paused
    columns["pfc_rx_paused_us[3]"] += paused[ports.other]


def hold(ports: Entities, columns: Columns, strength: Doubles) -> None:
    """Let NICs hold their T0 for a moment, in place; (n,) strengths of NIC ports."""
    share = np.where(ports.role == NIC_END, strength, 0.0) * 4e5
    columns["pfc_tx_paused_us[3]"] += share
    columns["pfc_rx_paused_us[3]"] += share[ports.other]
    columns["rx_discards"] += share * 1e-6


def frames_of_pause(columns: Columns) -> None:
    """Set pause frames from paused time: a pair for each 50 us."""
    for way in ("rx", "tx"):
        columns[f"pfc_{way}_frames[3]"] = columns[f"pfc_{way}_paused_us[3]"] / 25.0
