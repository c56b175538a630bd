"""`railkeeper bench days`: false alarms of detectors on simulated days, and time to tell planted faults."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from railkeeper.app.bench_days import measure_days
from railkeeper.base.errors import InputError
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen

_SHOWN = (
    "detector", "false_alarms", "per_day", "per_million_entity_hours", "in_maintenance", "told", "told_after_s",
)  # fmt: skip


def days(
    *,
    length: Annotated[float, typer.Option("--days", help="Days without faults, for each seed.", min=0.05)] = 3.0,
    seeds: Annotated[str, typer.Option(help="Seeds of the days, with commas.")] = "1,2",
    tick: Annotated[float, typer.Option(help="Seconds of a tick.", min=5, max=120)] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Count false alarms of every detector on simulated days, and see whether and when it tells its own fault."""
    told = Console(stderr=True, highlight=False)
    figures = measure_days(length, _seeds(seeds), tick, told.print)
    if as_json:
        print_json(figures)
        return
    table = Table(*_SHOWN, title="bench days", caption=f"{figures['days']:g} days; told: of faults planted")
    for row in figures["figures"]:
        table.add_row(*(_cell(row[key]) for key in _SHOWN))
    screen().print(table)


def _seeds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise InputError("--seeds", f"is {text}", "give whole numbers with commas, as 1,2")
    return [int(part) for part in parts]


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
