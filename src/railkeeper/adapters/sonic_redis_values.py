"""What stands in SONiC's hashes: texts of numbers, poll stamps of several groups.

All here is pure: bytes in, names and values out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Value = int | float | str | None

STAMP_END = "_time_stamp"
_UNREADABLE = frozenset({b"", b"N/A", b"n/a", b"NA", b"None", b"null"})
# Longer ones are no counters: Python's int() also takes quadratic time on them.
_MOST_DIGITS = 25


def text(raw: bytes) -> str:
    """Return the text; bytes that are no UTF-8 stay visible as escapes."""
    return raw.decode("utf-8", "backslashreplace")


def value(raw: bytes) -> Value:
    """Return a number if the text is one and nothing is lost by it ("007" stays a text); None if it says N/A.

    All-ones counters stay the number they are: telemetry/rates.py knows that they mean unreadable.
    """
    if raw.isdigit() and len(raw) <= _MOST_DIGITS and (raw[0] != 48 or len(raw) == 1):
        return int(raw)
    if raw in _UNREADABLE:
        return None
    return _signed_or_fraction(raw)


def _signed_or_fraction(raw: bytes) -> Value:
    words = text(raw)
    if len(raw) > _MOST_DIGITS or not (raw[:1] in b"-.+" or raw[:1].isdigit()) or b"_" in raw:
        return words
    try:
        number = float(words)
    except ValueError:
        return words
    if raw[:1] == b"-" and raw[1:].isdigit():
        return int(raw) if str(int(raw)) == words else words
    keeps = ("." in words or "e" in words.lower()) and math.isfinite(number)
    return number if keeps else words


def numbers(found: Mapping[bytes, bytes]) -> dict[str, Value]:
    """Return a hash with numbers where they are numbers."""
    return {text(name): value(raw) for name, raw in found.items()}


def texts(found: Mapping[bytes, bytes]) -> dict[str, Value]:
    """Return a hash of identities (serials, names, aliases), where "100" is no number."""
    return {text(name): None if raw in _UNREADABLE else text(raw) for name, raw in found.items()}


class Groups:
    """Which flex-counter group writes which fields of a hash, told by the end of the field's name.

    One hash is written by several groups, each at its own interval and with its own stamp: a drop counter that is
    read once a minute must not be divided by the second in which its neighbours are read.
    """

    def __init__(self, default: str, parts: Iterable[tuple[str, tuple[str, ...]]] = ()) -> None:
        self.default = default
        self._parts = tuple(parts)
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the group that writes a field."""
        group = self._known.get(name)
        if group is None:
            group = next((g for g, marks in self._parts if any(m in name for m in marks)), self.default)
            if len(self._known) < 10_000:
                self._known[name] = group
        return group


def by_group(found: Mapping[bytes, bytes], groups: Groups) -> dict[str, tuple[int | None, dict[str, Value]]]:
    """Return group -> (its stamp or None, its fields). Every field of the hash is in exactly one of them.

    The stamps themselves are told as fields too, so that nothing of the hash is lost.
    """
    out: dict[str, tuple[int | None, dict[str, Value]]] = {}
    stamps = {}
    for raw_name, raw in found.items():
        name = text(raw_name)
        if name.endswith(STAMP_END):
            group = name[: -len(STAMP_END)]
            stamps[group] = value(raw)
        else:
            group = groups.of(name)
        out.setdefault(group, (None, {}))[1][name] = value(raw)
    for group, stamp in stamps.items():
        if isinstance(stamp, int) and stamp > 0:
            out[group] = (stamp, out[group][1])
    return out
