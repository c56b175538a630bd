"""The command `railkeeper`: puts the rooms' commands together."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from railkeeper import __version__
from railkeeper.cli import (
    agent_cmd,
    bench_cmd,
    bench_days_cmd,
    demo_cmd,
    export_cmd,
    fabric_cmd,
    host_cmd,
    journal_cmd,
    lab_cmd,
    locate_cmd,
    look_cmd,
    rejudge_cmd,
    run_cmd,
    signals_cmd,
    slo_cmd,
)
from railkeeper.cli.errors import run

app = typer.Typer(
    name="railkeeper",
    help="Keeps the backend networks of AI supercomputers healthy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo_cmd.show_demo)
app.command()(run_cmd.run)
app.command()(look_cmd.look)
app.command()(agent_cmd.agent)
app.command()(locate_cmd.locate)
app.command()(host_cmd.host)
app.command()(signals_cmd.signals)
app.command()(journal_cmd.status)
app.command()(journal_cmd.incidents)
app.command()(journal_cmd.actions)
app.command()(journal_cmd.query)
app.command()(slo_cmd.slo)
app.command("rejudge")(rejudge_cmd.rejudge_command)
app.add_typer(export_cmd.app, name="export")
app.add_typer(fabric_cmd.app, name="fabric")
app.add_typer(lab_cmd.app, name="lab")
bench_cmd.app.command("days")(bench_days_cmd.days)
app.add_typer(bench_cmd.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep the backend networks of AI supercomputers healthy."""


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; the exit code says how it went."""
    # Whoever stops us politely gets the same orderly end as Ctrl-C gives.
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(app))
