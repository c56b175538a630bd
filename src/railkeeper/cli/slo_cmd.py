"""`railkeeper slo`: how the service level objectives stand, from the history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from railkeeper.app.events import level_view
from railkeeper.app.past_levels import past_levels
from railkeeper.app.settings import read_settings
from railkeeper.base.errors import InputError
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen
from railkeeper.cli.times import unix_time
from railkeeper.health.slo.objectives import DAY_S, NO_DATA, OK, PAGE, TICKET, Level, levels
from railkeeper.health.slo.scopes import SCOPE_KINDS, Scopes, kind_of
from railkeeper.health.slo.slis import SLIS

_ORDER = {PAGE: 0, TICKET: 1, NO_DATA: 2, OK: 3}
_COLOURS = {PAGE: "bold red", TICKET: "yellow", NO_DATA: "dim", OK: "green"}


def slo(
    *,
    at: Annotated[str | None, typer.Option("--at", help="As of this time. Default: now.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only this objective.")] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Only this scope, as plane/p0; or a kind of them.")
    ] = None,
    bad: Annotated[bool, typer.Option("--bad", help="Only what burns its budget, or has no data.")] = False,
    config: Annotated[Path | None, typer.Option("--config", help="The keeper's settings file.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="The keeper's state folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Tell how service levels stand against their objectives."""
    settings = read_settings(config)
    wanted = settings.level_config(str(config or "settings"))
    slos = wanted.slos
    if name is not None and name not in {s.name for s in slos}:
        raise InputError("--name", f"{name!r} is no objective", f"one of {', '.join(s.name for s in slos)}")
    if scope is not None and kind_of(scope) not in SCOPE_KINDS:
        raise InputError("--scope", f"{scope!r} is no scope", f"one of {', '.join(SCOPE_KINDS)}, or as plane/p0")
    now = time.time() if at is None else unix_time(at, "--at")
    past = past_levels((state or Path(settings.keeper.state)) / "history", now)
    # Planes and groups of a fabric that was before are not there any more; jobs come and go.
    here = None if past.fabric is None else set(Scopes(past.fabric, wanted.slis.groups_per_pod).names)
    there = (x for x in levels(slos, past.series, now) if here is None or x.slo.scope == "job" or x.scope in here)
    found = [x for x in there if _wanted(x, name, scope, bad=bad)]
    found.sort(key=lambda x: (_ORDER[x.state], x.budget_left if x.budget_left is not None else 2.0))
    if as_json:
        silent = sorted({s.name for s in slos} - {x.slo.name for x in found} if not (name or scope or bad) else [])
        print_json({"t": round(now, 3), "objectives": [level_view(x) for x in found], "without_data": silent})
    else:
        _print(found, now)


def _wanted(level: Level, name: str | None, scope: str | None, *, bad: bool) -> bool:
    fits = scope in {None, level.scope, level.slo.scope}
    return fits and name in {None, level.slo.name} and not (bad and level.state == OK)


def _print(found: list[Level], now: float) -> None:
    table = Table("state", "objective", "scope", "good", "goal", "budget left", "burn 5 min", "1 h", "6 h", "3 days")
    for x in found:
        burns: list[Any] = [_rate(x.burns.get(w)) for w in (300.0, 3600.0, 21600.0, 3 * DAY_S)]
        state = f"[{_COLOURS[x.state]}]{x.state}[/]"
        left = "-" if x.budget_left is None else f"{x.budget_left:.1%}"
        table.add_row(state, x.slo.name, x.scope, _share(x.ratio), _share(x.slo.objective), left, *burns)
    out = screen()
    out.print(table if found else "Nothing was measured: does a keeper run, and write to this state folder?")
    if found:
        out.print(f"As of {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}.")
        for sli in sorted({x.slo.sli for x in found}):
            out.print(f"[dim]{sli}: of the {SLIS[sli][0]}, {SLIS[sli][1]}[/]")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.4f}".rstrip("0").rstrip(".") + "%"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
