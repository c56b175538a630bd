"""`railkeeper incidents`, `actions`, `status`, `query`: what the journal and the history say."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from railkeeper.app import history
from railkeeper.app.settings import read_settings
from railkeeper.cli import journal_views as views
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen

if TYPE_CHECKING:
    from rich.console import RenderableType

Config = Annotated[Path | None, typer.Option("--config", help="The keeper's settings file.")]
State = Annotated[Path | None, typer.Option("--state", help="The keeper's state folder.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Limit = Annotated[int | None, typer.Option(help="The newest so many.", min=1)]


def incidents(
    *,
    config: Config = None,
    state: State = None,
    only_open: Annotated[bool, typer.Option("--open", help="Only those that are not closed.")] = False,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """List incidents, newest first."""
    found = views.incidents(_journal(config, state), only_open=only_open, limit=limit)
    _show(found, views.incidents_table, as_json=as_json)


def actions(
    *,
    config: Config = None,
    state: State = None,
    standing: Annotated[bool, typer.Option("--standing", help="Only those that have not ended.")] = False,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """List actions and refusals with their reasons, newest first."""
    found = views.actions(_journal(config, state), only_standing=standing, limit=limit)
    _show(found, views.actions_table, as_json=as_json)


def status(*, config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Tell how the fabric is, as far as the keeper knows."""
    found = views.status(_journal(config, state), now=time.time())
    _show(found, views.status_table, as_json=as_json)


def query(
    sql: Annotated[str, typer.Argument(help="SQL over the tables of the history, such as `paths`.")],
    *,
    config: Config = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Ask the open history in SQL."""
    rows = history.query(_state(config, state) / "history", sql)
    if as_json:
        print_json({"rows": [{name: plain(value) for name, value in row.items()} for row in rows]})
        return
    table = Table(*(rows[0] if rows else ["no rows"]))
    for row in rows:
        table.add_row(*(str(v) for v in row.values()))
    screen().print(table)


def plain(value: Any) -> Any:
    """Return a value of a row as JSON can hold it: no number is null, bytes are hexadecimal, the rest is text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return {str(k): plain(v) for k, v in value.items()} if isinstance(value, dict) else str(value)


def _state(config: Path | None, state: Path | None) -> Path:
    return state or Path(read_settings(config).keeper.state)


def _journal(config: Path | None, state: Path | None) -> str:
    return read_settings(config).journal_url(_state(config, state))


def _show(found: dict[str, Any], table: Any, *, as_json: bool) -> None:
    if as_json:
        print_json({k: v for k, v in found.items() if k != "schema"})
        return
    shown: RenderableType = table(found)
    screen().print(shown)
