"""The command `railkeeper`: puts the rooms' commands together."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from railkeeper import __version__
from railkeeper.cli.errors import run
from railkeeper.cli.lazy import Row, lazy_group

# In the order of the list that people see; the lines are those of the commands' own help, which a test compares.
COMMANDS = {
    "demo": Row(
        "demo_cmd",
        "show_demo",
        "Show the whole loop in about a minute: three faults are injected, located, avoided, and heal.",
    ),
    "run": Row("run_cmd", "run", "Run the keeper: observe, locate, avoid, verify, record."),
    "look": Row(
        "look_cmd",
        "look",
        "Look at whatever there is: sources in, service levels and the worst parts out. "
        "Nothing is kept, nothing acted.",
    ),
    "agent": Row("agent_cmd", "agent", "Probe the fabric from this node and report to the keeper until SIGTERM."),
    "locate": Row("locate_cmd", "locate", "Say which links and switches lose packets, from what flows sent and lost."),
    "host": Row(
        "host_cmd",
        "host",
        "Show what a host says of its RDMA ports, interfaces and PCIe links, and which names are bound to signals.",
    ),
    "signals": Row("signals_cmd", "signals", "List the signals, explain one, or say what a vendor's name means."),
    "status": Row("journal_cmd", "status", "Tell how the fabric is, as far as the keeper knows."),
    "incidents": Row("journal_cmd", "incidents", "List incidents, newest first."),
    "actions": Row("journal_cmd", "actions", "List actions and refusals with their reasons, newest first."),
    "query": Row("journal_cmd", "query", "Ask the open history in SQL."),
    "slo": Row("slo_cmd", "slo", "Tell how service levels stand against their objectives."),
    "rejudge": Row("rejudge_cmd", "rejudge_command", "Judge the past again, up to a time, from the history."),
    "export": Row("export_cmd", "app", "Rules for Prometheus and a dashboard for Grafana."),
    "fabric": Row("fabric_cmd", "app", "The fabric of a spec file: sizes, blast radius, addresses."),
    "lab": Row("lab_cmd", "app", "A real fabric in network namespaces on this machine; needs root."),
    "bench": Row("bench_cmd", "app", "Speed figures, each beside a baseline of the same run."),
}
app = typer.Typer(
    name="railkeeper",
    cls=lazy_group(COMMANDS),
    help="Keeps the backend networks of AI supercomputers healthy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
