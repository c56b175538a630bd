"""The standing columns of one kind of entity, and the block of a frame that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.telemetry.columns import Standing, join, peaks
from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block

if TYPE_CHECKING:
    from collections.abc import Container

    import numpy.typing as npt

    from railkeeper.telemetry.columns import Offers
    from railkeeper.telemetry.entities import Entities


class Table:
    """All columns of one kind of entity; columns never go, and keep their order."""

    def __init__(self) -> None:
        self.counters: dict[str, Standing] = {}
        self.others: dict[str, Standing] = {}

    def settle(
        self,
        offers: dict[tuple[str, bool], list[Offers]],
        n: int,
        holds_since: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
        watermarks: Container[str] = (),
    ) -> int:
        """Let what a tick's readings say stand; return how many native values came into the columns."""
        taken = 0
        for standing in (*self.counters.values(), *self.others.values()):
            standing.anew = np.empty(0, dtype=np.int64)
            standing.grow(n)
        for name, counter in sorted(offers):
            columns = self.counters if counter else self.others
            if name not in columns:
                columns[name] = Standing(counter)
                columns[name].grow(n)
            said = join(offers[name, counter])
            if name in watermarks and not counter:
                said = peaks(said)
            taken += columns[name].settle(said, holds_since, order)
        return taken

    def block(self, entities: Entities, holds_since: npt.NDArray[np.int64]) -> Block:
        """Return what holds now; what is older is absent."""
        n = len(entities)
        counters, times = _fresh(self.counters, n, holds_since, np.uint64(ABSENT))
        gauges, gauge_times = _fresh(self.others, n, holds_since, np.float32(np.nan))
        t_ns = np.max(times, axis=0, initial=NO_TIME)
        t_ns = np.where(t_ns == NO_TIME, np.max(gauge_times, axis=0, initial=NO_TIME), t_ns)
        planes, time_of = _planes(t_ns, times)
        widths, widths_at = _widths([s.width[:n] for s in self.counters.values()], [t != NO_TIME for t in times], n)
        return Block(
            entities=entities, t_ns=t_ns, counter_names=tuple(self.counters), widths=widths, counters=counters,
            gauge_names=tuple(self.others), gauges=gauges, times=planes, time_of=time_of, widths_at=widths_at,
            anew=_anew(list(self.counters.values())),
        )  # fmt: skip


def _fresh(
    columns: dict[str, Standing], n: int, holds_since: npt.NDArray[np.int64], none: np.generic
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return (k, n) values and (k, n) times of what still holds."""
    values = np.full((len(columns), n), none, dtype=none.dtype)
    times = np.full((len(columns), n), NO_TIME)
    for i, standing in enumerate(columns.values()):
        fresh = standing.fresh(n, holds_since)
        np.copyto(values[i], standing.values[:n], where=fresh)
        np.copyto(times[i], standing.t_ns[:n], where=fresh)
    return values, times


def _planes(
    t_ns: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int32] | None]:
    """Return distinct times and which column has which; None where the entities' times are those of all columns."""
    planes, time_of = [t_ns], []
    for own in times:
        there = own != NO_TIME
        at = next((i for i, plane in enumerate(planes) if _agree(plane, own, there, whole=i == 0)), len(planes))
        if at == len(planes):
            planes.append(own.copy())
        elif at:
            np.copyto(planes[at], own, where=there)
        time_of.append(at)
    if len(planes) == 1:
        return None, None
    return np.array(planes), np.array(time_of, dtype=np.int32)


def _agree(
    plane: npt.NDArray[np.int64], own: npt.NDArray[np.int64], there: npt.NDArray[np.bool_], *, whole: bool
) -> bool:
    free = ~there if whole else ~there | (plane == NO_TIME)
    return bool(((plane == own) | free).all())


def _widths(
    widths: list[npt.NDArray[np.uint8]], there: list[npt.NDArray[np.bool_]], n: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8] | None]:
    """Return the width of each column; and of each of its values, where sources differ in it."""
    flat, mixed = np.full(len(widths), 64, dtype=np.uint8), False
    for i, (width, at) in enumerate(zip(widths, there, strict=True)):
        if at.any():
            flat[i] = width[at].max()
            mixed |= bool(width[at].min() != flat[i])
    return flat, np.array(widths, dtype=np.uint8).reshape(len(widths), n) if mixed else None


def _anew(columns: list[Standing]) -> npt.NDArray[np.int32] | None:
    pairs = [np.stack([np.full(len(s.anew), i), s.anew], axis=1) for i, s in enumerate(columns) if len(s.anew)]
    return np.concatenate(pairs).astype(np.int32) if pairs else None
