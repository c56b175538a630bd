"""What was read and has no place in a frame: names that nothing binds, objects of which nobody knows where they are.

Kept with a sample and the times of the first and the last reading, in bounded memory; what did not fit is counted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railkeeper.telemetry.reading import Reading

MAX_KEPT = 20_000
MAX_SAMPLE = 120


@dataclass
class Counts:
    """What became of all values read so far; the sum of the others is `read`.

    - framed: came into a column; superseded: an older one, or of a source that is not followed for this column
    - unreadable: the source could not read it; known: understood and not wanted; unbound: unknown name or strange text
    - unplaced: of an object of which nobody knows where it is; outside: of one that is no part of the fabric
    - late: too old at the end of its tick, or from the future; no_room: did not fit between two frames
    """

    read: int = 0
    framed: int = 0
    superseded: int = 0
    unreadable: int = 0
    known: int = 0
    unbound: int = 0
    unplaced: int = 0
    outside: int = 0
    late: int = 0
    no_room: int = 0

    def accounted(self) -> int:
        """Return the sum of all but `read`."""
        return sum(int(value) for value in asdict(self).values()) - self.read


@dataclass
class Kept:
    """One name or object.

    - count: values so far; sample: one of them as text; first_ns, last_ns: unix time of the first and last reading
    - source, target: who said it last
    """

    count: int
    sample: str
    first_ns: int
    last_ns: int
    source: str
    target: str


class Leftovers:
    """A bounded table of what could not be used."""

    def __init__(self, room: int = MAX_KEPT) -> None:
        self._kept: dict[tuple[str, str], Kept] = {}
        self._room = room
        self.total = 0
        self.no_room = 0

    def note(self, what: tuple[str, str], reading: Reading, *, sample: Any, count: int = 1) -> None:
        """Keep `count` more values of a (dialect, name), of which `reading` is one."""
        self.total += count
        t_ns = reading.t_ns
        found = self._kept.get(what)
        if found is None:
            if len(self._kept) >= self._room:
                self.no_room += count
                return
            found = self._kept[what] = Kept(0, "", t_ns, t_ns, reading.source, reading.target)
        found.count += count
        found.first_ns, found.last_ns = min(found.first_ns, t_ns), max(found.last_ns, t_ns)
        found.source, found.target = reading.source, reading.target
        found.sample = str(sample)[:MAX_SAMPLE] if sample is not None else found.sample

    def report(self) -> dict[tuple[str, str], Kept]:
        """Return all that is kept, by dialect and name."""
        return dict(sorted(self._kept.items()))

    def __len__(self) -> int:
        return len(self._kept)
