"""Service level indicators: how much of what was seen in a tick was good, in every scope.

Each is a pair (good, total); where nothing was seen the total is 0, and nothing is said. The form follows Google's SRE
Workbook, chapter 2: good events over valid events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.model import DOWN, UP
from railkeeper.health.slo.scopes import Amounts
from railkeeper.probe.pathstats import HIST_EDGES_NS
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.slo.scopes import Scopes
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.frame import Rates

    Floats = npt.NDArray[np.float64]
    OfPorts = tuple[npt.NDArray[np.intp], Floats, Floats]
    Ids = npt.NDArray[np.int64]

# name -> (what is counted, what is good)
SLIS = {
    "packet-loss": ("probes sent", "those that came back whole"),
    "delivery": ("packets that ports received or sent", "those neither damaged nor dropped"),
    "congestion": ("packets received by NICs", "those neither marked nor trimmed"),
    "link-health": ("links seen, a tick each", "those up and without a fault"),
    "path-diversity": ("paths between NICs of different T0s", "those that cross no broken or denied link"),
    "bandwidth": ("rates measured", "those of at least `bandwidth_share` of the nominal"),
    "tail-latency": ("probes that came back", "those within `latency_us`"),
    "collective": ("ticks in which a collective ran", "those with at least `busbw_share` of its usual bus bandwidth"),
    "job-impact": ("GPU-seconds of jobs", "those not lost to slow collectives"),
}
NAMES = tuple(SLIS)


@dataclass(frozen=True)
class SliConfig:
    """Where good ends.

    - latency_us: a probe that takes longer is slow; taken at the next edge of the histogram above
    - bandwidth_share: of the nominal rate; busbw_share: of a collective's own usual bus bandwidth
    - groups_per_pod: T0 groups of a pod; 0: no pods
    - gpus_per_node: for GPU-seconds
    """

    latency_us: float = 10_000.0
    bandwidth_share: float = 0.9
    busbw_share: float = 0.8
    groups_per_pod: int = 0
    gpus_per_node: int = 8


def loss(fabric: Fabric, scopes: Scopes, stats: PathStats) -> Floats:
    """Return (n_scopes, 2) of probes: those that came back whole, and all; `stats` are joined rows."""
    known = (stats.sent >= 0) & (stats.received >= 0)
    s = stats if known.all() else stats.take(known)
    return scopes.tally(_of_paths(fabric, s, s.received, s.sent))


def latency(fabric: Fabric, scopes: Scopes, stats: PathStats, latency_us: float) -> Floats:
    """Return (n_scopes, 2) of arrivals: those in time, and all."""
    bins = int(np.searchsorted(HIST_EDGES_NS, latency_us * 1e3)) + 1
    hist = stats.delay_hist
    return scopes.tally(_of_paths(fabric, stats, hist[:, :bins].sum(axis=1), hist.sum(axis=1)))


def bandwidth(fabric: Fabric, scopes: Scopes, stats: PathStats, least_bps: float) -> Floats:
    """Return (n_scopes, 2) of measured rates: those that are enough, and all."""
    seen = ~np.isnan(stats.train_bps)
    s = stats.take(seen)
    return scopes.tally(_of_paths(fabric, s, s.train_bps >= least_bps, np.ones(len(s))))


def _of_paths(fabric: Fabric, stats: PathStats, good: npt.ArrayLike, total: npt.ArrayLike) -> Amounts:
    p = stats.paths
    src = p.src.astype(np.int64)
    return Amounts(
        good=np.asarray(good, dtype=np.float64), total=np.asarray(total, dtype=np.float64),
        plane=p.plane.astype(np.int64), rail=fabric.nic_rail[src].astype(np.int64),
        t0=fabric.nic_t0_index[src].astype(np.int64), node=fabric.node_of(src).astype(np.int64),
    )  # fmt: skip


def link_health(fabric: Fabric, scopes: Scopes, seen: npt.NDArray[np.bool_], bad: npt.NDArray[np.bool_]) -> Floats:
    """Return (n_scopes, 2) of links: those seen and well, and all that were seen; `seen`, `bad` are (n_links,)."""
    links = np.flatnonzero(seen)
    host = links < fabric.n_ports
    t0 = np.where(host, fabric.link_upper[links], fabric.link_lower[links]).astype(np.int64)
    rail, plane = np.divmod(fabric.domain_of_t0(t0).astype(np.int64), fabric.planes)
    node = np.where(host, fabric.node_of(links // fabric.planes), -1).astype(np.int64)
    return scopes.tally(
        Amounts((~bad[links]).astype(np.float64), np.ones(len(links)), plane, rail, t0 % fabric.t0_per_plane, node)
    )


def path_diversity(fabric: Fabric, scopes: Scopes, broken: Ids) -> Floats:
    """Return (n_scopes, 2) of T0-T1-T0 paths between NICs of different T0s: the surviving, and all.

    `broken` are directed links that are dead or denied. Paths are counted at their source: in closed form, since NICs
    of a T0 differ only by their own links. A job's scope counts those from its NICs to all others.
    """
    alive = np.ones((fabric.n_links, 2), dtype=np.float64)
    alive.reshape(-1)[np.asarray(broken, dtype=np.int64)] = 0.0
    f, hosts = fabric, fabric.n_ports
    up, down = (alive[hosts:, way].reshape(f.n_domains, f.t0_per_plane, f.t1_per_plane) for way in (UP, DOWN))
    port_t0 = f.link_upper[:hosts]
    takes = np.bincount(port_t0, weights=alive[:hosts, DOWN], minlength=f.n_t0).reshape(f.n_domains, f.t0_per_plane, 1)
    arriving = takes * down
    # What a packet that went up to T1 j from T0 i can reach: all NICs below j, less those under i itself.
    reach = (up * (arriving.sum(axis=1, keepdims=True) - arriving)).sum(axis=2).reshape(-1)
    good = alive[:hosts, UP] * reach[port_t0]
    full = float(f.t1_per_plane * f.nics_per_t0 * (f.t0_per_plane - 1))
    nic, plane = np.divmod(np.arange(hosts), f.planes)
    return scopes.tally(
        Amounts(
            good, np.full(hosts, full), plane.astype(np.int64), f.nic_rail[nic].astype(np.int64),
            f.nic_t0_index[nic].astype(np.int64), f.node_of(nic).astype(np.int64),
        )
    )  # fmt: skip


def congestion(fabric: Fabric, scopes: Scopes, ports: Entities, rates: Rates) -> Floats:
    """Return (n_scopes, 2) of packets received by NICs' ports: those neither marked nor trimmed, and all."""
    return scopes.tally(_of_ports(fabric, ports, *uncongested(ports, rates)))


