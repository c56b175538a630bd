"""The catalogue of signals: every measured thing once, under one name over all vendors.

Read from `data/signals.toml`, which is part of the package. A column of a frame is a signal without its entity, or one
part of it: `rx_crc_errors`, `pfc_rx_frames[3]`.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railkeeper.base.errors import InputError
from railkeeper.telemetry.entities import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CATALOGUE = "signals.toml"
SignalKind = Literal["counter", "gauge", "watermark", "state", "event"]
Direction = Literal["", "rx", "tx"]
# What an index in brackets counts. The parts of the upper row are numbers, those of the lower row names.
NUMBERED = ("priority", "lane", "queue", "bin", "link", "class")
NAMED = ("pool", "sensor", "reason", "profile", "operation", "severity")

_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Signal:
    """One measured thing.

    - entity: kind of what it is about: port, nic, node, switch, gpu
    - direction: "rx" into the entity, "tx" out of it, "" neither
    - parts: what an index in brackets counts; "" for a signal without parts
    - width: bits of a counter, unless a binding says otherwise
    - absent: what it means when it is not there
    """

    entity: str
    name: str
    kind: SignalKind
    unit: str
    direction: Direction
    parts: str
    width: int
    absent: str
    text: str

    @property
    def full_name(self) -> str:
        """Name with its entity, as `port.rx_bytes`."""
        return f"{self.entity}.{self.name}"

    @property
    def is_counter(self) -> bool:
        """Whether it only grows, and its rate is what counts."""
        return self.kind == "counter"

    def column(self, part: str = "") -> str:
        """Return the name of the column of a frame, of one part of it where it has parts."""
        return f"{self.name}[{part}]" if part else self.name


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: SignalKind
    unit: str = Field(min_length=1)
    direction: Direction = ""
    parts: Literal["", "priority", "lane", "queue", "bin", "link", "class", "pool", "sensor", "reason", "profile",
                   "operation", "severity"] = ""  # fmt: skip
    width: Literal[32, 64] = 64
    absent: str = Field(min_length=1)
    text: str = Field(min_length=1)


class Catalogue:
    """All signals, by their full name."""

    def __init__(self, signals: Mapping[str, Signal]) -> None:
        self._signals = dict(signals)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._signals.values())

    def __len__(self) -> int:
        return len(self._signals)

    def __contains__(self, full_name: object) -> bool:
        return full_name in self._signals

    def get(self, full_name: str) -> Signal | None:
        """Return the signal of a full name (`port.rx_bytes`), None where there is none."""
        return self._signals.get(full_name)

    def named(self, name: str) -> list[Signal]:
        """Return the signals of a name, with or without its entity; parts in brackets are left out."""
        bare = name.partition("[")[0]
        return [s for s in self if bare in (s.full_name, s.name)]


@cache
def catalogue() -> Catalogue:
    """Return the catalogue that comes with the package."""
    data = files("railkeeper.telemetry").joinpath("data", CATALOGUE).read_text(encoding="utf-8")
    return read_catalogue(data, where=CATALOGUE)


def read_catalogue(text: str, *, where: str) -> Catalogue:
    """Read a catalogue; raises InputError that names the file and the key."""
    found = {}
    for entity, rows in load_toml(text, where).items():
        if entity not in KINDS or not isinstance(rows, dict):
            raise InputError(f"{where}: {entity}", "is not a kind of entity", f"one of {', '.join(KINDS)}")
        for name, row in rows.items():
            signal = _signal(entity, name, row, f"{where}: {entity}.{name}")
            found[signal.full_name] = signal
    return Catalogue(found)


def load_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML; raises InputError with the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise InputError(where, f"is not TOML: {e}", "correct the line that it names") from e


def first_problem(error: ValidationError, where: str) -> InputError:
    """Turn what Pydantic found first into an error that names file and key."""
    found = error.errors()[0]
    key = ".".join(str(part) for part in found["loc"])
    return InputError(f"{where}.{key}" if key else where, found["msg"], "see docs/reference/signals.md")


def _signal(entity: str, name: str, row: object, where: str) -> Signal:
    if not _NAME.fullmatch(name):
        raise InputError(where, f"{name!r} is not a name of a signal", "small letters, digits and _")
    try:
        valid = _Row.model_validate(row)
    except ValidationError as e:
        raise first_problem(e, where) from e
    return Signal(entity=entity, name=name, **valid.model_dump())
