"""The amounts of service level indicators over time: minutes for six hours, hours for a month.

`add` and `total` are functions of the state and a time: no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

MINUTE_S, HOUR_S = 60, 3600
MINUTES, HOURS = 361, 24 * 31 + 1
# Windows up to here are summed from minutes.
FINE_S = (MINUTES - 1) * MINUTE_S


@dataclass
class Ring:
    """Buckets of one width: (n_buckets, 2) good and total; `newest` is the number of the newest bucket."""

    width_s: int
    buckets: npt.NDArray[np.float64]
    newest: int = -1

    def add(self, t_s: float, amounts: npt.NDArray[np.float64]) -> None:
        """Add (2,) amounts of a time; what is older than all buckets is forgotten."""
        self.advance(t_s)
        number, n = int(t_s // self.width_s), len(self.buckets)
        if number > self.newest - n:
            self.buckets[number % n] += amounts

    def advance(self, t_s: float) -> None:
        """Let time go on: buckets between the newest and this time are empty, not what they were a round ago."""
        number, n = int(t_s // self.width_s), len(self.buckets)
        if self.newest < 0:
            self.newest = number
        for k in range(max(self.newest + 1, number - n + 1), number + 1):
            self.buckets[k % n] = 0.0
        self.newest = max(self.newest, number)

    def total(self, now_s: float, window_s: float) -> npt.NDArray[np.float64]:
        """Return (2,) good and total of the last `window_s`, the present bucket included."""
        n = len(self.buckets)
        last = int(now_s // self.width_s)
        first = last - max(1, round(window_s / self.width_s)) + 1
        numbers = np.arange(max(first, self.newest - n + 1), min(last, self.newest) + 1)
        total: npt.NDArray[np.float64] = self.buckets[numbers % n].sum(axis=0) if len(numbers) else np.zeros(2)
        return total


@dataclass
class Track:
    """One indicator in one scope."""

    minutes: Ring = field(default_factory=lambda: Ring(MINUTE_S, np.zeros((MINUTES, 2))))
    hours: Ring = field(default_factory=lambda: Ring(HOUR_S, np.zeros((HOURS, 2))))

    def add(self, t_s: float, good: float, total: float) -> None:
        """Add amounts of a time (unix s)."""
        amounts = np.array([good, total])
        self.minutes.add(t_s, amounts)
        self.hours.add(t_s, amounts)

    def total(self, now_s: float, window_s: float) -> tuple[float, float]:
        """Return good and total amounts of the last `window_s`."""
        ring = self.minutes if window_s <= FINE_S else self.hours
        good, total = ring.total(now_s, window_s)
        return float(good), float(total)


@dataclass
class Series:
    """All indicators in all scopes that have ever said anything: (indicator, scope) -> Track."""

    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)

    def add(self, sli: str, scope: str, t_s: float, good: float, total: float) -> None:
        """Add amounts of a time (unix s)."""
        self.tracks.setdefault((sli, scope), Track()).add(t_s, good, total)

    def total(self, sli: str, scope: str, now_s: float, window_s: float) -> tuple[float, float]:
        """Return good and total amounts of the last `window_s`; (0, 0) where nothing was said."""
        track = self.tracks.get((sli, scope))
        return track.total(now_s, window_s) if track else (0.0, 0.0)

    def scopes(self, sli: str) -> tuple[str, ...]:
        """Return the scopes in which an indicator has said anything, in the order in which they first did."""
        return tuple(scope for name, scope in self.tracks if name == sli)


def dump(series: Series) -> list[tuple[str, str, int, int, float, float]]:
    """Return all that is remembered, as (indicator, scope, width_s, number of the bucket, good, total)."""
    out = []
    for (sli, scope), track in series.tracks.items():
        for ring in (track.minutes, track.hours):
            n = len(ring.buckets)
            for number in range(max(0, ring.newest - n + 1), ring.newest + 1):
                good, total = ring.buckets[number % n]
                if total:
                    out.append((sli, scope, ring.width_s, number, float(good), float(total)))
    return out


def load(rows: Iterable[Sequence[Any]]) -> Series:
    """Return a series of such rows."""
    series = Series()
    for sli, scope, width_s, number, good, total in sorted(rows, key=lambda row: row[3]):
        track = series.tracks.setdefault((str(sli), str(scope)), Track())
        ring = track.minutes if width_s == MINUTE_S else track.hours
        ring.add(float(number) * ring.width_s, np.array([good, total], dtype=np.float64))
    return series
