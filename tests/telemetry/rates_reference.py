"""The meaning of rates once more, entity by entity in plain integers, to compare the compiled pass with."""

from __future__ import annotations

import math

from railkeeper.telemetry.frame import (
    ABSENT,
    DUPLICATE,
    FIRST,
    GAP,
    NO_SAMPLE,
    NO_TIME,
    OK,
    OUT_OF_ORDER,
    RESET,
    STALE,
    WRAPPED,
)


class Entity:
    """One entity with counters; `most` is (ceiling a second, whether traffic goes there) for each of them."""

    def __init__(self, widths, most, gap_s=25.0, back_s=60.0):
        self.widths, self.most = widths, most
        self.gap_ns, self.back_ns = int(gap_s * 1e9), int(back_s * 1e9)
        self.latest = None
        self.kept = [None] * len(widths)

    def take(self, t_ns, values):
        """Return (flag, rate) of each counter."""
        if t_ns == NO_TIME:
            return [(NO_SAMPLE, math.nan)] * len(values)
        said = [self._one(column, t_ns, value) for column, value in enumerate(values)]
        if self.latest is None or t_ns > self.latest or self.latest - t_ns > self.back_ns:
            self.latest = t_ns
        return said

    def _one(self, column, t_ns, value):
        ones = 2 ** self.widths[column] - 1
        if value in (ABSENT, ones):
            return NO_SAMPLE, math.nan
        kept = self.kept[column]
        latest = kept[0] if kept else self.latest
        if latest is not None and t_ns < latest:
            if latest - t_ns > self.back_ns:
                self.kept[column] = (t_ns, value)
            return OUT_OF_ORDER, math.nan
        if kept is None:
            self.kept[column] = (t_ns, value)
            return FIRST, math.nan
        if t_ns == latest:
            return (DUPLICATE if value == kept[1] else STALE), math.nan
        self.kept[column] = (t_ns, value)
        return self._growth(column, kept[1], value, t_ns - latest)

    def _growth(self, column, before, value, dt_ns):
        ceiling, busy = self.most[column]
        size = 2 ** self.widths[column]
        if before >= size or value >= size:
            size = 2**64
        seconds = dt_ns / 1e9
        if busy and size < 2**64 and ceiling < math.inf and ceiling * seconds >= size - 1:
            return GAP, math.nan
        possible = 2 * ceiling * (seconds + 1)
        grown = (value - before) % size
        if value < before:
            possible = min(possible, (size - 1) / 2)
        if grown > possible:
            return RESET, math.nan
        flag = GAP if dt_ns > self.gap_ns else WRAPPED if value < before else OK
        return flag, grown / seconds
