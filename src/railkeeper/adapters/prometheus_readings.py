"""Readings of a scrape: samples with the same labels are one object; its metric names are the names of its values."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters.exposition import NO_TIME
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railkeeper.adapters.exposition import Scrape, Shape

# Which dialect a metric's name belongs to, by how it begins.
DIALECTS = (("node_", "node_exporter"), ("DCGM_", "dcgm"))
OTHER_DIALECT = "prometheus"


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
    """One object of a shape: `rows` of the arrays hold its values."""

    dialect: str
    labels: Mapping[str, str]
    names: tuple[str, ...]
    rows: tuple[int, ...]


def readings_of(scrape: Scrape, naming: Naming, now_ns: int, *, honor_times: bool = True) -> list[Reading]:
    """Return a reading for each object and time of a scrape; samples without a time are of `now_ns`.

    `honor_times=False` takes `now_ns` for all, for targets whose clock is wrong.
    """
    things = _things(scrape.shape, naming)
    numbers = _numbers(scrape)
    if honor_times and (scrape.times_ns != NO_TIME).any():
        return [r for thing in things for r in _timed(thing, numbers, scrape.times_ns, naming, now_ns)]
    return [
        Reading(
            naming.source,
            naming.target,
            thing.dialect,
            {**thing.labels, **naming.labels},
            now_ns,
            dict(zip(thing.names, [numbers[r] for r in thing.rows], strict=True)),
        )
        for thing in things
    ]


def _numbers(scrape: Scrape) -> list[int | float]:
    """Return values as Python numbers: whole where they were written so, for counters may need all 64 bits."""
    numbers: list[int | float] = scrape.values.tolist()
    for row, whole in zip(np.nonzero(scrape.is_whole)[0].tolist(), scrape.whole[scrape.is_whole].tolist(), strict=True):
        numbers[row] = whole
    return numbers


def _timed(
    thing: Thing, numbers: Sequence[int | float], times_ns: NDArray[np.int64], naming: Naming, now_ns: int
) -> list[Reading]:
    by_time: dict[int, dict[str, int | float | str | None]] = {}
    for name, row in zip(thing.names, thing.rows, strict=True):
        at = int(times_ns[row])
        by_time.setdefault(now_ns if at == NO_TIME else at, {})[name] = numbers[row]
    labels = {**thing.labels, **naming.labels}
    return [Reading(naming.source, naming.target, thing.dialect, labels, at, values) for at, values in by_time.items()]


def _things(shape: Shape, naming: Naming) -> list[Thing]:
    key = ("things", naming.dialect, naming.keep)
    if key not in shape.plans:
        shape.plans[key] = _group(shape, naming)
    found: list[Thing] = shape.plans[key]
    return found


def _group(shape: Shape, naming: Naming) -> list[Thing]:
    kept = _keeper(naming.keep)
    groups: dict[tuple[str, int, int], tuple[Mapping[str, str], list[str], list[int]]] = {}
    times_seen: dict[tuple[str, int], int] = {}
    for row, series in enumerate(shape.series):
        if not kept(series.name):
            continue
        # A series that is there again, with another time, opens another object of the same labels.
        again = times_seen[series.name, id(series.labels)] = times_seen.get((series.name, id(series.labels)), -1) + 1
        dialect = naming.dialect or dialect_of(series.name)
        _, names, rows = groups.setdefault((dialect, id(series.labels), again), (series.labels, [], []))
        names.append(series.name)
        rows.append(row)
    return [
        Thing(dialect, labels, tuple(names), tuple(rows)) for (dialect, _, _), (labels, names, rows) in groups.items()
    ]


def dialect_of(name: str) -> str:
    """Return the dialect of a metric by its name."""
    return next((dialect for start, dialect in DIALECTS if name.startswith(start)), OTHER_DIALECT)


def _keeper(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    if not patterns:
        return lambda _: True
    return lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
