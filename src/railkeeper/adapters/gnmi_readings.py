"""Notifications of gNMI as readings: which object a path is about, and what its leaf is called there.

OpenConfig: keys of lists become labels, and the name is the path without them. SONiC's own paths carry the fields of
its databases, which keep their names and so their bindings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.adapters.gnmi_paths import Elem, Path, begins_with, elem_of, schema_of
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Value = int | float | str | None

# Leaves that are remembered, so that a delete can say what has no data from now on: more than a switch has.
MOST_LEAVES = 1_000_000
MOST_PATHS = 200_000

_LABELS = {
    ("interface", "name"): "port",
    ("interface", "interface-id"): "port",
    ("voq-interface", "name"): "port",
    ("queue", "name"): "queue",
    ("component", "name"): "component",
    ("channel", "index"): "lane",
    ("lane", "index"): "lane",
    ("lane", "lane-number"): "lane",
}
_SONIC_OBJECT = re.compile(
    r"(Ethernet[\w./-]{1,60}|PORT\d{1,5}|SWITCH\w{0,60}|[^:|\s]{1,100}\|[^:\s]{1,60})(?::(\d{1,4}))?"
)
_SONIC_TABLES = frozenset({"COUNTERS", "RATES", "PERIODIC_WATERMARKS", "PERSISTENT_WATERMARKS", "PORT_PHY_ATTR"})
_SONIC_KINDS = {"Queues": "queue", "PriorityGroups": "pg", "Pfcwd": "queue", "VoQs": "voq"}
_SONIC_FIELDS = (
    ("SAI_QUEUE_", "queue"),
    ("PFC_WD_", "queue"),
    ("SAI_INGRESS_PRIORITY_GROUP_", "pg"),
    ("SAI_BUFFER_POOL_", "pool"),
    ("SAI_SWITCH_", "switch"),
)


@dataclass(frozen=True)
class Place:
    """Where one leaf belongs: dialect, labels (sorted pairs, without the switch's), native name."""

    dialect: str
    labels: tuple[tuple[str, str], ...]
    name: str


def place_of(path: Path, database: str = "") -> Place:
    """Return where a leaf belongs. `database`: the target of the prefix, as COUNTERS_DB; empty for OpenConfig."""
    if database.endswith("_DB") and path:
        return _sonic(path)
    return _openconfig(path)


def _openconfig(path: Path) -> Place:
    labels: dict[str, str] = {}
    for elem in path:
        for key, value in elem.keys:
            label = _LABELS.get((elem.name, key), key)
            labels[label if label not in labels else f"{elem.name}_{key}"] = value
    return Place("openconfig", tuple(sorted(labels.items())), schema_of(path))


def _sonic(path: Path) -> Place:
    labels: dict[str, str] = {}
    names: list[str] = []
    kind = ""
    for elem in path[1:]:
        found = _SONIC_OBJECT.fullmatch(elem.name)
        if found:
            labels["port"] = found[1]
            if found[2] is not None:
                labels["index"] = found[2]
        elif elem.name in _SONIC_KINDS:
            kind = _SONIC_KINDS[elem.name]
        elif not elem.name.endswith("*"):
            names.append(elem.name)
    name = "/".join(names)
    kind = next((k for start, k in _SONIC_FIELDS if name.startswith(start)), kind or "port")
    if "index" in labels:
        labels[kind if kind in {"queue", "pg"} else "queue"] = labels.pop("index")
    return Place(_sonic_dialect(path[0].name, kind), tuple(sorted(labels.items())), name)


def _sonic_dialect(table: str, kind: str) -> str:
    if table.endswith("_WATERMARKS"):
        return f"sonic.{kind}_watermarks"
    if table in _SONIC_TABLES and table != "COUNTERS":
        return f"sonic.{table.lower()}"
    return f"sonic.{kind}" if table == "COUNTERS" else f"sonic.{table.lower()}"


@dataclass
class Reader:
    """Turns leaves into readings of one switch, and remembers which leaves it has seen."""

    source: str
    target: str
    database: str = ""
    seen: dict[Path, Place] = field(default_factory=dict)

    def updates(self, leaves: Iterable[tuple[Path, Value]], t_ns: int) -> list[Reading]:
        """Return the readings of one notification: one for each object."""
        grouped: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Value]] = {}
        for path, value in leaves:
            place = self.seen.get(path) or self._place(path)
            grouped.setdefault((place.dialect, place.labels), {})[place.name] = value
        return [self._reading(dialect, labels, t_ns, values) for (dialect, labels), values in grouped.items()]

    def deletes(self, paths: Iterable[Path], t_ns: int) -> list[Reading]:
        """Return the readings of deleted paths: what was known below them can't be read from now on."""
        patterns = list(paths)
        gone = [path for path in self.seen if any(begins_with(path, pattern) for pattern in patterns)]
        readings = self.updates([(path, None) for path in gone], t_ns)
        for path in gone:
            del self.seen[path]
        return readings

    def _place(self, path: Path) -> Place:
        place = place_of(path, self.database)
        if len(self.seen) < MOST_LEAVES:
            self.seen[path] = place
        return place

    def _reading(
        self, dialect: str, labels: tuple[tuple[str, str], ...], t_ns: int, values: Mapping[str, Value]
    ) -> Reading:
        return Reading(self.source, self.target, dialect, {"switch": self.target, **dict(labels)}, t_ns, values)


class PathCache:
    """Paths of one stream as plain data: the same bytes come again and again, and are read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Path] = {}
        self._prefix_raw = b""
        self._prefix: object = None

    def below(self, prefix: object) -> None:
        """Set the prefix of the paths that follow."""
        self._prefix, self._prefix_raw = prefix, prefix.SerializeToString()  # type: ignore[attr-defined]

    def path(self, path: object) -> Path:
        """Return a gNMI Path below the prefix that was set."""
        key = (self._prefix_raw, path.SerializeToString())  # type: ignore[attr-defined]
        found = self._known.get(key)
        if found is None:
            found = plain_path(self._prefix, path)
            if len(self._known) < MOST_PATHS:
                self._known[key] = found
        return found


def plain_path(prefix: object, path: object) -> Path:
    """Return a gNMI Path below a prefix as plain data; the old `element` form is read too."""
    return (*_elems(prefix), *_elems(path))


def _elems(path: object) -> list[Elem]:
    new = [elem_of(elem.name, elem.key.items()) for elem in path.elem]  # type: ignore[attr-defined]
    return new or [elem_of(name) for name in path.element]  # type: ignore[attr-defined]
