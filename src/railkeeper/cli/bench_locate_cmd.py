"""`railkeeper bench locate`: precision, recall and speed on drawn windows, beside published methods."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from railkeeper.app.bench_locate import CELLS, METHODS, measure
from railkeeper.base.errors import InputError
from railkeeper.cli.errors import print_json
from railkeeper.cli.screen import screen


def locate(
    *,
    k: Annotated[int, typer.Option("--k", help="Pods of the fat tree, an even number.", min=4, max=32)] = 10,
    seeds: Annotated[int, typer.Option(help="Windows a cell.", min=1)] = 30,
    first_seed: Annotated[int, typer.Option(help="Number of the first window.", min=0)] = 1,
    cells: Annotated[str, typer.Option(help="Cells, with commas; all without.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, with commas; all without.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Faults located in drawn windows of a fat tree: ours by what may be seen, 007, NetBouncer."""
    if k % 2:
        raise InputError("--k", f"{k} is odd", "an even number")
    rows: list[dict[str, Any]] = []
    for cell in _chosen(cells, list(CELLS), "--cells"):
        print(f"{cell}: {seeds} windows", file=sys.stderr, flush=True)
        rows += measure(k, cell, range(first_seed, first_seed + seeds), _chosen(methods, list(METHODS), "--methods"))
    if as_json:
        print_json({"bench": "locate", "baseline": "007, NetBouncer", "k": k, "figures": rows})
        return
    table = Table(*rows[0], title=f"bench locate, k={k}")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    screen().print(table)


def _chosen(text: str, known: list[str], option: str) -> list[str]:
    chosen = [word.strip() for word in text.split(",") if word.strip()] or known
    for word in chosen:
        if word not in known:
            raise InputError(option, f"no {word!r}", f"some of {', '.join(known)}")
    return chosen
