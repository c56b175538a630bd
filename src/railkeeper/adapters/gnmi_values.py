"""Values of gNMI: typed ones, JSON, JSON_IETF and SONiC's texts, as leaves with their paths."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

from railkeeper.adapters.gnmi_paths import Elem, Path, elem_of
from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Value = int | float | str | None

MOST_DEPTH = 40
MOST_JSON_BYTES = 64_000_000
_MOST_DIGITS = 25

# Keys of the lists in the paths that we know; JSON does not say which of its members are keys.
LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "interface": ("name", "interface-id"),
    "queue": ("name",),
    "component": ("name",),
    "channel": ("index",),
    "lane": ("index", "lane-number"),
    "threshold": ("severity",),
    "neighbor": ("id",),
    "voq-interface": ("name",),
    "subinterface": ("index",),
}


def leaves_of(path: Path, value: Any) -> Iterator[tuple[Path, Value]]:
    """Give each leaf of a TypedValue at a path, with its own path. Raises InputError if it can't be read."""
    kind = value.WhichOneof("value")
    if kind in {"json_val", "json_ietf_val"}:
        yield from json_leaves(path, read_json(getattr(value, kind)))
    elif kind == "leaflist_val":
        yield path, json.dumps([_scalar(one, one.WhichOneof("value")) for one in value.leaflist_val.element])
    else:
        yield path, _scalar(value, kind)


def _scalar(value: Any, kind: str | None) -> Value:
    read = _SCALARS.get(kind or "")
    if read is not None:
        return read(getattr(value, kind or ""))
    return None if kind is None else f"<{kind}>"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _decimal(value: Any) -> float | None:
    return float(f"{value.digits}e-{value.precision}") if value.precision <= 100 else None


def _bytes(raw: bytes) -> Value:
    # OpenConfig's ieeefloat32 is binary of four bytes; all other bytes are told as they are.
    return _finite(struct.unpack(">f", raw)[0]) if len(raw) == 4 else raw.hex()


def read_json(raw: bytes) -> Any:
    """Return the JSON of a value. Raises InputError."""
    if len(raw) > MOST_JSON_BYTES:
        raise InputError("gNMI value", f"{len(raw)} bytes of JSON", f"at most {MOST_JSON_BYTES} are read")
    try:
        return json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(
            "gNMI value", f"it is no JSON ({type(error).__name__})", "the target sends broken JSON"
        ) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def json_leaves(path: Path, tree: Any, depth: int = 0) -> Iterator[tuple[Path, Value]]:
    """Give the leaves of a JSON tree at a path. An empty container has none."""
    if depth > MOST_DEPTH:
        raise InputError("gNMI value", f"JSON is nested deeper than {MOST_DEPTH}", "the target sends broken JSON")
    if isinstance(tree, dict):
        for name, below in tree.items():
            yield from _member_leaves(path, str(name), below, depth + 1)
    else:
        yield path, _json_scalar(tree)


def _member_leaves(path: Path, name: str, below: Any, depth: int) -> Iterator[tuple[Path, Value]]:
    if isinstance(below, list) and below and all(isinstance(entry, dict) for entry in below):
        for at, entry in enumerate(below):
            yield from json_leaves((*path, _list_elem(name, entry, at)), entry, depth)
    else:
        yield from json_leaves((*path, elem_of(name)), below, depth)


def _list_elem(name: str, entry: Mapping[str, Any], at: int) -> Elem:
    plain = elem_of(name).name
    members = {elem_of(str(k)).name: v for k, v in entry.items()}
    keys = [(k, str(members[k])) for k in LIST_KEYS.get(plain, ()) if isinstance(members.get(k), str | int)]
    return elem_of(name, keys[:1] or [("position", str(at))])


def _json_scalar(value: Any) -> Value:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return number_or_text(value)
    if isinstance(value, float):
        return _finite(value)
    return value if value is None or isinstance(value, int) else json.dumps(value)


def number_or_text(text: str) -> Value:
    """Return a text as the number it is: JSON_IETF and SONiC write numbers as texts. "007" stays a text."""
    if not text or len(text) > _MOST_DIGITS or not text.isascii():
        return text
    digits = text.removeprefix("-")
    if digits.isdigit():
        return int(text) if str(int(text)) == text else text
    if digits[:1].isdigit() and ("." in digits or "e" in digits.lower()) and "_" not in digits:
        try:
            return _finite(float(text))
        except ValueError:
            return text
    return None if text in {"N/A", "n/a"} else text


_SCALARS: Mapping[str, Callable[[Any], Value]] = {
    "string_val": number_or_text,
    "ascii_val": number_or_text,
    "int_val": int,
    "uint_val": int,
    "bool_val": int,
    "double_val": _finite,
    "float_val": _finite,
    "decimal_val": _decimal,
    "bytes_val": _bytes,
    "proto_bytes": _bytes,
    "json_val": lambda raw: json.dumps(read_json(raw)),
    "json_ietf_val": lambda raw: json.dumps(read_json(raw)),
}
