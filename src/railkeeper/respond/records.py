"""Reading stored records back: tolerant of fields that another release has written."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def known_fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `data` that the dataclass `cls` knows, lists as tuples."""
    names = {f.name for f in fields(cls)}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names}
