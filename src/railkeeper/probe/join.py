"""All agents' reports of one tick put together: one-way halves meet, and what is nobody's evidence goes.

A row survives when both of its halves are known from clean reporters. Silence of a receiver drops its rows (no data is
no loss); a receiver that did report, but has no such row, received nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths
from railkeeper.probe.pathstats import PathStats, empty_stats, join_stats
from railkeeper.probe.wire import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.probe.pathstats import TickReport


@dataclass(frozen=True)
class Joined:
    """One tick of evidence: `stats` with both halves of each row; nodes that were `silent`, and `unclean` ones.

    An unclean node lost probes by its own doing in this tick; rows that rest on it are left out.
    """

    stats: PathStats
    silent: tuple[int, ...]
    unclean: tuple[int, ...]


def join_reports(fabric: Fabric, reports: Sequence[TickReport]) -> Joined:
    """Join the reports of one tick; a node's second report of the tick and rows of no such fabric are left out.

    Raises ValueError when the reports are of different ticks.
    """
    first = {r.node: r for r in reversed(reports) if 0 <= r.node < fabric.n_nodes}
    if len({r.tick for r in reports}) > 1:
        raise ValueError("reports of different ticks can't be joined")
    clean = np.zeros(fabric.n_nodes, dtype=np.bool_)
    clean[[n for n, r in first.items() if r.clean]] = True
    return Joined(
        stats=_join_rows(fabric, [r for _, r in sorted(first.items())], clean),
        silent=tuple(n for n in range(fabric.n_nodes) if n not in first),
        unclean=tuple(sorted(n for n, r in first.items() if not r.clean)),
    )


def _join_rows(fabric: Fabric, reports: list[TickReport], clean: npt.NDArray[np.bool_]) -> PathStats:
    if not reports:
        return empty_stats(_no_paths())
    stats = join_stats([r.stats for r in reports])
    reporter = np.repeat([r.node for r in reports], [len(r.stats) for r in reports])
    good = fits(fabric, stats.paths)
    stats, reporter = stats.take(good), reporter[good]
    source, target = fabric.node_of(stats.paths.src), fabric.node_of(stats.paths.dst)
    usable = clean[source] & clean[target]
    own = stats.take(usable & (stats.sent >= 0) & (stats.received >= 0) & (reporter == source))
    oneway = stats.paths.kind == PathKind.ONEWAY
    sent = stats.take(usable & oneway & (stats.sent >= 0) & (stats.received < 0) & (reporter == source))
    came = stats.take(usable & oneway & (stats.sent < 0) & (stats.received >= 0) & (reporter == target))
    return join_stats([own, _meet(fabric, sent, came)])


def _meet(fabric: Fabric, sent: PathStats, came: PathStats) -> PathStats:
    """Fill the senders' rows with what the receivers say."""
    if not len(came):
        return replace(sent, received=np.zeros(len(sent), dtype=np.int64))
    key, other = _key(fabric, sent.paths), _key(fabric, came.paths)
    order = np.argsort(other)
    place = order[np.minimum(np.searchsorted(other, key, sorter=order), len(other) - 1)]
    found = other[place] == key
    there = came.take(place)
    return join_stats([
        replace(there.take(found), paths=sent.paths.take(found), sent=sent.sent[found]),
        replace(sent.take(~found), received=np.zeros(int((~found).sum()), dtype=np.int64)),
    ])  # fmt: skip


def _key(f: Fabric, p: Paths) -> npt.NDArray[np.int64]:
    """One number per one-way path: at most 17 + 17 + 3 + 16 bits."""
    nics = p.src.astype(np.int64) * f.n_nics + p.dst
    return np.asarray((nics * f.planes + p.plane) * (f.t1_per_plane + 1) + p.t1 + 1)


def _no_paths() -> Paths:
    return Paths(*(np.zeros(0, dtype=np.int32) for _ in range(7)))
