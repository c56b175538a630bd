"""The texts of `perfquery`, `ibqueryerrors` and `iblinkinfo --line`, read strictly: an unknown line is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LINES = 4_000_000
MOST_LINE_CHARS = 4_000

_PERF_HEAD = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,5}) port (\d{1,3})\b.*")
_PERF_LINE = re.compile(r"([A-Za-z][A-Za-z0-9]{0,60}):\.{0,80}(?:(\d{1,20})|(0x[0-9a-fA-F]{1,16}))")
_NOT_COUNTERS = frozenset({"PortSelect", "CounterSelect", "CounterSelect2"})
_ERRORS_HEAD = re.compile(r'(?:Errors|Data Counters) for (?:0x([0-9a-f]{1,16}) )?"(.*)"')
_ERRORS_PORT = re.compile(r"\s+GUID 0x([0-9a-f]{1,16}) port (ALL|\d{1,3}):((?: \[[^\[\]]{1,100}\])*)\s*")
_ERRORS_ENTRY = re.compile(r"\[([A-Za-z][A-Za-z0-9]{0,60}) == (\d{1,20})(?: \([^()]{0,40}\))?\]")
_SUMMARY = re.compile(r"## Summary: (\d{1,9}) nodes checked, (\d{1,9}) bad nodes found")
_SUMMARY_PORTS = re.compile(r"##\s+(\d{1,9}) ports checked, (\d{1,9}) ports have errors beyond threshold")
_LINK = re.compile(
    r'0x([0-9a-f]{1,16}) "\s*([^"]*)"\s+(\d{1,5})\s+(\d{1,3})\[\s*(\d*)\s*\] ==\('
    r"\s*(?:(\d{1,2}X)\s+([\d.]{1,12}) Gbps)?\s*(\w+)/\s*([\w.]+)\)==>\s+"
    r'(?:0x([0-9a-f]{1,16})\s+(\d{1,5})\s+(\d{1,3}))?\s*\[\s*(\d*)\s*\] "([^"]*)" \((.*)\)'
)


def read_perfquery(text: str, where: str = "perfquery") -> tuple[int, int, dict[str, int]]:
    """Return (LID, port, counters) of `perfquery` or `perfquery -x`. Raises InputError."""
    head: re.Match[str] | None = None
    values: dict[str, int] = {}
    for at, line in _lines(text, where):
        if line.startswith("#"):
            if head is not None:
                raise InputError(at, "a second port begins", "save one port in each file")
            head = _PERF_HEAD.fullmatch(line)
        found = None if line.startswith("#") else _PERF_LINE.fullmatch(line)
        if head is None or (found is None and not line.startswith("#")):
            raise InputError(at, f"{line[:60]!r} is none of perfquery's lines", "save its output as it is")
        if found:
            _put(values, found[1], int(found[2] or found[3], 0 if found[3] else 10), at)
    if head is None:
        raise InputError(where, "it is empty", "save the output of perfquery")
    return int(head[1]), int(head[2]), {k: v for k, v in values.items() if k not in _NOT_COUNTERS}


@dataclass
class Errors:
    """What `ibqueryerrors` found: (guid, port) -> counters; and how many nodes and ports it has asked.

    The guid is the node's, but of a host's port with errors it is the port's own.
    """

    ports: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    nodes_checked: int = 0
    ports_checked: int = 0


def read_errors(text: str, where: str = "ibqueryerrors") -> Errors:
    """Read `ibqueryerrors`, also with --counters or --details. Sums over all ports of a switch are left out.

    Raises InputError, also if the summary at the end is missing: then the run was cut short.
    """
    out = Errors()
    node = ""
    done = False
    for at, line in _lines(text, where):
        if found := _ERRORS_HEAD.fullmatch(line):
            node = found[1].zfill(16) if found[1] else "any"
        elif found := _ERRORS_PORT.fullmatch(line):
            _add_errors(out, node, found, at)
        elif found := _SUMMARY.fullmatch(line):
            out.nodes_checked, done = int(found[1]), True
        elif found := _SUMMARY_PORTS.fullmatch(line):
            out.ports_checked = int(found[1])
        elif not line.startswith(("## Thresholds:", "## Suppressed:")):
            raise InputError(at, f"{line[:60]!r} is none of ibqueryerrors' lines", "save its output as it is")
    if not done:
        raise InputError(where, "its summary is missing", "the run was cut short; save all of it")
    return out


def _add_errors(out: Errors, node: str, found: re.Match[str], at: str) -> None:
    guid = found[1].zfill(16)
    if node not in {guid, "any"}:
        raise InputError(at, f"port of {guid} below node {node or 'none'}", "save its output as it is")
    counters: dict[str, int] = {}
    rest = found[3].strip()
    for entry in _ERRORS_ENTRY.finditer(rest):
        _put(counters, entry[1], int(entry[2]), at)
    if _ERRORS_ENTRY.sub("", rest).strip():
        raise InputError(at, "an entry is not [Name == number]", "save its output as it is")
    if found[2] != "ALL":
        known = out.ports.setdefault((guid, int(found[2])), {})
        for name, value in counters.items():
            _put(known, name, value, at)


@dataclass(frozen=True)
class LinkLine:
    """One port of `iblinkinfo --line`: guid is the node's for a switch and the port's for a host.

    - state, phys_state: "Active", "LinkUp" …; width and speed are 0 while it is down
    - other: (guid, port) at the other end, None if nothing is seen there; hint: "Could be 4X …"
    """

    guid: str
    name: str
    lid: int
    port: int
    state: str
    phys_state: str
    width: int
    lane_gbps: float
    other: tuple[str, int] | None
    hint: str


def read_links(text: str, where: str = "iblinkinfo --line") -> list[LinkLine]:
    """Read `iblinkinfo --line`. Raises InputError."""
    lines = []
    for at, line in _lines(text, where):
        found = _LINK.fullmatch(line)
        if found is None:
            raise InputError(at, f"{line[:60]!r} is none of iblinkinfo's lines", "save the output of iblinkinfo --line")
        lines.append(_link_line(found, at))
    return lines


def _link_line(found: re.Match[str], at: str) -> LinkLine:
    try:
        lane_gbps = float(found[7] or 0)
    except ValueError:
        raise InputError(at, f"{found[7]!r} is no speed", "save the output of iblinkinfo --line") from None
    return LinkLine(
        guid=found[1].zfill(16),
        name=found[2].strip(),
        lid=int(found[3]),
        port=int(found[4]),
        state=found[8],
        phys_state=found[9],
        width=int((found[6] or "0X")[:-1]),
        lane_gbps=lane_gbps,
        other=(found[10].zfill(16), int(found[12])) if found[10] else None,
        hint=found[15].strip(),
    )


def _lines(text: str, where: str) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise InputError(where, f"{len(lines)} lines", f"at most {MOST_LINES} are read")
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_LINE_CHARS:
            raise InputError(f"{where}: line {number}", f"{len(line)} characters", f"at most {MOST_LINE_CHARS}")
        if line.strip():
            yield f"{where}: line {number}", line.rstrip("\r ")


def _put(values: dict[str, int], name: str, value: int, at: str) -> None:
    if values.get(name, value) != value:
        raise InputError(at, f"{name} is there twice and differs", "save one run in each file")
    values[name] = value
