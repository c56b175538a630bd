"""Records: entries of a list from outside, read one by one; those that are bad are told and the others kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from railkeeper.base.errors import InputError
from railkeeper.telemetry.jobs import Listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from railkeeper.telemetry.jobs import Workload

_T = TypeVar("_T")
MAX_PROBLEMS = 20


def read_all(entries: Iterable[Any], read: Callable[[Any], _T | None], what: str) -> Listed[_T]:
    """Read each entry; one for which `read` gives None is left out, one for which it raises InputError is bad."""
    items: list[_T] = []
    problems: list[str] = []
    seen = left_out = bad = 0
    for entry in entries:
        seen += 1
        try:
            item = read(entry)
        except InputError as error:
            bad += 1
            if bad <= MAX_PROBLEMS:
                problems.append(f"{what} {seen}: {error}")
            continue
        if item is None:
            left_out += 1
        else:
            items.append(item)
    return Listed(tuple(items), seen, left_out, bad, tuple(problems))


def load_json(text: str | bytes, where: str) -> dict[str, Any]:
    """Return a JSON object; raises InputError for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"no JSON ({type(error).__name__}: {str(error)[:100]})", "a JSON object") from None
    if not isinstance(data, dict):
        raise InputError(where, f"JSON, but a {type(data).__name__}", "a JSON object")
    return data


def entries_of(data: Any, key: str, where: str) -> list[Any]:
    """Return the list under a key; raises InputError if there is none."""
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise InputError(where, f"no list {key!r}", f'an object with "{key}": [...]')
    return found


def field_text(entry: Any, *path: str, need: bool = False) -> str:
    """Return the text at a path of keys, empty where it is not there; raises InputError if it is no text."""
    found = field_any(entry, *path)
    if found is None and not need:
        return ""
    if not isinstance(found, str) or (need and not found):
        raise InputError(".".join(path), f"{_shown(found)}", "a text")
    return whole_text(found, ".".join(path))


def whole_text(text: str, where: str) -> str:
    """Return a text; raises InputError if it has half characters, which JSON can hold and nothing can write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(where, _shown(text), "whole characters") from None
    return text


def field_any(entry: Any, *path: str) -> Any:
    """Return what is at a path of keys, None where it is not there."""
    for key in path:
        if not isinstance(entry, dict):
            return None
        entry = entry.get(key)
    return entry


def field_dict(entry: Any, *path: str) -> dict[str, Any]:
    """Return the object at a path, empty where it is not there; raises InputError if it is none."""
    found = field_any(entry, *path)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(".".join(path), _shown(found), "an object")
    return found


def field_list(entry: Any, *path: str) -> list[Any]:
    """Return the list at a path, empty where it is not there; raises InputError if it is none."""
    found = field_any(entry, *path)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InputError(".".join(path), _shown(found), "a list")
    return found


def _shown(found: Any) -> str:
    return repr(found)[:60]


def complaint_of(found: Workload) -> str:
    """Return what could not be read, in one line; empty if all could."""
    return "; ".join(
        f"{listed.bad} of {listed.seen} {what} can't be read: {listed.problems[0]}"
        for what, listed in (("nodes", found.nodes), ("jobs", found.jobs))
        if listed.bad
    )
