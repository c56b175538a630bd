"""Signals and bindings as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TITLES = {
    "port": "Ports: both ends of every link, and RDMA ports", "nic": "NICs", "node": "Nodes", "switch": "Switches",
    "gpu": "GPUs",
}  # fmt: skip


def print_list(data: dict[str, Any]) -> None:
    """Print all signals by kind of entity, then the dialects."""
    for entity, title in TITLES.items():
        mine = [s for s in data["signals"] if s["name"].split(".")[0] == entity]
        print(f"{title} ({len(mine)})")
        _table([(_column(s), s["kind"], s["unit"], s["text"]) for s in mine])
        print()
    print(f"Dialects ({len(data['dialects'])})")
    _table([(d["name"], f"{d['bound']} names", d["about"]) for d in data["dialects"]])


def print_signals(data: dict[str, Any]) -> None:
    """Print what signals mean, and every native name of theirs."""
    for i, signal in enumerate(data["signals"]):
        print(*([""] if i else []), f"{signal['name']}: {signal['text']}", sep="\n" if i else "")
        _table(
            [
                ("kind", signal["kind"]), ("unit", signal["unit"]),
                ("direction", {"rx": "received", "tx": "sent", None: "none"}[signal["direction"]]),
                ("parts", f"by {signal['parts']}, as {_column(signal)}" if signal["parts"] else "none"),
                ("when absent", signal["absent"]),
            ]
        )  # fmt: skip
        rows = signal["native"]
        print(f"native names ({len(rows)})" if rows else "no source here gives it")
        _table([(r["dialect"], r["native"], _how(r)) for r in rows])


def print_dialect(data: dict[str, Any]) -> None:
    """Print all names of a dialect."""
    print(f"{data['dialect']}: {data['about']}")
    _table([("labels", ", ".join(data["labels"])), ("also called", ", ".join(data["aliases"]) or "nothing else")])
    print(f"bound ({len(data['bound'])})")
    _table([(r["native"], _target(r), _how(r)) for r in data["bound"]])
    print(f"known, not wanted ({len(data['known'])})")
    _table([(k["native"], k["why"]) for k in data["known"]])


def print_native(data: dict[str, Any]) -> None:
    """Print what a native name means, in every dialect that knows it."""
    for row in data["bound"]:
        print(f"{row['dialect']}: {row['native']} is {row['signal']}")
        _table([("column", row["column"]), ("how", _how(row) or "as it is"), ("meaning", row["text"])])
    for row in data["known"]:
        print(f"{row['dialect']}: {row['native']} is known and not wanted: {row['why']}")
    if not data["bound"] and not data["known"]:
        print(f"{data['native']}: unbound, no dialect knows it; it would be kept and counted as such")


def print_unbound(data: dict[str, Any]) -> None:
    """Print which names mean nothing here."""
    where = ", ".join(data["dialects"]) if len(data["dialects"]) <= 3 else f"{len(data['dialects'])} dialects"
    print(
        f"{data['names']} names ({data['form']}) against {where or 'no dialect'}: {len(data['bound'])} bound, "
        f"{len(data['known'])} known and not wanted, {len(data['unbound'])} unbound"
    )
    _table([(u["native"], u["sample"]) for u in data["unbound"]])


def _column(signal: dict[str, Any]) -> str:
    bare = signal["name"].split(".", 1)[1]
    return f"{bare}[{signal['parts']}]" if signal["parts"] else bare


def _target(row: dict[str, Any]) -> str:
    return f"{row['signal']}[{row['part']}]" if row["part"] else str(row["signal"])


def _how(row: dict[str, Any]) -> str:
    """Say what is done with the native value, in words."""
    words = [f"times {row['scale']:g}"] if row["scale"] != 1 else []
    if row["width"] not in (None, 64):
        words.append(f"{row['width']} bits" + (", stops at its largest value" if row["saturates"] else ""))
    if row["adds"]:
        words.append("added up")
    return "; ".join([*words, row["note"]] if row["note"] else words)


def _table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows with their columns below each other; the last one runs free."""
    filled = [tuple(map(str, row)) for row in rows]
    if not filled:
        return
    widths = [max(len(row[i]) for row in filled) for i in range(len(filled[0]) - 1)]
    for row in filled:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  " + "  ".join([*cells, row[-1]]).rstrip())
