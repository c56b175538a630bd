"""`railkeeper bench`: speed figures, each as a ratio to a named baseline measured in the same run."""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from railkeeper.app.bench_loop import measure_ticks
from railkeeper.cli.errors import print_json
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec, read_spec
from railkeeper.lab import names, netns
from railkeeper.lab.build import build
from railkeeper.probe import bench

app = typer.Typer(help="Speed figures, each beside a baseline of the same run.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

SMALL = "[fabric]\nname = 'bench'\nplanes = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 4\n"


@app.command()
def probe(
    *,
    seconds: Annotated[float, typer.Option(help="Length of each measurement.", min=0.1)] = 2.0,
    batch: Annotated[int, typer.Option(help="Packets a system call.", min=1, max=4096)] = 1024,
    prefix: Annotated[str, typer.Option(help="Prefix of the lab's namespaces.")] = "rkbench",
    as_json: Json = False,
) -> None:
    """Probes a second of one process on one core, sent, received and judged; needs root."""
    fabric = Fabric(parse_spec(SMALL))
    with build(fabric, prefix):
        interfaces = [names.nic_interface(fabric, port) for port in range(fabric.planes)]
        enter = functools.partial(netns.enter, names.node_ns(prefix, 0))
        figures = bench.run(fabric, enter, interfaces, seconds=seconds, batch=batch)
    base = {f.route: f.probes_per_s for f in figures if f.method == "plain"}
    rows = [{**asdict(f), "ratio_to_plain": round(f.probes_per_s / max(base[f.route], 1), 2)} for f in figures]
    shown = ("method", "route", "probes_per_s", "probes_per_cpu_s", "lost", "ratio_to_plain")
    _show("bench probe", "plain: one sendto call a probe", rows, shown, as_json=as_json)


@app.command()
def loop(
    *,
    fabric: Annotated[Path | None, typer.Option(help="Fabric spec; the small lab's without.")] = None,
    ticks: Annotated[int, typer.Option(help="Ticks to judge.", min=5)] = 60,
    as_json: Json = False,
) -> None:
    """Time that the locator takes for a tick of synthetic evidence."""
    f = Fabric(read_spec(fabric) if fabric else parse_spec(SMALL))
    rows = measure_ticks(f, ticks)
    _show("bench loop", "links_crossed: which links each path crosses", rows, tuple(rows[0]), as_json=as_json)


def _show(name: str, baseline: str, rows: list[dict[str, Any]], shown: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json({"bench": name, "baseline": baseline, "figures": rows})
        return
    table = Table(*shown, title=name, caption=f"baseline: {baseline}")
    for row in rows:
        table.add_row(*(str(row[key]) for key in shown))
    Console().print(table)