def uncongested(ports: Entities, rates: Rates) -> OfPorts:
    """Return which NICs' ports say anything of congestion, (m,) good and total packets of each.

    Only ports that count both packets and marks say anything; trims are added where they are counted.
    """
    counts = {name: rates.per_s[i] * rates.dt_s for i, name in enumerate(rates.names)}
    packets, marked = counts.get("rx_packets"), counts.get("ecn_marked_rx")
    if packets is None or marked is None:
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    nic = (ports.role == NIC_END) | (ports.role == UNKNOWN_ROLE)
    seen = np.flatnonzero(nic & ~np.isnan(packets) & ~np.isnan(marked))
    bad = marked[seen] + np.nan_to_num(counts.get("trim_naks_rx", np.zeros(len(ports)))[seen])
    total = packets[seen].astype(np.float64)
    return seen, np.maximum(total - bad, 0.0), total


# What is lost at a port: damaged on arrival, or dropped on the way in or out.
_LOST = ("rx_errors", "rx_discards", "tx_errors", "tx_discards")


def delivery(fabric: Fabric, scopes: Scopes, ports: Entities, rates: Rates) -> Floats:
    """Return (n_scopes, 2) of packets at ports, by their counters: those neither damaged nor dropped, and all."""
    return scopes.tally(_of_ports(fabric, ports, *delivered(rates)))


def delivered(rates: Rates) -> OfPorts:
    """Return which ports say anything of losses, (m,) good and total packets of each.

    Only ports that count packets and at least one way to lose them say anything. Damaged frames are `rx_errors`, or
    `rx_crc_errors` where a port counts no errors as a whole.
    """
    counts = {name: rates.per_s[i] * rates.dt_s for i, name in enumerate(rates.names)}
    nothing = np.full(len(rates.dt_s), np.nan, dtype=np.float32)
    errors = counts.get("rx_errors", nothing)
    counts["rx_errors"] = np.where(np.isnan(errors), counts.get("rx_crc_errors", nothing), errors)
    lost = np.stack([counts.get(name, nothing) for name in _LOST])
    passed = np.stack([counts.get(name, nothing) for name in ("rx_packets", "tx_packets")])
    seen = np.flatnonzero((~np.isnan(lost)).any(axis=0) & (~np.isnan(passed)).any(axis=0))
    bad, total = np.nansum(lost[:, seen], axis=0, dtype=float), np.nansum(passed[:, seen], axis=0, dtype=float)
    total = np.maximum(total, bad)
    return seen, total - bad, total


def _of_ports(fabric: Fabric, ports: Entities, ids: npt.NDArray[np.intp], good: Floats, total: Floats) -> Amounts:
    """Return the amounts of ports (either end of any link): rail, plane and T0 group of their link."""
    link = ids // 2
    host = link < fabric.n_ports
    t0 = np.where(host, fabric.link_upper[link], fabric.link_lower[link]).astype(np.int64)
    rail, plane = np.divmod(ports.domain[ids].astype(np.int64), fabric.planes)
    node = np.where(host, fabric.node_of(link // fabric.planes), -1).astype(np.int64)
    return Amounts(good, total, plane, rail, t0 % fabric.t0_per_plane, node)


def collective(scopes: Scopes, nodes: Ids, busbw_bps: Floats, usual_bps: Floats, share: float) -> Floats:
    """Return (n_scopes, 2) of ticks: those in which a node's collective was quick enough, and all.

    nodes, busbw_bps, usual_bps: (n,), a row a node that takes part; usual_bps NaN where it is not known yet.
    """
    known = ~np.isnan(usual_bps) & (usual_bps > 0)
    good = busbw_bps[known] >= share * usual_bps[known]
    return scopes.tally(_of_nodes(nodes[known], good.astype(np.float64), np.ones(int(known.sum()))))


def job_impact(scopes: Scopes, nodes: Ids, busbw_bps: Floats, usual_bps: Floats, gpu_seconds: float) -> Floats:
    """Return (n_scopes, 2) of GPU-seconds: those not lost to slow collectives, and all; `gpu_seconds` a node."""
    known = ~np.isnan(usual_bps) & (usual_bps > 0)
    kept = np.minimum(busbw_bps[known] / usual_bps[known], 1.0)
    return scopes.tally(_of_nodes(nodes[known], kept * gpu_seconds, np.full(int(known.sum()), gpu_seconds)))


def _of_nodes(nodes: Ids, good: Floats, total: Floats) -> Amounts:
    none = np.full(len(nodes), -1, dtype=np.int64)
    return Amounts(good, total, none, none, none, nodes.astype(np.int64))
