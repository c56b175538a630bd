"""`railkeeper host`: what this machine says of its network, and what Railkeeper makes of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from railkeeper.adapters.hostread import read_host
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen
from railkeeper.telemetry.bind import Bound, binder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railkeeper.telemetry.reading import Reading


def host(
    *,
    root: Annotated[Path, typer.Option(help="Read a captured tree that holds a copy of /sys.")] = Path("/"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what a host says of its RDMA ports, interfaces and PCIe links, and which names are bound to signals."""
    readings = read_host(root)
    if as_json:
        print_json({"readings": [described(r) for r in readings]})
        return
    _show(readings)


def described(reading: Reading) -> dict[str, Any]:
    """Return a reading as JSON: `bound` says the signal of each native name, `unbound` the names that have none."""
    bound, unbound = _split(reading)
    return {
        "dialect": reading.dialect,
        "labels": dict(reading.labels),
        "t_ns": reading.t_ns,
        "values": dict(reading.values),
        "bound": bound,
        "unbound": unbound,
    }


def _split(reading: Reading) -> tuple[dict[str, str], list[str]]:
    bound: dict[str, str] = {}
    unbound = []
    for name in reading.values:
        found = binder().look(reading.dialect, name)
        if isinstance(found, Bound):
            bound[name] = f"{found.signal.entity}.{found.column}"
        elif found is None:
            unbound.append(name)
    return bound, unbound


def _show(readings: Sequence[Reading]) -> None:
    table = Table("object", "dialect", "values", "bound", "unreadable", "unbound", box=None, header_style="bold")
    strange: dict[str, Counter[str]] = {}
    for reading in readings:
        bound, unbound = _split(reading)
        unread = sum(value is None for value in reading.values.values())
        what = "/".join(value for name, value in reading.labels.items() if name != "host") or reading.labels["host"]
        row = (len(reading.values), len(bound), unread or "", len(unbound) or "")
        table.add_row(escape(what), reading.dialect, *map(str, row))
        strange.setdefault(reading.dialect, Counter()).update(unbound)
    out = screen()
    out.print(table)
    for dialect, names in strange.items():
        if names:
            out.print(f"unbound in {dialect}: {escape(', '.join(sorted(names)))}", highlight=False, soft_wrap=True)
