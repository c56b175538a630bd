"""`railkeeper fabric`: build, show, blast, address."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railkeeper.base.errors import InputError
from railkeeper.cli import fabric_text
from railkeeper.cli.errors import print_json
from railkeeper.fabric import address
from railkeeper.fabric.blast import blast_radius
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import Kind, directed_name, domain_name, nic_name, parse_name
from railkeeper.fabric.paths import PathKind, Paths, links_crossed, make_paths, outer_addresses
from railkeeper.fabric.spec import read_spec

if TYPE_CHECKING:
    from railkeeper.fabric.blast import Blast

app = typer.Typer(help="The fabric of a spec file: sizes, blast radius, addresses.", no_args_is_help=True)

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="Fabric spec (TOML).", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def build(spec: Spec, *, json: Json = False) -> None:
    """Build the whole fabric and say how long it took."""
    start = time.perf_counter()
    fabric = Fabric(read_spec(spec))
    fabric.build()
    data = {**fabric.counts(), "build_s": time.perf_counter() - start, "peak_rss_bytes": peak_rss_bytes()}
    if json:
        print_json(data)
    else:
        fabric_text.print_build(fabric.name, data)


@app.command()
def show(spec: Spec) -> None:
    """Show a fabric's sizes, capacities and address plan."""
    fabric_text.print_summary(Fabric(read_spec(spec)))


@app.command()
def blast(
    spec: Spec,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A part, e.g. p0/t0-1 or n3/nic0.", show_default=False)],
    *,
    json: Json = False,
) -> None:
    """Say what the fabric loses when a part of it fails."""
    fabric = Fabric(read_spec(spec))
    radius = blast_radius(fabric, parse_name(fabric, name, where="NAME"))
    if json:
        print_json({"target": name, **blast_data(fabric, radius)})
    else:
        fabric_text.print_blast(fabric, name, radius)


@app.command(name="address")
def address_of(
    spec: Spec,
    *,
    src: Annotated[str, typer.Option(metavar="NIC", help="Sending NIC, e.g. n0/nic0.")],
    dst: Annotated[str, typer.Option(metavar="NIC", help="Receiving NIC; without it the path comes home.")] = "",
    plane: Annotated[int, typer.Option(help="Plane, from 0.")] = 0,
    t1: Annotated[int, typer.Option(help="T1 in the plane, from 0; -1 turns round at the T0.")] = -1,
    json: Json = False,
) -> None:
    """Print the outer address that steers a packet along a path, and the links that it crosses."""
    fabric = Fabric(read_spec(spec))
    data = path_data(fabric, _path(fabric, src, dst or src, plane, t1))
    if json:
        print_json(data)
    else:
        fabric_text.print_path(data)


def peak_rss_bytes() -> int:
    """Return the most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def blast_data(fabric: Fabric, radius: Blast) -> dict[str, Any]:
    """Return a blast radius as plain values for JSON."""
    shares = enumerate(radius.plane_uplink_share.tolist())
    return {
        "links": len(radius.links),
        "nics_hit": [nic_name(fabric, n) for n in radius.nics_hit.tolist()],
        "nics_cut": [nic_name(fabric, n) for n in radius.nics_cut.tolist()],
        "nic_share": radius.nic_share,
        "nic_gbps": radius.nic_gbps,
        "uplink_gbps": radius.uplink_gbps,
        "t0_uplink_share": radius.t0_uplink_share,
        "plane_uplink_share": {domain_name(fabric, d): share for d, share in shares if share},
        "paths_per_nic_pair": fabric.paths_per_nic_pair,
        "paths_lost": radius.paths_lost,
        "paths_lost_local": radius.paths_lost_local,
    }


def path_data(fabric: Fabric, path: Paths) -> dict[str, Any]:
    """Return address, uSIDs and links of one path as plain values for JSON."""
    outer = outer_addresses(fabric, path)[0].tobytes()
    _, usids = address.decode(outer)
    links = [link for link in links_crossed(fabric, path)[0].tolist() if link >= 0]
    return {
        "kind": PathKind(int(path.kind[0])).name.lower().replace("_", "-"),
        "address": address.text(outer),
        "usids": [f"{u:04x}" for u in usids],
        "links": [directed_name(fabric, link) for link in links],
    }


def _path(fabric: Fabric, src: str, dst: str, plane: int, t1: int) -> Paths:
    s, d = _nic(fabric, src, "--src"), _nic(fabric, dst, "--dst")
    if not 0 <= plane < fabric.planes:
        raise InputError("--plane", f"is {plane}", f"0 to {fabric.planes - 1}")
    if not -1 <= t1 < fabric.t1_per_plane:
        raise InputError("--t1", f"is {t1}", f"0 to {fabric.t1_per_plane - 1}, or -1 for none")
    if fabric.nic_rail[s] != fabric.nic_rail[d]:
        raise InputError("--dst", f"{dst!r} is in another rail than {src!r}", "rails are not connected: name one rail")
    if s == d:
        return make_paths(PathKind.T0_BOUNCE if t1 < 0 else PathKind.T1_BOUNCE, s, plane, t1=t1)
    if t1 < 0 and fabric.nic_t0_index[s] != fabric.nic_t0_index[d]:
        raise InputError("--t1", "is missing", f"{src} and {dst} are under different T0s: give --t1 0 or higher")
    return make_paths(PathKind.ONEWAY, s, plane, dst=d, t1=t1)


def _nic(fabric: Fabric, text: str, where: str) -> int:
    component = parse_name(fabric, text, where=where)
    if component.kind is not Kind.NIC:
        raise InputError(where, f"{text!r} is no NIC", "e.g. n0/nic0")
    return component.id
