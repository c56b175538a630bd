"""The page of signals as tests see it. Run as a program it writes the page's tables anew from the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from railkeeper.telemetry.bind import binder
from railkeeper.telemetry.signals import catalogue

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "signals.md"
TITLES = {"port": "Ports", "nic": "NICs", "node": "Nodes", "switch": "Switches", "gpu": "GPUs"}
_BEGIN, _END = "<!-- tables: begin -->", "<!-- tables: end -->"


def rows_of_page() -> dict[str, tuple[str, str]]:
    """Rows of the catalogue's tables: full name to (kind, unit); a name's parts stand in brackets."""
    out, entity = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"### .*`(\w+)`", line):
            entity = heading[1]
        elif line.startswith("## "):
            entity = ""
        elif entity and (row := re.match(r"\| `([a-z0-9_]+)(?:\[\w+\])?` \| (\w+) \| ([^|]+) \|", line)):
            out[f"{entity}.{row[1]}"] = (row[2], row[3].strip())
    return out


def written_tables() -> str:
    """What stands between the marks of the page."""
    return PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0].strip()


def tables() -> str:
    """What should stand there."""
    lines = ["## All dialects", "", "| dialect | names | what |", "|---|---|---|"]
    for dialect in binder().dialects:
        also = f" (also `{'`, `'.join(dialect.aliases)}`)" if 0 < len(dialect.aliases) <= 5 else ""
        lines.append(f"| `{dialect.name}`{also} | {len(dialect.rows)} | {dialect.about.replace('|', '/')} |")
    lines += ["", "## All signals"]
    for entity, title in TITLES.items():
        lines += [
            "",
            f"### {title}: `{entity}`",
            "",
            "| name | kind | unit | meaning | when absent |",
            "|---|---|---|---|---|",
        ]
        for s in (s for s in catalogue() if s.entity == entity):
            name = f"{s.name}[{s.parts}]" if s.parts else s.name
            lines.append(f"| `{name}` | {s.kind} | {s.unit} | {s.text} | {s.absent} |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(_BEGIN)
    PAGE.write_text(f"{head}{_BEGIN}\n\n{tables()}\n\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")
