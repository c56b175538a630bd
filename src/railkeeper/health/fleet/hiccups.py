"""Moments in which one host's agent was held up: losses on all of its planes at once, in a single tick.

They are taken back two ticks later, when the ticks around them are known. A host's parts are told later than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.plan_index import PlanIndex
    from railkeeper.health.fleet.space import PartSpace
    from railkeeper.health.fleet.windows import Wrong

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]

AGE = 2  # ticks after which a tick is judged by those around it
LEAST_LOSSES = 4
AROUND_SHARE = 0.5  # of the tick's losses; a fault would lose four times as much in the two ticks before and after
MOST_SHARE = 0.5  # of the tick's probes; more is no hiccup


@dataclass(frozen=True)
class Lossy:
    """What some rows lost in a tick, of so many sent."""

    tick: int
    rows: Ints
    x: Ints
    sent: Ints


@dataclass
class Hiccups:
    """The last ticks' losses, newest last."""

    last: list[Lossy] = field(default_factory=list)

    def add(self, lossy: Lossy) -> None:
        """Add a tick."""
        self.last = [*self.last[-2 * AGE :], lossy]

    def take_back(self, wrong: Wrong, index: PlanIndex, space: PartSpace) -> None:
        """Take lonely bursts of single hosts, `AGE` ticks old, out of the windows."""
        if len(self.last) <= AGE:
            return
        then = self.last[-1 - AGE]
        hosts = _with_a_burst(then, [x for x in self.last if x is not then], index, space)
        if not len(hosts):
            return
        paths, f = index.paths, space.fabric
        mine = np.isin(f.node_of(paths.src[then.rows]), hosts) | np.isin(f.node_of(paths.dst[then.rows]), hosts)
        wrong.take_back(index, space, then.tick, then.rows[mine], then.x[mine])


def _with_a_burst(then: Lossy, others: list[Lossy], index: PlanIndex, space: PartSpace) -> Longs:
    """Return the nodes with losses on every plane in a tick, and hardly any in the ticks around it."""
    f = space.fabric
    node, x, own = _own(then, index, space)
    here = np.bincount(node, weights=x, minlength=f.n_nodes)
    suspected = np.flatnonzero(here >= LEAST_LOSSES)
    if not len(suspected):
        return suspected
    around = np.zeros(f.n_nodes)
    for other in others:
        there, y, _ = _own(other, index, space)
        around += np.bincount(there, weights=y, minlength=f.n_nodes)
    sent = np.bincount(node, weights=then.sent[own], minlength=f.n_nodes)
    planes = np.unique(node * f.planes + index.paths.plane[then.rows[own]]) // f.planes
    struck = np.bincount(planes, minlength=f.n_nodes)
    lonely = (struck == f.planes) & (around < AROUND_SHARE * here) & (here < MOST_SHARE * sent)
    return np.asarray(suspected[lonely[suspected]])


def _own(lossy: Lossy, index: PlanIndex, space: PartSpace) -> tuple[Longs, Ints, npt.NDArray[np.bool_]]:
    """Return node and loss of each row that begins and ends at one host, and which rows these are."""
    own = index.paths.kind[lossy.rows] != PathKind.ONEWAY
    node = space.fabric.node_of(index.paths.src[lossy.rows[own]]).astype(np.int64)
    return node, lossy.x[own], own
