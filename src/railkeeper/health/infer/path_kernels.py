"""Nodes of paths to the links between them, compiled.

No kernel here calls another with arrays: each call would count references to all of them, which costs more than the
look-up. Links between switches are looked up in a square table, `between` (S * S,): a link, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

OK, UNKNOWN_NODE, NO_LINK, OTHER_RACK, NOT_A_SWITCH = range(5)


@njit(cache=True, nogil=True)
def links_of_paths(start: Any, nodes: Any, place: Any, between: Any, switches: int) -> Any:
    """Return (code, path, node, links' start (P + 1,), links): one link fewer than nodes in each path.

    `place`: see Topology.
    """
    n = len(start) - 1
    out_start, out = np.zeros(n + 1, dtype=np.int64), np.empty(max(start[n] - n, 0), dtype=np.int32)
    k = 0
    for p in range(n):
        before = -1
        for j in range(start[p], start[p + 1]):
            node = nodes[j]
            here = place[node] if node < len(place) else -1
            if here < 0:
                return (UNKNOWN_NODE if here == -1 else NOT_A_SWITCH), p, node, out_start, out
            if before >= 0:
                link = between[before * switches + here]
                if link < 0:
                    return NO_LINK, p, node, out_start, out
                out[k] = link
                k += 1
            before = here
        out_start[p + 1] = k
    return OK, -1, -1, out_start, out


@njit(cache=True, nogil=True)
def links_of_ends(rows: Any, nodes: Any, switch: Any, path: Any, path_switch: Any, down: int, place: Any, rack: Any,
                  host_link: int, between: Any, switches: int, out: Any) -> Any:  # fmt: skip
    """Write the links between one end of flows, `nodes`, and the switch there of their path to `out` (rows,).

    The switch is `path_switch` (paths,) of the path, or `switch` where the path is not known. -1: the flow ends there.
    Returns (code, row, node).
    """
    for k in range(len(rows)):
        f = rows[k]
        node, at = nodes[f], switch[f]
        if path[f] >= 0:
            at = path_switch[path[f]]
        here = place[node] if node < len(place) else -1
        there = place[at] if at < len(place) else -1
        if there < 0:
            return (UNKNOWN_NODE if there == -1 else NOT_A_SWITCH), k, at
        link = -1
        if here < -1:
            host = -2 - here
            if rack[host] != there:
                return OTHER_RACK, k, node
            link = host_link + 2 * host + down
        elif here == -1:
            return UNKNOWN_NODE, k, node
        elif here != there:
            link = between[there * switches + here] if down else between[here * switches + there]
            if link < 0:
                return NO_LINK, k, node
        out[k] = link
    return OK, -1, -1
