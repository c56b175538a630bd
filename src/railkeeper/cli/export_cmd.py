"""`railkeeper export`: rules for Prometheus and a dashboard for Grafana, made from the objectives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from railkeeper.app import export_rules
from railkeeper.app.export_dashboard import dashboard
from railkeeper.app.settings import read_settings

app = typer.Typer(help="Rules for Prometheus and a dashboard for Grafana.", no_args_is_help=True)
Config = Annotated[Path | None, typer.Option("--config", help="The keeper's settings file.")]


@app.command("rules")
def rules_command(
    *,
    config: Config = None,
    runbooks: Annotated[str, typer.Option(help="Where the pages of runbooks stand.")] = export_rules.RUNBOOKS,
) -> None:
    """Print the rule file for Prometheus: error ratios, burn-rate alerts, silence."""
    slos = read_settings(config).level_config(str(config or "settings")).slos
    print(export_rules.as_yaml(export_rules.rules(slos, runbooks=runbooks.rstrip("/"))), end="")


@app.command("dashboard")
def dashboard_command(*, config: Config = None) -> None:
    """Print the dashboard for Grafana (JSON)."""
    slos = read_settings(config).level_config(str(config or "settings")).slos
    print(json.dumps(dashboard(slos), indent=1))
