"""The fabric spec file: a short TOML text that defines a whole fabric."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MAX_DOMAINS = 64
MAX_T0_PER_PLANE = 0x7F00
MAX_T1_PER_PLANE = 0x6000
MAX_NICS_PER_T0 = 0x2000
MAX_LINKS = 1 << 26  # 32 times the largest fabric known; columns of more would not fit into a machine's memory
_SHOWN = 60  # characters of a bad value that an error repeats


class Shape(BaseModel):
    """The `[fabric]` table: counts of a two-tier, multi-plane fabric."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(default="fabric", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")
    planes: int = Field(ge=1, le=8)
    t0_per_plane: int = Field(ge=1, le=MAX_T0_PER_PLANE)
    t1_per_plane: int = Field(ge=1, le=MAX_T1_PER_PLANE)
    nics_per_t0: int = Field(ge=1, le=MAX_NICS_PER_T0)
    nics_per_node: int = Field(default=1, ge=1, le=64)
    rails: int = Field(default=1, ge=1, le=MAX_DOMAINS)
    link_gbps: float = Field(default=100.0, gt=0, le=100_000)


class OpticsShape(BaseModel):
    """The optional `[optics]` table: how many neighbouring ports share one transceiver."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    nic_ports_per_optic: int = Field(default=1, ge=1)
    t0_ports_per_optic: int = Field(default=1, ge=1)


class FabricSpec(BaseModel):
    """A whole spec file, checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fabric: Shape
    optics: OpticsShape | None = None


def read_spec(path: Path) -> FabricSpec:
    """Read and check a spec file.

    Raises InputError that names the file, the field and what would be right.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise InputError(str(path), f"can't be read ({e.strerror})", "give the path of a fabric spec") from e
    except UnicodeDecodeError as e:
        raise InputError(str(path), "is not UTF-8 text", "give a TOML file") from e
    return parse_spec(text, where=str(path))


def parse_spec(text: str, *, where: str = "spec") -> FabricSpec:
    """Check the text of a spec; `where` is the name that errors use."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as e:  # huge numbers and deep nesting raise what is no TOMLDecodeError
        raise InputError(where, f"is not TOML ({e})", "see docs/reference/fabric-spec.md") from e
    return check_spec(data, where=where)


def check_spec(data: dict[str, Any], *, where: str = "spec") -> FabricSpec:
    """Check a spec given as nested dictionaries."""
    try:
        spec = FabricSpec.model_validate(data)
    except ValidationError as e:
        raise _first_problem(e, where) from e
    _check_rails(spec.fabric, where)
    _check_size(spec.fabric, where)
    _check_optics(spec, where)
    return spec


def _first_problem(error: ValidationError, where: str) -> InputError:
    problems = error.errors(include_url=False)
    # A misspelt key is also a missing one: the unknown key tells the user more.
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    field = ".".join(str(x) for x in first["loc"])
    kind = first["type"]
    if kind == "extra_forbidden":
        known = sorted(_known_keys(first["loc"][:-1]))
        return InputError(f"{where}: {field}", "is not a known key", f"known keys: {', '.join(known)}")
    if kind == "missing":
        return InputError(f"{where}: {field}", "is missing", "it must be given")
    if kind == "model_type":
        return InputError(f"{where}: {field}", f"is {_short(first['input'])}", f"it must be a table: [{field}]")
    return InputError(f"{where}: {field}", f"is {_short(first['input'])}", _lower_first(first["msg"]))


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of thousands of digits, but reads one in hexadecimal
        text = "a huge number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    models: dict[str, type[BaseModel]] = {"fabric": Shape, "optics": OpticsShape}
    model: type[BaseModel] = models[str(loc[0])] if loc else FabricSpec
    return list(model.model_fields)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _check_rails(s: Shape, where: str) -> None:
    if s.rails > 1 and s.rails != s.nics_per_node:
        raise InputError(
            f"{where}: fabric.rails",
            f"is {s.rails} while fabric.nics_per_node is {s.nics_per_node}",
            "with more than one rail, each NIC of a node has a rail of its own: give both the same number",
        )
    if s.rails * s.planes > MAX_DOMAINS:
        raise InputError(f"{where}: fabric.rails", f"times planes is {s.rails * s.planes}", f"at most {MAX_DOMAINS}")
    per_rail = s.t0_per_plane * s.nics_per_t0
    if s.rails == 1 and per_rail % s.nics_per_node:
        raise InputError(
            f"{where}: fabric.nics_per_node",
            f"is {s.nics_per_node}, which does not divide the {per_rail} NICs (t0_per_plane x nics_per_t0)",
            "give a divisor, so that every node is whole",
        )


def _check_size(s: Shape, where: str) -> None:
    links = s.rails * s.planes * s.t0_per_plane * (s.nics_per_t0 + s.t1_per_plane)
    if links > MAX_LINKS:
        raise InputError(
            f"{where}: fabric.t0_per_plane",
            f"is {s.t0_per_plane}, which makes {links:,} links",
            f"rails x planes x t0_per_plane x (nics_per_t0 + t1_per_plane) is at most {MAX_LINKS:,}",
        )


def _check_optics(spec: FabricSpec, where: str) -> None:
    o, s = spec.optics, spec.fabric
    if o is None:
        return
    limits = {"nic_ports_per_optic": s.planes, "t0_ports_per_optic": s.nics_per_t0 + s.t1_per_plane}
    for key, limit in limits.items():
        value = getattr(o, key)
        if value > limit:
            raise InputError(f"{where}: optics.{key}", f"is {value}", f"at most {limit}, the ports there are")
