"""The page of signals as tests see it."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "signals.md"


def rows_of_page() -> dict[str, tuple[str, str]]:
    """Rows of the catalogue's tables: full name to (kind, unit); a name's parts stand in brackets."""
    out, entity = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"### .*`(\w+)`", line):
            entity = heading[1]
        elif row := re.match(r"\| `([a-z0-9_]+)(?:\[\w+\])?` \| (\w+) \| ([^|]+) \|", line):
            if entity:
                out[f"{entity}.{row[1]}"] = (row[2], row[3].strip())
        elif line.startswith("## "):
            entity = ""
    return out
