"""The pages as tests see them: text, headings, links, blocks of code, tables."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
PAGES = [TOP / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((TOP / "docs").rglob("*.md"))

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def read(name: str) -> str:
    return (TOP / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return [body for _, tongue, body in _FENCE.findall(text) if tongue == language]


def prose(text: str) -> str:
    """The text without its blocks of code."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """Where links into the page may point."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"no heading {heading!r}"
    return found[1]


def rows(text: str) -> dict[str, str]:
    """Rows of tables by their first column, without its backticks; a column of several names gives several rows."""
    out: dict[str, str] = {}
    for line in prose(text).splitlines():
        first = re.match(r"\| (`[^|]+`) \|", line)
        if first:
            out |= dict.fromkeys(re.findall(r"`([^`]+)`", first[1]), line)
    return out
