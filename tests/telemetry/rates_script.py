"""Scripts of cases for rates: a series, and what is to be said of each of its points. The grammar: rates/growth.case."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from railkeeper.telemetry.frame import ABSENT, FLAG_NAMES, NO_TIME

FOLDER = Path(__file__).parent / "rates"
ROWS = ("value", "flag", "rate")


@dataclass
class Case:
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    times_ns: list[int] = field(default_factory=list)
    # column -> "value", "flag", "rate" -> what stands in the row
    columns: dict[str, dict[str, list]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return int(self.settings.get("width", 64))


def number(text, width):
    """A number, a sum or product of numbers; not evaluated as Python."""
    if text == "ones":
        return 2**width - 1
    for sign, apply in (("+", lambda a, b: a + b), ("-", lambda a, b: a - b), ("*", lambda a, b: round(a * b))):
        left, found, right = text.rpartition(sign)
        if found:
            return apply(number(left, width), number(right, width))
    base, power, exponent = text.partition("^")
    if power:
        return int(base) ** int(exponent)
    return float(text) if "." in text else int(text)


def flags(words):
    """Names of flags may have blanks: the longest name that fits is taken."""
    out, rest = [], " ".join(words)
    while rest:
        name = max((n for n in FLAG_NAMES if rest == n or rest.startswith(f"{n} ")), key=len)
        out.append(FLAG_NAMES.index(name))
        rest = rest[len(name) :].strip()
    return out


def cells(kind, words, width):
    if kind == "flag":
        return flags(words)
    if kind == "rate":
        return [math.nan if w == "-" else float(w) for w in words]
    return [ABSENT if w == "-" else number(w, width) for w in words]


def row(case, kind, words):
    name = words.pop(0) if words[0] in ("a", "b") else "a"
    case.columns.setdefault(name, {})[kind] = cells(kind, words, case.width)


def cases_of(path):
    cases = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] == "==":
            cases.append(Case(line.removeprefix("==").strip()))
        elif words and words[0] == "at":
            cases[-1].times_ns = [NO_TIME if w == "-" else round(float(w) * 1e9) for w in words[1:]]
        elif words and words[0] in ROWS:
            row(cases[-1], words[0], words[1:])
        elif words:
            cases[-1].settings[words[0]] = words[1]
    return cases


def every_case():
    return [case for path in sorted(FOLDER.glob("*.case")) for case in cases_of(path)]
