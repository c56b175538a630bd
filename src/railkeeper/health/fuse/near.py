"""Rows around links: all that a likelihood needs to tell a link from what else its rows cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import links_crossed

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.paths import Paths

    Longs = npt.NDArray[np.int64]


def rows_near(fabric: Fabric, paths: Paths, links: Iterable[int]) -> Longs:
    """Return the rows, ascending, that touch a switch at an end of one of the links.

    Bounded: one pass over one column for each plane that a link is in, then only over that plane's rows.
    """
    domains: dict[int, list[int]] = {}
    for link in sorted(set(links)):
        t0 = int((fabric.link_upper if link < fabric.n_ports else fabric.link_lower)[link])
        domains.setdefault(int(fabric.domain_of_t0(t0)), []).append(link)
    found = [_near_in(fabric, paths, domain, mine) for domain, mine in domains.items()]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def rows_over(fabric: Fabric, paths: Paths, links: Iterable[int]) -> Longs:
    """Return the rows, ascending, that cross one of the links."""
    wanted = list(links)
    rows = rows_near(fabric, paths, wanted)
    crossed = links_crossed(fabric, paths.take(rows))
    return rows[(np.isin(crossed >> 1, wanted) & (crossed >= 0)).any(axis=1)]


def _near_in(f: Fabric, paths: Paths, domain: int, links: list[int]) -> Longs:
    """Look in one plane of one rail."""
    rail, plane = divmod(domain, f.planes)
    rows = np.flatnonzero(paths.plane == plane)
    if f.rails > 1:
        rows = rows[f.nic_rail[paths.src[rows]] == rail]
    # One place more, which -1 (no such switch on the path) points to.
    t0s, t1s = np.zeros(f.t0_per_plane + 1, dtype=np.bool_), np.zeros(f.t1_per_plane + 1, dtype=np.bool_)
    host = np.array([link for link in links if link < f.n_ports], dtype=np.int64)
    up = np.array([link for link in links if link >= f.n_ports], dtype=np.int64)
    t0s[f.link_upper[host] % f.t0_per_plane] = True
    t0s[f.link_lower[up] % f.t0_per_plane] = True
    t1s[f.link_upper[up] % f.t1_per_plane] = True
    at_t0 = t0s[f.nic_t0_index[paths.src[rows]]] | t0s[f.nic_t0_index[paths.dst[rows]]] | t0s[paths.far[rows]]
    return np.asarray(rows[at_t0 | t1s[paths.t1[rows]] | t1s[paths.back[rows]]])
