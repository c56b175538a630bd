"""Readings of a scrape: samples with the same labels are one object; its metric names are the names of its values."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters.exposition import NO_TIME
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railkeeper.adapters.exposition import Scrape
    from railkeeper.adapters.shapes import Shape

# Which dialect a metric's name belongs to, by how it begins.
DIALECTS = (("node_", "node_exporter"), ("DCGM_", "dcgm"))
OTHER_DIALECT = "prometheus"
MAX_PLANS = 256  # of one skeleton


@dataclass(frozen=True)
class Naming:
    """What a target adds to what its samples say.

    - labels: of the target, as {"host": "n12"} or {"instance": "10.0.0.7:9100"}; they win over a sample's own
    - dialect: of all its samples; without, by how names begin
    - keep: patterns of metric names, as `node_infiniband_*`; empty for all
    """

    source: str
    target: str
    labels: Mapping[str, str]
    dialect: str = ""
    keep: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thing:
    """One object of a skeleton: `rows` of the arrays hold its values, all with the same labels."""

    dialect: str
    names: tuple[str, ...]
    rows: tuple[int, ...]


def readings_of(scrape: Scrape, naming: Naming, now_ns: int, *, honor_times: bool = True) -> list[Reading]:
    """Return a reading for each object and time of a scrape; samples without a time are of `now_ns`.

    `honor_times=False` takes `now_ns` for all, for targets whose clock is wrong.
    """
    things = _things(scrape.shape, naming)
    numbers, series = _numbers(scrape), scrape.series
    if honor_times and (scrape.times_ns != NO_TIME).any():
        times = np.where(scrape.times_ns == NO_TIME, now_ns, scrape.times_ns).tolist()
        return [
            reading
            for thing in things
            for reading in _timed(thing, series[thing.rows[0]].labels, numbers, times, naming)
        ]
    return [
        Reading(
            naming.source,
            naming.target,
            thing.dialect,
            {**series[thing.rows[0]].labels, **naming.labels},
            now_ns,
            dict(zip(thing.names, [numbers[r] for r in thing.rows], strict=True)),
        )
        for thing in things
    ]


def _numbers(scrape: Scrape) -> list[int | float]:
    """Return values as Python numbers: whole where they were written so, for counters may need all 64 bits."""
    numbers: list[int | float] = scrape.values.tolist()
    rows = np.nonzero(scrape.is_whole)[0]
    for row, whole in zip(rows.tolist(), scrape.whole[rows].tolist(), strict=True):
        numbers[row] = whole
    return numbers


def _timed(
    thing: Thing, own: Mapping[str, str], numbers: Sequence[int | float], times_ns: Sequence[int], naming: Naming
) -> list[Reading]:
    by_time: dict[int, dict[str, int | float | str | None]] = {}
    for name, row in zip(thing.names, thing.rows, strict=True):
        by_time.setdefault(times_ns[row], {})[name] = numbers[row]
    labels = {**own, **naming.labels}
    return [Reading(naming.source, naming.target, thing.dialect, labels, at, values) for at, values in by_time.items()]


def _things(shape: Shape, naming: Naming) -> tuple[Thing, ...]:
    """Return the objects of a shape. They hold no labels, so all shapes whose rows belong together alike share them."""
    key = (naming.dialect, naming.keep)
    if key not in shape.plans:
        together = _by_first(shape.label_sets)
        shared = (*key, together.tobytes(), shape.again.tobytes())
        plans = shape.skeleton.plans
        if shared not in plans:
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plans[shared] = _group(shape, together.tolist(), naming)
        shape.plans[key] = plans[shared]
    found: tuple[Thing, ...] = shape.plans[key]
    return found


def _by_first(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return numbers that count from 0 in the order in which things first come."""
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[which]


def _group(shape: Shape, together: Sequence[int], naming: Naming) -> tuple[Thing, ...]:
    kept = _keeper(naming.keep)
    groups: dict[tuple[str, int, int], tuple[list[str], list[int]]] = {}
    seen: dict[tuple[str, int], int] = {}
    for row, (series, number) in enumerate(zip(shape.series, together, strict=True)):
        if not kept(series.name):
            continue
        # A series that is there again, with another time, opens another object of the same labels.
        again = seen[series.name, number] = seen.get((series.name, number), -1) + 1
        dialect = naming.dialect or dialect_of(series.name)
        names, rows = groups.setdefault((dialect, number, again), ([], []))
        names.append(series.name)
        rows.append(row)
    return tuple(Thing(dialect, tuple(names), tuple(rows)) for (dialect, *_), (names, rows) in groups.items())


def dialect_of(name: str) -> str:
    """Return the dialect of a metric by its name."""
    return next((dialect for start, dialect in DIALECTS if name.startswith(start)), OTHER_DIALECT)


def _keeper(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    if not patterns:
        return lambda _: True
    match = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)).match
    return lambda name: match(name) is not None
