"""Nodes of paths to the links between them, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

OK, UNKNOWN_NODE, NO_LINK, OTHER_RACK, NOT_A_SWITCH = range(5)


@njit(cache=True, nogil=True)
def link_between(u: int, v: int, near_start: Any, near: Any, near_link: Any) -> int:
    """Return the link from switch place u to switch place v, or -1."""
    low, high = near_start[u], near_start[u + 1]
    while low < high:
        middle = (low + high) >> 1
        if near[middle] < v:
            low = middle + 1
        else:
            high = middle
    return near_link[low] if low < near_start[u + 1] and near[low] == v else -1


@njit(cache=True, nogil=True)
def place_of(node: int, place: Any) -> int:
    """Return the place of an id (see Topology), -1 where there is none."""
    return place[node] if 0 <= node < len(place) else -1


@njit(cache=True, nogil=True)
def links_of_paths(start: Any, nodes: Any, place: Any, near_start: Any, near: Any, near_link: Any) -> Any:
    """Return (code, path, node, links' start (P + 1,), links): one link fewer than nodes in each path."""
    n = len(start) - 1
    out_start, out = np.zeros(n + 1, dtype=np.int64), np.empty(max(start[n] - n, 0), dtype=np.int32)
    k = 0
    for p in range(n):
        before = -1
        for j in range(start[p], start[p + 1]):
            here = place_of(nodes[j], place)
            if here < 0:
                return (UNKNOWN_NODE if here == -1 else NOT_A_SWITCH), p, nodes[j], out_start, out
            if before >= 0:
                out[k] = link_between(before, here, near_start, near, near_link)
                if out[k] < 0:
                    return NO_LINK, p, nodes[j], out_start, out
                k += 1
            before = here
        out_start[p + 1] = k
    return OK, -1, -1, out_start, out


@njit(cache=True, nogil=True)
def _end(node: int, at: int, down: int, place: Any, rack: Any, host_link: int, near_start: Any, near: Any,
         near_link: Any) -> Any:  # fmt: skip
    """Return (code, link between a flow's end and the switch `at` of its path, -1 if it ends there)."""
    here, switch = place_of(node, place), place_of(at, place)
    if here == -1:
        return UNKNOWN_NODE, -1
    if switch < 0:
        return NOT_A_SWITCH, -1
    if here < 0:
        host = -2 - here
        return (OK if rack[host] == switch else OTHER_RACK), host_link + 2 * host + down
    if here == switch:
        return OK, -1
    u, v = (switch, here) if down else (here, switch)
    link = link_between(u, v, near_start, near, near_link)
    return (OK if link >= 0 else NO_LINK), link


@njit(cache=True, nogil=True)
def links_of_ends(src: Any, dst: Any, first: Any, last: Any, place: Any, rack: Any, host_link: int, near_start: Any,
                  near: Any, near_link: Any) -> Any:  # fmt: skip
    """Return (code, flow, node, ends (N, 2)) for flows from src over switches first … last to dst."""
    ends = np.empty((len(src), 2), dtype=np.int32)
    for k in range(len(src)):
        code, ends[k, 0] = _end(src[k], first[k], 0, place, rack, host_link, near_start, near, near_link)
        if code != OK:
            return code, k, src[k], ends
        code, ends[k, 1] = _end(dst[k], last[k], 1, place, rack, host_link, near_start, near, near_link)
        if code != OK:
            return code, k, dst[k], ends
    return OK, -1, -1, ends
