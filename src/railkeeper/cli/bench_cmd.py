"""`railkeeper bench`: speed figures, each as a ratio to a named baseline measured in the same run."""

from __future__ import annotations

import functools
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from railkeeper.app import bench_prometheus, bench_sources, bench_tick
from railkeeper.app.bench_loop import measure_ticks
from railkeeper.cli import bench_days_cmd, bench_locate_cmd
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec, read_spec
from railkeeper.lab import names, netns
from railkeeper.lab.build import build
from railkeeper.probe import bench

app = typer.Typer(help="Speed figures, each beside a baseline of the same run.", no_args_is_help=True)
app.command("locate")(bench_locate_cmd.locate)
app.command("days")(bench_days_cmd.days)
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

SMALL = "[fabric]\nname = 'bench'\nplanes = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 4\n"

LARGEST = (
    "[fabric]\nname = 'largest'\nplanes = 8\nt0_per_plane = 512\nt1_per_plane = 256\nnics_per_t0 = 256\n"
    "nics_per_node = 4\nlink_gbps = 100\n[optics]\nnic_ports_per_optic = 4\nt0_ports_per_optic = 4\n"
)

LABS = (
    ("small", SMALL, 2.0),
    ("medium", "[fabric]\nplanes = 4\nt0_per_plane = 8\nt1_per_plane = 8\nnics_per_t0 = 8\n", 6.0),
    ("large", "[fabric]\nplanes = 4\nt0_per_plane = 16\nt1_per_plane = 16\nnics_per_t0 = 56\n", 30.0),
)


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
def lab(
    *,
    prefix: Annotated[str, typer.Option(help="Prefix of the labs' namespaces.")] = "rkbench",
    as_json: Json = False,
) -> None:
    """Seconds to build and to take down labs of three sizes, checked against their plans; needs root."""
    rows = [_build_time(name, text, limit_s, prefix) for name, text, limit_s in LABS]
    _show("bench lab", "limit_s: what is promised", rows, tuple(rows[0]), as_json=as_json)


def _build_time(name: str, text: str, limit_s: float, prefix: str) -> dict[str, Any]:
    fabric = Fabric(parse_spec(text))
    begin = time.perf_counter()
    built = build(fabric, prefix)
    up_s = time.perf_counter() - begin
    built.close()
    return {
        "lab": name,
        "namespaces": fabric.n_nodes + fabric.n_t0 + fabric.n_t1,
        "links": fabric.n_links,
        "build_s": round(up_s, 3),
        "close_s": round(time.perf_counter() - begin - up_s, 3),
        "limit_s": limit_s,
        "ratio": round(up_s / limit_s, 3),
    }


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


@app.command()
def tick(
    *,
    fabric: Annotated[Path | None, typer.Option(help="Fabric spec; 131,072 NICs x 8 planes without.")] = None,
    ticks: Annotated[int, typer.Option(help="Ticks with faults, of counters.", min=5)] = 24,
    as_json: Json = False,
) -> None:
    """Time for a tick of the largest fleet: all counters through all detectors, all paths through the locator."""
    f = Fabric(read_spec(fabric) if fabric else parse_spec(LARGEST))
    told = Console(stderr=True, highlight=False)
    figures = bench_tick.measure(f, ticks, told.print)
    if as_json:
        print_json(figures)
        return
    table = Table("figure", "value", title="bench tick")
    for key, value in figures.items():
        if not isinstance(value, dict):
            table.add_row(key, str(value))
    screen().print(table)


@app.command()
def sources(
    *,
    targets: Annotated[int, typer.Option(help="Targets to follow.", min=50)] = 5000,
    interval: Annotated[float, typer.Option(help="Seconds between two polls of a target.", min=1)] = 15.0,
    seconds: Annotated[float, typer.Option(help="Length of the measurement.", min=1)] = 30.0,
    as_json: Json = False,
) -> None:
    """Targets that one process can follow, one in ten of them bad, and how fast their texts are read."""
    rows = bench_sources.measure_reader()
    _show("bench reader", "prometheus_client: its parser in Python", rows, tuple(rows[0]), as_json=as_json)
    rows = [bench_sources.measure(targets, interval, seconds)]
    shown = ("polls_per_s", "well", "well_and_fresh", "late_p50_ms", "late_p99_ms", "cpu_share_of_a_core", "max_rss_mb")
    _show("bench sources", "late: how long polls began after their moment", rows, shown, as_json=as_json)


@app.command()
def prometheus(
    *,
    interval: Annotated[int, typer.Option(help="Seconds between two scrapes.", min=2)] = 5,
    as_json: Json = False,
) -> None:
    """Cost of one rule over 500,000 series, beside Prometheus with the same targets in the same run."""
    told = Console(stderr=True, highlight=False)
    figures = bench_prometheus.measure(interval, told.print)
    if as_json:
        print_json(figures)
        return
    rows = [{"who": who, **figures[who]} for who in ("prometheus", "railkeeper")]
    told.print(f"alerts as injected, by both: {figures['same_alerts']}")
    _show("bench prometheus", "prometheus: the same rule over the same targets", rows, tuple(rows[0]), as_json=False)


def _show(name: str, baseline: str, rows: list[dict[str, Any]], shown: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json({"bench": name, "baseline": baseline, "figures": rows})
        return
    table = Table(*shown, title=name, caption=f"baseline: {baseline}")
    for row in rows:
        table.add_row(*(str(row[key]) for key in shown))
    screen().print(table)
