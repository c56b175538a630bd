"""Commands whose modules are imported when they are asked for: no command waits for the libraries of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    Command = Any  # Typer does not export the base of its commands


class Row(NamedTuple):
    """One command: module in `railkeeper.cli`, its function or Typer there, and its line in the list of commands."""

    module: str
    what: str
    help: str


class Commands(Mapping[str, "Command"]):
    """Commands by name. The names are at hand; a command is imported at its first use."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self.rows = rows
        self._made: dict[str, Command] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made[name] = _made(name, self.rows[name])
        return self._made[name]


def _made(name: str, row: Row) -> Command:
    what = getattr(import_module(f"railkeeper.cli.{row.module}"), row.what)
    holder = typer.Typer(add_completion=False)
    if isinstance(what, typer.Typer):
        holder.add_typer(what, name=name)
    else:
        holder.command(name)(what)
    return typer.main.get_group(holder).commands[name]


def lazy_group(rows: Mapping[str, Row]) -> type[TyperGroup]:
    """Return the class of a group with the commands of a table."""

    class LazyGroup(TyperGroup):
        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            self.commands: Any = Commands(rows)

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's signature
            """Return the names, as people see them."""
            return list(rows)

        def get_command(self, ctx: Any, cmd_name: str) -> Command | None:  # noqa: ARG002 - Typer's signature
            """Return what the list of commands shows: name and line, no module behind it."""
            row = rows.get(cmd_name)
            return None if row is None else TyperCommand(cmd_name, help=row.help)

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
            """Return the command that was asked for, to be run."""
            name, found, rest = super().resolve_command(ctx, args)
            return name, (found if name is None else self.commands[name]), rest

    return LazyGroup


def lines_of(command: Command) -> str:
    """Return a command's line in a list of commands: the first paragraph of its help."""
    first = (command.help or "").strip().split("\n\n")[0]
    return " ".join(first.split())
