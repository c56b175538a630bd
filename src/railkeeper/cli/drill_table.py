"""A drill's answer as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from railkeeper.app.drill import answer

if TYPE_CHECKING:
    from railkeeper.app.drill import Drill

COLUMNS = ("fault", "located as", "located s", "denied s", "loss before", "after", "well again s")


def drill_table(run: Drill) -> Table:
    """Return what a drill has found, a row a fault."""
    result = answer(run)
    right = sum(r["right"] for r in result["results"])
    caption = f"{right} of {len(result['results'])} faults located, {len(result['false_alarms'])} false alarms"
    table = Table(*COLUMNS, title="What was injected, and what the keeper made of it", caption=caption)
    for r in result["results"]:
        located = "; ".join(f"{x['kind']} {x['target']} {x['direction']}" for x in r["located"]) or "-"
        table.add_row(
            f"{r['kind']} {r['target']} {r['direction']}", located,
            _seconds(r["seconds_to_locate"]), _seconds(r["seconds_to_mitigate"]),
            _share(r["loss_before"]), _share(r["loss_after"]), _seconds(r["seconds_to_clear"]),
            style="" if r["right"] else "red",
        )  # fmt: skip
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3%}"
