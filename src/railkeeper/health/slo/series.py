"""The amounts of service level indicators over time: minutes for six hours, hours for a month.

All indicators in all scopes share one clock, so a window is one sum over all of them. `add` and `totals` are functions
of the state and a time: no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

MINUTE_S, HOUR_S = 60, 3600
MINUTES, HOURS = 361, 24 * 31 + 1
# Windows up to here are summed from minutes.
FINE_S = (MINUTES - 1) * MINUTE_S
# Room for so many tracks is made at a time.
GROWS_BY = 64


@dataclass
class Ring:
    """Buckets of one width: (n_buckets, n_tracks, 2) good and total; `newest` is the number of the newest bucket."""

    width_s: int
    buckets: Floats
    newest: int = -1

    def add(self, t_s: float, tracks: npt.NDArray[np.intp], amounts: Floats) -> None:
        """Add (m, 2) amounts of tracks (m,) at a time; what is older than all buckets is forgotten."""
        self.advance(t_s)
        number, n = int(t_s // self.width_s), len(self.buckets)
        if number > self.newest - n:
            np.add.at(self.buckets[number % n], tracks, amounts)

    def advance(self, t_s: float) -> None:
        """Let time go on: buckets between the newest and this time are empty, not what they were a round ago."""
        number, n = int(t_s // self.width_s), len(self.buckets)
        if self.newest < 0:
            self.newest = number
        for k in range(max(self.newest + 1, number - n + 1), number + 1):
            self.buckets[k % n] = 0.0
        self.newest = max(self.newest, number)

    def set_back(self, t_s: float) -> None:
        """Go on from a time before the newest bucket: what is later than it has not happened."""
        number, n = int(t_s // self.width_s), len(self.buckets)
        if number >= self.newest:
            return
        for k in range(max(number + 1, self.newest - n + 1), self.newest + 1):
            self.buckets[k % n] = 0.0
        if number <= self.newest - n:
            self.buckets[:] = 0.0
        self.newest = number

    def totals(self, now_s: float, window_s: float) -> Floats:
        """Return (n_tracks, 2) good and total of the last `window_s`, the present bucket included."""
        n = len(self.buckets)
        last = int(now_s // self.width_s)
        first = last - max(1, round(window_s / self.width_s)) + 1
        numbers = np.arange(max(first, self.newest - n + 1), min(last, self.newest) + 1)
        return np.asarray(self.buckets[numbers % n].sum(axis=0), dtype=np.float64)


def _ring(width_s: int, n: int) -> Ring:
    return Ring(width_s, np.zeros((n, 0, 2)))


@dataclass
class Series:
    """All indicators in all scopes that have ever said anything: (indicator, scope) -> number of its track."""

    tracks: dict[tuple[str, str], int] = field(default_factory=dict)
    minutes: Ring = field(default_factory=lambda: _ring(MINUTE_S, MINUTES))
    hours: Ring = field(default_factory=lambda: _ring(HOUR_S, HOURS))

    def add(self, sli: str, scope: str, t_s: float, good: float, total: float) -> None:
        """Add amounts of a time (unix s)."""
        self.add_all([(sli, scope)], t_s, np.array([[good, total]], dtype=np.float64))

    def add_all(self, keys: Sequence[tuple[str, str]], t_s: float, amounts: Floats, *, only: str = "") -> None:
        """Add (m, 2) amounts of indicators in scopes at a time (unix s); to `only` the "minutes" or "hours"."""
        tracks = np.array([self.tracks.setdefault(key, len(self.tracks)) for key in keys], dtype=np.intp)
        self.make_room()
        for name, ring in (("minutes", self.minutes), ("hours", self.hours)):
            if only in {"", name}:
                ring.add(t_s, tracks, amounts)

    def set_back(self, t_s: float) -> None:
        """Go on from a time that is before what was added last: the clock was set back."""
        self.minutes.set_back(t_s)
        self.hours.set_back(t_s)

    def totals(self, now_s: float, window_s: float) -> Floats:
        """Return (n_tracks, 2) or more rows: good and total amounts of the last `window_s`."""
        return (self.minutes if window_s <= FINE_S else self.hours).totals(now_s, window_s)

    def total(self, sli: str, scope: str, now_s: float, window_s: float) -> tuple[float, float]:
        """Return good and total amounts of the last `window_s`; (0, 0) where nothing was said."""
        track = self.tracks.get((sli, scope))
        if track is None:
            return 0.0, 0.0
        good, total = self.totals(now_s, window_s)[track]
        return float(good), float(total)

    def hour(self, number: int) -> list[tuple[str, str, float, float]]:
        """Return what an hour (its number since 1970) holds: (indicator, scope, good, total)."""
        ring = self.hours
        if not ring.newest - len(ring.buckets) < number <= ring.newest:
            return []
        amounts = ring.buckets[number % len(ring.buckets)]
        rows = ((*key, *amounts[k].tolist()) for key, k in self.tracks.items() if amounts[k, 1] > 0)
        return [(sli, scope, good, total) for sli, scope, good, total in rows]

    def forget(self, gone: Collection[tuple[str, str]]) -> None:
        """Drop tracks."""
        if not gone:
            return
        kept = [key for key in self.tracks if key not in gone]
        numbers = [self.tracks[key] for key in kept]
        for ring in (self.minutes, self.hours):
            ring.buckets = np.ascontiguousarray(ring.buckets[:, numbers])
        self.tracks = {key: k for k, key in enumerate(kept)}

    def make_room(self) -> None:
        """Make room for all tracks that have a name."""
        lacking = len(self.tracks) - self.minutes.buckets.shape[1]
        if lacking <= 0:
            return
        # Half as much again: adding one by one must not copy all each time.
        more = max(lacking, GROWS_BY, len(self.tracks) // 2)
        for ring in (self.minutes, self.hours):
            ring.buckets = np.concatenate([ring.buckets, np.zeros((len(ring.buckets), more, 2))], axis=1)


def dump(series: Series) -> dict[str, Any]:
    """Return all that is remembered: names of tracks, and of each ring its newest bucket and all filled ones, packed.

    Columns are little-endian bytes: `buckets` int64, `tracks` int32, `amounts` (m, 2) float64.
    """
    made: dict[str, Any] = {"names": [list(key) for key in series.tracks]}
    for name, ring in (("minutes", series.minutes), ("hours", series.hours)):
        n = len(ring.buckets)
        slots, tracks = np.nonzero(ring.buckets[:, : len(series.tracks), 1] > 0)
        made[name] = {
            "newest": ring.newest,
            # A slot holds the newest bucket of its number.
            "buckets": (ring.newest - (ring.newest - slots) % n).astype("<i8").tobytes(),
            "tracks": tracks.astype("<i4").tobytes(),
            "amounts": ring.buckets[slots, tracks].astype("<f8").tobytes(),
        }
    return made


def load(made: Mapping[str, Any]) -> Series:
    """Return the series of such values; of none, one that knows nothing. Raises ValueError for what can't be."""
    series = Series()
    if not made:
        return series
    series.tracks = {(str(sli), str(scope)): k for k, (sli, scope) in enumerate(made["names"])}
    series.make_room()
    for name, ring in (("minutes", series.minutes), ("hours", series.hours)):
        given = made[name]
        ring.newest, n = int(given["newest"]), len(ring.buckets)
        buckets, tracks = np.frombuffer(given["buckets"], dtype="<i8"), np.frombuffer(given["tracks"], dtype="<i4")
        amounts = np.frombuffer(given["amounts"], dtype="<f8").reshape(-1, 2)
        if len(tracks) and not 0 <= tracks.min() <= tracks.max() < len(series.tracks):
            raise ValueError("amounts of tracks that have no name")
        if len(buckets) and not ring.newest - n < buckets.min() <= buckets.max() <= ring.newest:
            raise ValueError("amounts of times that are not remembered")
        ring.buckets[buckets % n, tracks] = amounts
    return series
