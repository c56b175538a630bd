"""`railkeeper locate`: faults of a network from counts along paths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from railkeeper.app.locating import Located, answer, locate_files
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen
from railkeeper.health.infer.evidence import See
from railkeeper.health.infer.problem import Config


def locate(
    *,
    topology: Annotated[Path, typer.Option(help="Edge list: `switch switch` and `host->switch` lines.")],
    evidence: Annotated[Path, typer.Option(help="Flow trace: FP, FID, FPT and SS lines.")],
    see: Annotated[See, typer.Option(help="Which of the evidence may be used.")] = See.INT,
    false_alarms: Annotated[
        float, typer.Option(help="False alarms allowed a window in which nothing is wrong.", min=1e-9, max=0.5)
    ] = Config().false_alarms_per_window,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Say which links and switches lose packets, from what flows sent and lost."""
    located = locate_files(topology, evidence, see, Config(false_alarms_per_window=false_alarms))
    if as_json:
        print_json(answer(located))
    else:
        _show(located)


def _show(located: Located) -> None:
    said = answer(located)
    table = Table("at fault", "loss", "95% interval", "confidence", "can't be told from")
    for fault in said["faults"]:
        name = f"link {fault['link'][0]} → {fault['link'][1]}" if "link" in fault else f"switch {fault['device']}"
        others = ", ".join(f"{u} → {v}" if u != v else f"switch {u}" for u, v in fault["indistinguishable"])
        between = f"{fault['rate_low']:.3%} … {fault['rate_high']:.3%}"
        table.add_row(name, f"{fault['rate']:.3%}", between, f"{fault['confidence']:.0%}", others)
    out = screen()
    out.print(table if said["faults"] else "Nothing stands out from the background loss.")
    out.print(_words(located))


def _words(located: Located) -> str:
    words = f"{located.flows} flows read in {located.load_s:.3f} s, judged in {located.locate_s:.3f} s"
    if located.without_counts:
        words += f"; {located.without_counts} have no counts"
    if located.without_path:
        words += f"; {located.without_path} have no path and were left out"
    return words
