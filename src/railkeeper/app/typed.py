"""Builds a flat dataclass of settings from what a file says, with every key and type checked."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def build(cls: type[T], given: Mapping[str, Any], where: str) -> T:
    """Return the settings; raises InputError that names `where`, the key, and what would be right."""
    types = {f.name: str(f.type) for f in fields(cls)}  # type: ignore[arg-type]
    for key in given:
        if key not in types:
            raise InputError(f"{where}.{key}", "is not a known key", f"known keys: {', '.join(sorted(types))}")
    values = {key: _checked(value, types[key], f"{where}.{key}") for key, value in given.items()}
    try:
        return cls(**values)
    except InputError as e:
        # The class knows the key but not the file that it stands in.
        raise InputError(f"{where}.{e.where.rpartition('.')[2]}", e.problem, e.right) from e


def _checked(value: Any, wanted: str, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "bool" and isinstance(value, bool):
        return value
    if wanted == "int" and number and isinstance(value, int):
        return value
    if wanted == "float" and number and math.isfinite(value):
        return float(value)
    if wanted.startswith("tuple") and isinstance(value, list | tuple) and all(map(_is_span, value)):
        return tuple((float(a), float(b)) for a, b in value)
    right = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    raise InputError(where, f"is {value!r}", right.get(wanted, "a list of [from, to] in unix seconds, from < to"))


def _is_span(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in value)
    return numbers and value[0] < value[1]
