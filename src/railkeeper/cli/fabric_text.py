"""What `railkeeper fabric` shows to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from railkeeper.cli.screen import screen
from railkeeper.fabric import address
from railkeeper.fabric.names import domain_name, nic_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.fabric.blast import Blast
    from railkeeper.fabric.model import Fabric

    Rows = Iterable[tuple[str, str]]

_NAMES_SHOWN = 6


def print_build(name: str, data: dict[str, Any]) -> None:
    """Print the counts of a built fabric, and what the build took."""
    rows = [(key.replace("_", " "), f"{value:,}") for key, value in data.items() if isinstance(value, int)]
    rows = [row for row in rows if row[0] != "peak rss bytes"]
    rows += [("built in", f"{data['build_s']:.3f} s"), ("peak memory", f"{data['peak_rss_bytes'] / 1e6:,.0f} MB")]
    _print(f"Fabric {name}", rows)


def print_summary(fabric: Fabric) -> None:
    """Print sizes, capacities and the address plan."""
    _print(f"Fabric {fabric.name}", _sizes(fabric))
    _print("Capacity", _capacities(fabric))
    _print("Addresses", _plan(fabric))


def print_blast(fabric: Fabric, name: str, radius: Blast) -> None:
    """Print what is lost with a part."""
    _print(f"When {name} fails", _losses(fabric, radius))


def print_path(data: dict[str, Any]) -> None:
    """Print one path's address and links."""
    rows = [("kind", data["kind"]), ("outer address", data["address"]), ("uSIDs", " ".join(data["usids"]))]
    rows += [("crosses" if not i else "", link) for i, link in enumerate(data["links"])]
    _print("Path", rows)


def _print(title: str, rows: Rows) -> None:
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, value)
    screen().print(table)


def _sizes(f: Fabric) -> Rows:
    yield "shape", f"{f.planes} planes x ({f.t0_per_plane} T0 + {f.t1_per_plane} T1)" + _rails(f)
    yield "nodes", f"{f.n_nodes:,} with {f.nics_per_node} NIC(s) each"
    yield "NICs", f"{f.n_nics:,}, {f.nics_per_t0} under each T0"
    yield "switches", f"{f.n_t0 + f.n_t1:,} ({f.n_t0:,} T0, {f.n_t1:,} T1)"
    yield "links", f"{f.n_links:,} ({f.n_ports:,} NIC-T0, {f.n_fabric_links:,} T0-T1)"
    yield "paths", f"{f.paths_per_nic_pair:,} between NICs of different T0s, {f.planes} under one T0"
    if f.spec.optics is not None:
        o = f.spec.optics
        yield "optics", f"{o.nic_ports_per_optic} NIC ports share one, {o.t0_ports_per_optic} T0 ports share one"


def _rails(f: Fabric) -> str:
    return f" in each of {f.rails} rails" if f.rails > 1 else ""


def _capacities(f: Fabric) -> Rows:
    g = f.link_gbps
    yield "link", _gbps(g)
    yield "NIC", f"{_gbps(f.planes * g)} over {f.planes} ports; one port is {1 / f.planes:.1%} of it"
    yield "T0", f"{_gbps(f.nics_per_t0 * g)} to NICs, {_gbps(f.t1_per_plane * g)} to T1s" + _oversubscribed(f)
    yield "T0 group", f"{_gbps(f.planes * f.t1_per_plane * g)} to T1s"
    yield "plane", f"{_gbps(f.t0_per_plane * f.t1_per_plane * g)} to T1s; one link is {_one_link(f):.4%} of it"


def _oversubscribed(f: Fabric) -> str:
    ratio = f.nics_per_t0 / f.t1_per_plane
    return f" ({ratio:.2f}:1 oversubscribed)" if ratio > 1 else ""


def _one_link(f: Fabric) -> float:
    return 1 / (f.t0_per_plane * f.t1_per_plane)


def _plan(f: Fabric) -> Rows:
    yield "blocks", f"{address.block(0)} ({domain_name(f, 0)})" + _last_block(f)
    yield "T0", _usids(address.T0_BASE, f.t0_per_plane)
    yield "T1", _usids(address.T1_BASE, f.t1_per_plane)
    yield "NIC", f"{_usids(address.NIC_BASE, f.nics_per_t0)}, local to its T0"


def _last_block(f: Fabric) -> str:
    last = f.n_domains - 1
    return f" to {address.block(last)} ({domain_name(f, last)})" if last else ""


def _usids(base: int, count: int) -> str:
    return f"uSID {base:04x} to {base + count - 1:04x}" if count > 1 else f"uSID {base:04x}"


def _losses(f: Fabric, b: Blast) -> Rows:
    yield "links", f"{len(b.links):,}"
    yield "NICs hit", _nics(f, b.nics_hit.tolist())
    yield "NICs cut off", _nics(f, b.nics_cut.tolist())
    yield "NIC bandwidth", f"{_gbps(b.nic_gbps)} in all, {b.nic_share:.1%} of a NIC's own at most"
    yield "T0 uplinks", f"{_gbps(b.uplink_gbps)} in all, {b.t0_uplink_share:.1%} of a T0's own at most"
    for domain, share in enumerate(b.plane_uplink_share.tolist()):
        if share:
            yield f"plane {domain_name(f, domain)}", f"{share:.4%} of its T0 uplink capacity"
    yield "paths", _paths(b.paths_lost, f.paths_per_nic_pair, "different T0s")
    yield "", _paths(b.paths_lost_local, f.planes, "one T0")


def _paths(lost: int, count: int, where: str) -> str:
    if lost < 0:
        return f"no pair of NICs under {where}"
    return f"up to {lost:,} of {count:,} between NICs under {where}"


def _nics(f: Fabric, nics: list[int]) -> str:
    if not nics:
        return "none"
    names = ", ".join(nic_name(f, n) for n in nics[:_NAMES_SHOWN])
    return f"{len(nics):,}: {names}{', …' if len(nics) > _NAMES_SHOWN else ''}"


def _gbps(value: float) -> str:
    return f"{value / 1000:,.1f} Tb/s" if value >= 10_000 else f"{value:,.0f} Gb/s"
