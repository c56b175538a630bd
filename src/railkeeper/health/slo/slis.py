"""Service level indicators: how much of what was seen in a tick was good, in every scope.

Each is a pair (good, total); where nothing was seen the total is 0, and nothing is said. The form follows Google's SRE
Workbook, chapter 2: good events over valid events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.model import DOWN, UP
from railkeeper.health.slo.tally_kernels import in_time
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
    "job-impact": ("GPU-seconds of jobs", "those not lost to collectives that were not quick enough"),
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
    total = np.where(known, stats.sent, 0)
    return scopes.of_each_link(_ports_of(fabric, stats), np.where(known, stats.received, 0), total)


def latency(fabric: Fabric, scopes: Scopes, stats: PathStats, latency_us: float) -> Floats:
    """Return (n_scopes, 2) of arrivals: those in time, and all."""
    bins = int(np.searchsorted(HIST_EDGES_NS, latency_us * 1e3)) + 1
    return scopes.of_each_link(_ports_of(fabric, stats), *in_time(np.ascontiguousarray(stats.delay_hist), bins))


def bandwidth(fabric: Fabric, scopes: Scopes, stats: PathStats, least_bps: float) -> Floats:
    """Return (n_scopes, 2) of measured rates: those that are enough, and all."""
    seen = np.flatnonzero(~np.isnan(stats.train_bps))
    return scopes.of_each_link(_ports_of(fabric, stats)[seen], stats.train_bps[seen] >= least_bps, np.ones(len(seen)))


def _ports_of(fabric: Fabric, stats: PathStats) -> npt.NDArray[np.int32]:
    """Return (n,) the NIC ports from which the rows were sent."""
    return stats.paths.src * np.int32(fabric.planes) + stats.paths.plane


def link_health(scopes: Scopes, seen: npt.NDArray[np.bool_], bad: npt.NDArray[np.bool_]) -> Floats:
    """Return (n_scopes, 2) of links: those seen and well, and all that were seen; `seen`, `bad` are (n_links,)."""
    links = np.flatnonzero(seen)
    return scopes.of_each_link(links, ~bad[links], np.ones(len(links)))


def path_diversity(fabric: Fabric, scopes: Scopes, broken: Ids, seen: npt.NDArray[np.bool_]) -> Floats:
    """Return (n_scopes, 2) of T0-T1-T0 paths between NICs of different T0s: the surviving, and all.

    `broken` are directed links that are dead or denied; `seen` (n_links,) those of which anything is known: paths over
    others do not count. Paths are counted at their source. A job's scope counts those from its NICs to all others.
    """
    known = np.repeat(seen.astype(np.float64), 2)
    known[np.asarray(broken, dtype=np.int64)] = 1.0
    alive = known.copy()
    alive[np.asarray(broken, dtype=np.int64)] = 0.0
    good, total = (_paths_from(fabric, x.reshape(-1, 2)) for x in (alive, known))
    return scopes.of_each_link(np.arange(fabric.n_ports), good, total)


def _paths_from(fabric: Fabric, passes: Floats) -> Floats:
    """Return (n_ports,) how many paths lead from a NIC's port to NICs of other T0s, over links that pass (n_links, 2).

    In closed form, since NICs of a T0 differ only by their own links.
    """
    f, hosts = fabric, fabric.n_ports
    up, down = (passes[hosts:, way].reshape(f.n_domains, f.t0_per_plane, f.t1_per_plane) for way in (UP, DOWN))
    port_t0 = f.link_upper[:hosts]
    takes = np.bincount(port_t0, weights=passes[:hosts, DOWN], minlength=f.n_t0).reshape(f.n_domains, f.t0_per_plane, 1)
    arriving = takes * down
    # What a packet that went up to T1 j from T0 i can reach: all NICs below j, less those under i itself.
    reach = (up * (arriving.sum(axis=1, keepdims=True) - arriving)).sum(axis=2).reshape(-1)
    return np.asarray(passes[:hosts, UP] * reach[port_t0], dtype=np.float64)


def congestion(scopes: Scopes, ports: Entities, rates: Rates) -> Floats:
    """Return (n_scopes, 2) of packets received by NICs' ports: those neither marked nor trimmed, and all."""
    return _of_ports(scopes, *uncongested(ports, rates))


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


def delivery(scopes: Scopes, rates: Rates) -> Floats:
    """Return (n_scopes, 2) of packets at ports, by their counters: those neither damaged nor dropped, and all."""
    return _of_ports(scopes, *delivered(rates))


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


def _of_ports(scopes: Scopes, ids: npt.NDArray[np.intp], good: Floats, total: Floats) -> Floats:
    """Return the sums of ports: either end of any link counts where its link does."""
    return scopes.of_each_link(ids // 2, good, total)


def collective(scopes: Scopes, nodes: Ids, busbw_bps: Floats, usual_bps: Floats, share: float) -> Floats:
    """Return (n_scopes, 2) of ticks: those in which a node's collective was quick enough, and all.

    nodes, busbw_bps, usual_bps: (n,), a row a node that takes part; usual_bps NaN where it is not known yet.
    """
    known = ~np.isnan(usual_bps) & (usual_bps > 0)
    good = busbw_bps[known] >= share * usual_bps[known]
    return scopes.of_each_node(nodes[known], good, np.ones(int(known.sum())))


def job_impact(
    scopes: Scopes, nodes: Ids, busbw_bps: Floats, usual_bps: Floats, *, share: float, gpu_seconds: float
) -> Floats:
    """Return (n_scopes, 2) of GPU-seconds: those not lost to slow collectives, and all; `gpu_seconds` a node.

    A collective of at least `share` of what is usual loses nothing: what is usual is a high quantile, so that the
    jitter of a healthy job would count as loss.
    """
    known = ~np.isnan(usual_bps) & (usual_bps > 0)
    reached = busbw_bps[known] / usual_bps[known]
    kept = np.where(reached >= share, 1.0, reached)
    return scopes.of_each_node(nodes[known], kept * gpu_seconds, np.full(int(known.sum()), gpu_seconds))
