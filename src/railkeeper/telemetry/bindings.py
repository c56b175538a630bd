"""Bindings as data: which native name of a dialect is which signal. One TOML file for each dialect.

[dialect]
name = "mlx5.hw"
about = "…"
labels = ["host", "device", "port"]    # what a reading of it is labelled with
[bind]
out_of_sequence = { signal = "port.out_of_sequence_rx", width = 32 }
"rx_prio{p}_pause" = "port.pfc_rx_frames"
[known]
lifespan = "why it is understood and not wanted"
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railkeeper.base.errors import InputError
from railkeeper.telemetry.signals import NUMBERED, catalogue, first_problem, load_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railkeeper.telemetry.signals import Catalogue, Signal

PART = "{p}"
ANY = "{any}"
# How a value is written: a number; text that begins with a number ("400 Gb/sec"); JSON or a list that holds one value
# for each lane.
Form = Literal["number", "leading", "lanes", "list"]
_PATTERNS = {PART: r"(\d{1,4})", ANY: r".*"}


@dataclass(frozen=True, slots=True)
class Binding:
    """One row: a native name (or pattern with `{p}`) of a dialect, and what it is.

    - scale, offset: signal = native * scale + offset; floor: smaller values are this one
    - width: bits of the native counter; saturates: it stops at its largest value instead of wrapping
    - base: number of the first part in native names
    - adds: native names of one group with the same signal are summed, and only if all of them are there; "" for none
    - states: words and numbers of a state, in small letters
    - rank: which source is followed first when several give the same signal; small ones first
    - blank: values from here on mean "no value"
    """

    dialect: str
    native: str
    signal: Signal
    scale: float
    offset: float
    floor: float
    width: int
    saturates: bool
    base: int
    part: str
    adds: str
    form: Form
    states: Mapping[str, float]
    rank: int
    blank: float
    note: str

    @property
    def counted_bits(self) -> int:
        """Width at which the scaled counter wraps: 64 where it never does."""
        bits = self.width + math.log2(self.scale) if self.scale > 0 else 64
        return 64 if self.saturates or bits != int(bits) else min(64, int(bits))


@dataclass(frozen=True, eq=False)
class Dialect:
    """All bindings of one kind of source.

    - labels: what readings of it carry; part_label: which label says the part (a queue's number): `a|b` the first of
      them that is there, `a+b` both together
    - max_age_s: how long its readings hold, None for as long as the tick says
    - family: "host", "switch", "infiniband" or "fabric": where its objects sit
    """

    name: str
    about: str
    family: str
    labels: tuple[str, ...]
    part_label: str
    max_age_s: float | None
    rows: tuple[Binding, ...]
    known: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    exact: Mapping[str, Binding] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], Binding], ...] = ()
    known_patterns: tuple[tuple[re.Pattern[str], str, str], ...] = ()


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)?$")
    about: str = Field(min_length=1)
    aliases: list[str] = []
    family: Literal["host", "switch", "infiniband", "fabric"] = "host"
    labels: list[str] = []
    part_label: str = ""
    max_age_s: float | None = Field(default=None, gt=0)
    rank: int = Field(default=0, ge=0, le=100)
    width: int = Field(default=64, ge=4, le=64)
    counter_blank: float = math.inf
    gauge_blank: float = math.inf


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    signal: str
    scale: float = Field(default=1.0, gt=0)
    offset: float = 0.0
    floor: float = -math.inf
    width: int | None = Field(default=None, ge=4, le=64)
    saturates: bool = False
    base: int = Field(default=0, ge=0)
    part: str = ""
    adds: bool | str = False
    form: Form = "number"
    states: dict[str, float] = {}
    rank: int | None = Field(default=None, ge=0, le=100)
    note: str = ""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dialect: _Head
    bind: dict[str, str | _Row] = {}
    known: dict[str, str] = {}


def read_dialect(text: str, *, where: str, signals: Catalogue | None = None) -> Dialect:
    """Read the bindings of one dialect; raises InputError that names the file and the key."""
    try:
        valid = _File.model_validate(load_toml(text, where))
    except ValidationError as e:
        raise first_problem(e, f"{where}: ") from e
    twice = sorted(set(valid.bind) & set(valid.known))
    if twice:
        raise InputError(f"{where}: known.{twice[0]}", "is bound and known", "name it once")
    rows = tuple(
        _binding(valid.dialect, native, row, signals or catalogue(), f"{where}: bind.{native}")
        for native, row in valid.bind.items()
    )
    return _dialect(valid, rows)


@cache
def shipped() -> tuple[Dialect, ...]:
    """Return the dialects that come with the package."""
    folder = files("railkeeper.telemetry").joinpath("data", "bindings")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(read_dialect(folder.joinpath(name).read_text(encoding="utf-8"), where=name) for name in names)


def _binding(head: _Head, native: str, row: str | _Row, signals: Catalogue, where: str) -> Binding:
    valid = _Row(signal=row) if isinstance(row, str) else row
    signal = signals.get(valid.signal)
    if signal is None:
        raise InputError(where, f"there is no signal {valid.signal!r}", "railkeeper signals lists them")
    _check_parts(head, native, valid, signal, where)
    blank = head.counter_blank if signal.is_counter else head.gauge_blank
    known = {"width": valid.width or head.width, "rank": head.rank if valid.rank is None else valid.rank}
    return Binding(
        dialect=head.name, native=native, signal=signal, part=valid.part, blank=blank, **known,  # type: ignore[arg-type]
        **valid.model_dump(exclude={"signal", "part", "width", "rank", "states", "adds"}),
        adds=("sum" if valid.adds is True else valid.adds or ""),
        states={word.lower(): value for word, value in valid.states.items()},
    )  # fmt: skip


def _check_parts(head: _Head, native: str, row: _Row, signal: Signal, where: str) -> None:
    has = PART in native or row.part or head.part_label or row.form in ("lanes", "list")
    if signal.parts and not has:
        raise InputError(where, f"{signal.full_name} has parts ({signal.parts})", "say which: {p}, part or part_label")
    if not signal.parts and (PART in native or row.part):
        raise InputError(where, f"{signal.full_name} has no parts", "leave {p} and part out")
    if row.part and signal.parts in NUMBERED and not row.part.isdigit():
        raise InputError(where, f"{row.part!r} is no number of a {signal.parts}", "0, 1, 2 …")


def _dialect(valid: _File, rows: tuple[Binding, ...]) -> Dialect:
    head = valid.dialect
    return Dialect(
        name=head.name, about=head.about, family=head.family, labels=tuple(head.labels), part_label=head.part_label,
        max_age_s=head.max_age_s, rows=rows, known=valid.known, aliases=tuple(head.aliases),
        exact={row.native: row for row in rows if not _is_pattern(row.native)},
        patterns=tuple((_compiled(row.native), row) for row in rows if _is_pattern(row.native)),
        known_patterns=tuple((_compiled(k), k, why) for k, why in valid.known.items() if _is_pattern(k)),
    )  # fmt: skip


def _is_pattern(native: str) -> bool:
    return any(mark in native for mark in _PATTERNS)


def _compiled(native: str) -> re.Pattern[str]:
    parts = re.split(r"(\{p\}|\{any\})", native)
    return re.compile("".join(_PATTERNS.get(part) or re.escape(part) for part in parts), re.ASCII)
