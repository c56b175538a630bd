"""Paths of gNMI as plain data: read from text, joined with a prefix, matched. Nothing of gRPC here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_ELEMS = 64
MOST_CHARS = 4096


class Elem(NamedTuple):
    """One step of a path: its name without the module (`openconfig-interfaces:`), and its keys, sorted."""

    name: str
    keys: tuple[tuple[str, str], ...] = ()


Path = tuple[Elem, ...]

_NAME = re.compile(r"[^\[\]/\s=]{1,200}")
_KEY = re.compile(r"\[([A-Za-z_][\w.:-]{0,100})=((?:[^\]\\]|\\.){0,1000})\]")


def read_path(text: str, where: str = "path") -> Path:
    """Return the path of a text such as `/interfaces/interface[name=Ethernet0]/state`. Raises InputError.

    A slash in brackets belongs to a key's value; a backslash keeps the next character as it is.
    """
    if len(text) > MOST_CHARS:
        raise InputError(where, f"{len(text)} characters", f"at most {MOST_CHARS}")
    elems: list[Elem] = []
    at = 0
    while at < len(text):
        if text[at] == "/":
            at += 1
            continue
        elem, at = _read_elem(text, at, where)
        elems.append(elem)
        if at < len(text) and text[at] != "/":
            raise InputError(where, f"{text!r} is no path", "write /name[key=value]/name")
    if len(elems) > MOST_ELEMS:
        raise InputError(where, f"{len(elems)} steps", f"at most {MOST_ELEMS}")
    return tuple(elems)


def _read_elem(text: str, at: int, where: str) -> tuple[Elem, int]:
    found = _NAME.match(text, at)
    if found is None:
        raise InputError(where, f"{text!r} is no path", "write /name[key=value]/name")
    at, keys = found.end(), {}
    while key := _KEY.match(text, at):
        if key[1] in keys:
            raise InputError(where, f"key {key[1]} is there twice in {text!r}", "give each key once")
        keys[key[1]] = re.sub(r"\\(.)", r"\1", key[2])
        at = key.end()
    return elem_of(found[0], keys.items()), at


def elem_of(name: str, keys: Iterable[tuple[str, str]] = ()) -> Elem:
    """Return a step; the name of the module before a colon is left out, and keys are sorted.

    What YANG names begins with no digit: `Ethernet4:3` is a queue of SONiC, and stays whole.
    """
    plain = name.rpartition(":")[2]
    return Elem(plain if plain[:1].isalpha() or plain[:1] == "_" else name, tuple(sorted(keys)))


def text_of(path: Path) -> str:
    """Return a path as text that `read_path` reads back."""
    return "/" + "/".join(elem.name + "".join(f"[{k}={_escaped(v)}]" for k, v in elem.keys) for elem in path)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("]", "\\]")


def schema_of(path: Path) -> str:
    """Return a path without its keys: which leaf it is, of whatever object."""
    return "/" + "/".join(elem.name for elem in path)


def begins_with(path: Path, start: Path) -> bool:
    """Return whether a path is at or below another, in which `*` and missing keys stand for any."""
    return len(path) >= len(start) and all(_fits(a, b) for a, b in zip(path, start, strict=False))


def _fits(elem: Elem, pattern: Elem) -> bool:
    if not _fits_text(elem.name, pattern.name):
        return False
    keys = dict(elem.keys)
    return all(value == "*" or keys.get(name) == value for name, value in pattern.keys)


def _fits_text(text: str, pattern: str) -> bool:
    if pattern.endswith("*"):  # SONiC's paths end in such: Ethernet*
        return text.startswith(pattern[:-1])
    return text == pattern
