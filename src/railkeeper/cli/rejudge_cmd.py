"""`railkeeper rejudge`: what the keeper knew at any time, judged again from its history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from railkeeper.app.events import fault_view
from railkeeper.app.rejudge import Rejudged, rejudge
from railkeeper.app.settings import read_settings
from railkeeper.base.errors import InputError
from railkeeper.cli.errors import NOT_OK, OK, print_json
from railkeeper.cli.screen import screen
from railkeeper.cli.times import unix_time
from railkeeper.respond.faultview import describe, record_of

if TYPE_CHECKING:
    from railkeeper.health.fault import Fault


def rejudge_command(
    at: Annotated[str, typer.Argument(help="Time: 2026-05-06T13:00:00 (local, or with a zone), or unix seconds.")],
    *,
    since: Annotated[str | None, typer.Option("--from", help="Begin at this time. Default: 300 s before.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Begin where the keeper began, and compare answers.")] = False,
    config: Annotated[Path | None, typer.Option("--config", help="The keeper's settings file.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="The keeper's state folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Judge the past again, up to a time, from the history."""
    if whole and since is not None:
        raise InputError("--from", "makes no sense with --whole", "give one of them")
    folder = (state or Path(read_settings(config).keeper.state)) / "history"
    begin_s = None if since is None else unix_time(since, "--from")
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("judging", total=1.0)
        found = rejudge(
            folder, unix_time(at, "time"), from_s=begin_s, whole=whole,
            progress=lambda share: bar.update(task, completed=share),
        )  # fmt: skip
    if as_json:
        print_json(answer(found))
    else:
        _print(found)
    raise typer.Exit(NOT_OK if found.differ else OK)


def answer(found: Rejudged) -> dict[str, Any]:
    """Return the JSON document without its schema."""
    return {
        "start_s": found.start_s,
        "end_s": found.end_s,
        "ticks": found.ticks,
        "whole": found.whole,
        "compared": found.compared,
        "differ": found.differ,
        "faults": [{**fault_view(f), "evidence": list(f.evidence)} for f in found.state.faults],
        "incidents": [
            {"id": i.id, "target": i.fault.target, "kind": i.fault.kind, "status": str(i.status)}
            for i in found.state.response.incidents.values()
        ],
    }


def _print(found: Rejudged) -> None:
    out = screen()
    span = f"{_local(found.start_s)} to {_local(found.end_s)}, {found.ticks} ticks"
    out.print(f"Judged again: {span}{'' if found.whole else '; nothing before is known'}")
    if found.compared:
        verdict = f"{found.differ} differ" if found.differ else "all as they were given then"
        out.print(f"Answers compared with those given then: {found.compared}; {verdict}")
    table = Table("part", "kind", "direction", "since", "status", "what")
    for f in found.state.faults:
        table.add_row(f.target, f.kind, f.direction, _since(found, f), f.status, describe(record_of(f)))
    out.print(table if found.state.faults else "No fault was known.")


def _since(found: Rejudged, fault: Fault) -> str:
    return _local(fault.since_tick * found.setup.tick_s)


def _local(t: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t))
