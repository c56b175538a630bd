"""Names to signals: what a native name of a dialect is.

A fleet has few distinct names and many readings of them: each name is looked up once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError
from railkeeper.telemetry.bindings import ANY, shipped
from railkeeper.telemetry.signals import NUMBERED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.telemetry.bindings import Binding, Dialect
    from railkeeper.telemetry.signals import Signal

MAX_PART = {"priority": 15, "lane": 63, "queue": 511, "bin": 31, "link": 127, "class": 63}
MAX_CACHED = 200_000  # names; a source that invents names can't fill the memory


@dataclass(frozen=True, slots=True)
class Bound:
    """A native name that is bound: the row, the part that its name says, and the column of the frame."""

    row: Binding
    part: str
    column: str

    @property
    def signal(self) -> Signal:
        """Which signal it is."""
        return self.row.signal


@dataclass(frozen=True, slots=True)
class Known:
    """A native name that is understood and not wanted; `native` is the name or pattern that says so."""

    native: str
    why: str

    @property
    def catches_all(self) -> bool:
        """Whether the dialect says this of whatever name."""
        return self.native == ANY


class Binder:
    """Looks names up in dialects: those of the package, and more that a site adds."""

    def __init__(self, dialects: Iterable[Dialect] = ()) -> None:
        """Take the dialects in; raises InputError when two have the same name."""
        self._dialects: dict[str, Dialect] = {}
        for dialect in (*shipped(), *dialects):
            for name in (dialect.name, *dialect.aliases):
                if name in self._dialects:
                    raise InputError(f"dialect {name}", "is there twice", "give the added one a name of its own")
                self._dialects[name] = dialect
        self._cache: dict[tuple[str, str], Bound | Known | None] = {}

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """All dialects, without their other names."""
        return tuple(dict.fromkeys(self._dialects.values()))

    def dialect(self, name: str) -> Dialect | None:
        """Return the dialect of a name, None where there is none."""
        return self._dialects.get(name)

    def bind(self, dialect: str, native: str) -> Bound | None:
        """Return what a native name is; None where it is not bound."""
        found = self.look(dialect, native)
        return found if isinstance(found, Bound) else None

    def look(self, dialect: str, native: str) -> Bound | Known | None:
        """Return what a native name is, or why it is not wanted; None where nothing is known of it."""
        key = (dialect, native)
        if key in self._cache:
            return self._cache[key]
        found = self._find(dialect, native)
        if len(self._cache) < MAX_CACHED:
            self._cache[key] = found
        return found

    def _find(self, dialect: str, native: str) -> Bound | Known | None:
        source = self._dialects.get(dialect)
        if source is None:
            return None
        row = source.exact.get(native)
        if row is not None:
            return bound(row, row.part)
        if native in source.known:
            return Known(native, source.known[native])
        return _by_pattern(source, native)


@cache
def binder() -> Binder:
    """Return the binder of the dialects that come with the package."""
    return Binder()


def bind(dialect: str, native: str) -> Bound | None:
    """Return what a native name of a dialect of the package is; None where it is not bound."""
    return binder().bind(dialect, native)


def bound(row: Binding, part: str) -> Bound:
    """Return a row with one of its parts."""
    return Bound(row=row, part=part, column=row.signal.column(part))


def valid_part(signal: Signal, part: str) -> bool:
    """Return whether a signal can have a part: numbers within what hardware has, names of printable text."""
    if signal.parts in NUMBERED:
        return part.isdecimal() and part.isascii() and int(part) <= MAX_PART[signal.parts]
    return 0 < len(part) <= 64 and part.isprintable() and not set(part) & set("[]")


def _by_pattern(source: Dialect, native: str) -> Bound | Known | None:
    for pattern, row in source.patterns:
        if match := pattern.fullmatch(native):
            part = str(int(match[1]) - row.base) if match.lastindex else row.part
            if not part or valid_part(row.signal, part):
                return bound(row, part)
    for pattern, known, why in source.known_patterns:
        if pattern.fullmatch(native):
            return Known(known, why)
    return None
