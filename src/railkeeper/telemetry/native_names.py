"""Native names out of what people have at hand: `ethtool -S`, exposition text, JSON of a database, or a plain list."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

MAX_NAMES = 200_000
MAX_DEPTH = 8
_METRIC = re.compile(r"([a-zA-Z_:](?:[a-zA-Z0-9_:]{0,198}[a-zA-Z0-9_])?)(?:\{.*\})?[ \t]+(\S+)", re.ASCII)
_STATISTIC = re.compile(r"(\S.{0,199}?)(?::[ \t]+|:\.{2,})(\S.*)", re.ASCII)
_LONE = re.compile(r"\S.{0,199}")


@dataclass(frozen=True)
class Listing:
    """Names with one of their values as text, and how they were written."""

    form: Literal["ethtool", "exposition", "json", "list"]
    names: dict[str, str]


def names_in(text: str) -> Listing:
    """Return the native names of a text, in the order in which they come."""
    if text.lstrip().startswith(("{", "[")):
        found = _json_names(text)
        if found is not None:
            return Listing("json", found)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith(("# HELP", "# TYPE")) for line in lines) or _mostly(_METRIC, lines):
        return Listing("exposition", _pairs(_METRIC, lines))
    if lines and (lines[0] == "NIC statistics:" or _mostly(_STATISTIC, lines)):
        return Listing("ethtool", _pairs(_STATISTIC, [line for line in lines if line != "NIC statistics:"]))
    lone = [line for line in lines if not line.startswith("#") and _LONE.fullmatch(line)]
    return Listing("list", dict.fromkeys(lone[:MAX_NAMES], ""))


def _mostly(pattern: re.Pattern[str], lines: list[str]) -> bool:
    asked = [line for line in lines[:200] if not line.startswith("#")]
    return bool(asked) and sum(bool(pattern.fullmatch(line)) for line in asked) * 2 > len(asked)


def _pairs(pattern: re.Pattern[str], lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        match = None if line.startswith("#") else pattern.match(line)
        if match and len(found) < MAX_NAMES:
            found.setdefault(match[1], match[2][:60])
    return found


def _json_names(text: str) -> dict[str, str] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found: dict[str, str] = {}
    _collect(data, found, MAX_DEPTH)
    return found


def _collect(data: Any, found: dict[str, str], depth: int) -> None:
    """Take the names whose values are no objects themselves."""
    if depth == 0 or len(found) >= MAX_NAMES:
        return
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(value, dict | list):
            _collect(value, found, depth - 1)
        elif isinstance(key, str):
            found.setdefault(key, str(value)[:60])
