"""Moments in which one host's agent was held up: losses on all of its planes at once, in a single tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind

if TYPE_CHECKING:
    from railkeeper.health.evidence import Counts
    from railkeeper.health.rows import Rows

AGE = 2  # ticks after which a tick is judged by those around it
LEAST_LOSSES = 4
AROUND_SHARE = 0.5  # of the tick's losses; a fault would lose four times as much in the two ticks before and after
MOST_SHARE = 0.5  # of the tick's probes; more is no hiccup


def forget_hiccups(rows: Rows, counts: Counts) -> None:
    """Take lonely bursts of single hosts out of the evidence."""
    if counts.x.data.shape[1] < len(rows) or not counts.x.last(AGE + 1)[AGE].any():
        return
    for node in np.flatnonzero(_hosts_with_a_burst(rows, counts)):
        mine = np.flatnonzero((rows.src_node == node) | (rows.dst_node == node))
        counts.forget(mine, newest=AGE, oldest=AGE)


def _hosts_with_a_burst(rows: Rows, counts: Counts) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return (nodes,) where the tick of age `AGE` has losses on every plane, and the ticks around it hardly any."""
    assert rows.paths is not None
    own = np.flatnonzero(rows.paths.kind != PathKind.ONEWAY)
    planes, nodes = rows.fabric.planes, rows.fabric.n_nodes
    place = rows.src_node[own] * planes + rows.paths.plane[own]
    lost = counts.x.last(2 * AGE + 1)[:, own]
    per_plane = np.bincount(place, weights=lost[AGE], minlength=nodes * planes).reshape(nodes, planes)
    here = per_plane.sum(axis=1)
    around = np.bincount(rows.src_node[own], weights=lost.sum(axis=0), minlength=nodes) - here
    sent = np.bincount(rows.src_node[own], weights=counts.n.last(AGE + 1)[AGE, own], minlength=nodes)
    lonely = (here >= LEAST_LOSSES) & (around < AROUND_SHARE * here) & (here < MOST_SHARE * sent)
    return np.asarray(lonely & (per_plane > 0).all(axis=1))
