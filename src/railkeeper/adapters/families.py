"""Families of Prometheus text: which samples belong together by HELP, TYPE and UNIT, and which do not fit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railkeeper.adapters.series_table import Series

TEXT_KINDS = ("counter", "gauge", "histogram", "summary", "untyped")
OPENMETRICS_KINDS = (
    "counter", "gauge", "histogram", "gaugehistogram", "stateset", "info", "summary", "unknown",
)  # fmt: skip

# Endings that samples of a kind may have beyond the family's name; "" is the name itself.
TEXT_ENDINGS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
OPENMETRICS_ENDINGS = {
    "counter": ("_total", "_created"),
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "gaugehistogram": ("_bucket", "_gsum", "_gcount"),
    "summary": ("", "_sum", "_count", "_created"),
    "info": ("_info",),
}
ENDING = re.compile(r"_(?:total|created|bucket|sum|count|gsum|gcount|info)$")
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
# A series' label without which a bucket or a quantile has no place.
COUNTING = ("_total", "_bucket", "_count", "_gcount")
NEEDED_LABEL = {"_bucket": "le"}

Problem = tuple[str, str]


@dataclass
class Family:
    """Samples of one name: `rows` are their places in the scrape's arrays, rising."""

    name: str
    kind: str
    unit: str = ""
    help: str = ""
    rows: list[int] = field(default_factory=list)
    said: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Need:
    """A label that a row must have, with a number as its value or with any."""

    row: int
    label: str
    number: bool


class Families:
    """Families of one text, built line by line. Methods return what is wrong with a line, None if nothing is."""

    def __init__(self, *, openmetrics: bool) -> None:
        self.all: dict[str, Family] = {}
        self.needs: list[Need] = []
        self.counting: list[int] = []  # rows that count, and so are neither negative nor NaN
        self._openmetrics = openmetrics
        self._kinds = OPENMETRICS_KINDS if openmetrics else TEXT_KINDS
        self._endings = OPENMETRICS_ENDINGS if openmetrics else TEXT_ENDINGS
        self._current: Family | None = None

    def comment(self, line: str) -> Problem | None:
        """Take a comment."""
        if self._openmetrics and line == "# EOF":
            return None
        word, *rest = (line.split(" ", 3)[1:] if self._openmetrics else line.lstrip(" \t")[1:].split(None, 2)) or [""]
        if word not in ("HELP", "TYPE", "UNIT"):
            return ("a comment", "only HELP, TYPE, UNIT and EOF in OpenMetrics") if self._openmetrics else None
        if word == "UNIT" and not self._openmetrics:
            return None
        if not rest or not NAME.fullmatch(rest[0]):
            return f"{word} without a metric name", f"# {word} name …"
        return self._say(word, rest[0], rest[1] if len(rest) > 1 else "")

    def _say(self, word: str, name: str, text: str) -> Problem | None:
        family = self.all.get(name)
        if family is not None and word in family.said:
            return f"{word} of {name} is there twice", f"one {word} for a name"
        if family is not None and family.rows and (word == "TYPE" or self._openmetrics):
            return f"{word} of {name} comes after its samples", "it stands before them"
        if word == "TYPE" and text.strip() not in self._kinds:
            return f"unknown type {text.strip()[:40]!r}", f"one of {', '.join(self._kinds)}"
        if word == "UNIT" and text and not name.endswith("_" + text):
            return f"the name {name} does not end with its unit", f"it ends with _{text}"
        if family is None:
            family = self.all[name] = Family(name, "unknown" if self._openmetrics else "untyped")
        self._current = family
        family.said.add(word)
        self._set(family, word, text)
        return None

    @staticmethod
    def _set(family: Family, word: str, text: str) -> None:
        if word == "TYPE":
            family.kind = text.strip()
        elif word == "UNIT":
            family.unit = text
        else:
            family.help = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")

    def sample(self, series: Series, row: int) -> Problem | None:
        """Take a sample, which becomes the given row."""
        name = series.name
        family, ending = self._of(name)
        if family is None:
            family = self.all[name] = Family(name, "unknown" if self._openmetrics else "untyped")
        elif self._openmetrics and family is not self._current and family.rows:
            return f"samples of {family.name} are not together", "all lines of a family stand together"
        problem = self._fits(family, ending, series, row)
        if problem is None:
            self._current = family
            family.rows.append(row)
            if self._openmetrics and ending in COUNTING:
                self.counting.append(row)
        return problem

    def _of(self, name: str) -> tuple[Family | None, str]:
        """Return the family to which a sample's name belongs, and the name's ending in it."""
        found = ENDING.search(name)
        if found:
            family = self.all.get(name[: found.start()])
            if family is not None and found[0] in self._endings.get(family.kind, ()):
                return family, found[0]
        return self.all.get(name), ""

    def _fits(self, family: Family, ending: str, series: Series, row: int) -> Problem | None:
        allowed = self._endings.get(family.kind, ("",))
        if ending not in allowed:
            return f"{family.name} is a {family.kind}", f"its samples end with {', '.join(filter(None, allowed))}"
        need = _need(family, ending, row)
        if need is None:
            return None
        if not labels_fit(need, series):
            right = f'{need.label}="0.5"' if need.number else f'{need.label}="state"'
            return f"a {family.kind} without a {'number' if need.number else 'text'} in its label {need.label}", right
        self.needs.append(need)
        return None


def _need(family: Family, ending: str, row: int) -> Need | None:
    if ending in NEEDED_LABEL:
        return Need(row, NEEDED_LABEL[ending], number=True)
    if family.kind == "summary" and not ending:
        return Need(row, "quantile", number=True)
    return Need(row, family.name, number=False) if family.kind == "stateset" else None


def labels_fit(need: Need, series: Series) -> bool:
    """Return whether a series has the label that it needs."""
    value = series.labels.get(need.label)
    return value is not None and (not need.number or _is_number(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
