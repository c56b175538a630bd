"""Evidence of several kinds as problems of likelihood over the same parts.

Rows of known path (probes, path tables, bad flows) are one problem, over links and what holds them. Packets that are
spread evenly cross each T1 of a plane alike, so that their totals say something of *sides*, all uplinks of a T0 or all
downlinks to it, and never of a single link: these are another problem, in which the paths between two NICs need not be
listed, for there is one for each plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, links_crossed, make_paths
from railkeeper.health.fleet.solve import Counted, Neighbourhood, Suspect, explain
from railkeeper.health.fleet.solve_kernels import incidence

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fleet.space import PartSpace
    from railkeeper.health.fuse.evidence import Evidence, FlowTotals, PathTable

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

STANDS_OUT = 6.0  # nats from which on a row or a link is not like the others
LEAST_USUAL = 1e-7
# A fault of both directions that is counted in one, and not in the other though it is read there, is rare.
ONE_SIDED = 5.0
BOTH = 2
PROBES, EV, BAD = "probes", "path tables", "bad flows"
SOURCES = (PROBES, EV, BAD)


@dataclass(frozen=True)
class Rows:
    """Rows of known path: source (place in `SOURCES`), (n, 6) directed links crossed, packets sent and lost."""

    source: npt.NDArray[np.uint8]
    crossed: Ints
    sent: Longs
    lost: Longs


@dataclass(frozen=True)
class Found:
    """What explains some rows, over which parts, and what rows lose that nothing explains."""

    suspects: tuple[Suspect, ...]
    usual: float


NOTHING = Found((), 0.0)


def known_rows(fabric: Fabric, e: Evidence) -> Rows:
    """Return all rows whose paths are known; probes that came damaged did not come."""
    parts = []
    if e.probes is not None:
        good = (e.probes.sent > 0) & (e.probes.received >= 0)
        p = e.probes if good.all() else e.probes.take(good)
        parts.append((0, links_crossed(fabric, p.paths), p.sent, p.sent - np.minimum(p.received, p.sent)))
    for source, table in ((1, e.ev_tables), (2, None if e.bad_flows is None else _filled_up(fabric, e.bad_flows))):
        if table is not None:
            used = table.sent > 0
            parts.append((source, _crossed(fabric, table)[used], table.sent[used], table.lost[used]))
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Rows(np.zeros(0, np.uint8), np.zeros((0, 6), np.int32), none, none)
    return Rows(
        np.concatenate([np.full(len(x[2]), x[0], np.uint8) for x in parts]), np.concatenate([x[1] for x in parts]),
        np.concatenate([x[2] for x in parts]).astype(np.int64), np.concatenate([x[3] for x in parts]).astype(np.int64),
    )  # fmt: skip


def _crossed(fabric: Fabric, t: PathTable) -> Ints:
    return links_crossed(fabric, make_paths(PathKind.ONEWAY, t.src, t.plane, dst=t.dst, t1=t.t1))


def _filled_up(f: Fabric, t: PathTable) -> PathTable:
    """Add the paths that were not reported, as well used as the others.

    Only paths with a loss were told, so that the loss of a path by itself says little; that a pair of NICs had it on
    some of its paths, and on none of the others, says which. Between NICs of one T0 there is one path a plane.
    """
    pairs, of = np.unique(t.src.astype(np.int64) * f.n_nics + t.dst, return_inverse=True)
    src, dst = np.divmod(pairs, f.n_nics)
    local = f.nic_t0_index[src] == f.nic_t0_index[dst]
    width = np.where(local, 1, f.t1_per_plane)
    count = f.planes * width
    pair = np.repeat(np.arange(len(pairs)), count)
    nth = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    plane, t1 = np.divmod(nth, width[pair])
    t1 = np.where(local[pair], -1, t1)
    first = (np.cumsum(count) - count)[of]
    mine = first + t.plane * width[of] + np.where(local[of], 0, t.t1)
    lost, seen = (np.bincount(mine, weights=w, minlength=len(pair)) for w in (t.lost, t.sent))
    sent = np.maximum(seen, round(float(np.median(t.sent))))
    a, b, c, d = (column.astype(np.int32) for column in (src[pair], dst[pair], plane, t1))
    return replace(t, src=a, dst=b, plane=c, t1=d, sent=sent.astype(np.int64), lost=lost.astype(np.int64))


def usual_loss(sent: Longs, lost: Longs) -> float:
    """Return the share that rows lose which are like the others."""
    share = float(lost.sum()) / max(float(sent.sum()), 1.0)
    for _ in range(8):
        like = nats(lost, share * sent) < STANDS_OUT
        share = float(lost[like].sum()) / max(float(sent[like].sum()), 1.0)
    return max(share, LEAST_USUAL)


def nats(x: npt.NDArray[np.generic], mean: npt.NDArray[np.floating]) -> Floats:
    """Return by how much counts stand out above their means."""
    mu, count = np.maximum(mean, 1e-9), np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > mu, count * np.log(np.maximum(count, 1e-300) / mu) - count + mu, 0.0)


def explain_rows(space: PartSpace, rows: Rows, words: dict[int, float], least: float) -> Found:
    """Return what explains rows of known path; `words` are nats of other evidence for directed links."""
    usual = usual_loss(rows.sent, rows.lost)
    parts = _suspected(space, rows, usual)
    if not len(parts):
        return Found((), usual)
    scratch = np.full(space.n_parts, -1, dtype=np.int32)
    scratch[parts] = np.arange(len(parts), dtype=np.int32)
    near = np.flatnonzero(_over(space, rows, scratch))
    start, row, times = incidence(near, rows.crossed, space.parts_of_link, scratch, len(parts))
    hood = Neighbourhood(near, parts, space.size(parts), start, row, times)
    n, x = rows.sent[near].astype(float), rows.lost[near].astype(float)
    counted = Counted(hood, n, x, np.full(len(near), 1 - usual), _odds(parts, space.fabric.n_links, words))
    return Found(tuple(explain(counted, least)), usual)


def _suspected(space: PartSpace, rows: Rows, usual: float) -> Longs:
    """Return the links that stand out, and all that holds two of them, or one and no other that anything crosses."""
    n = 2 * space.fabric.n_links
    lost, sent = (_by_link(rows.crossed, v, n) for v in (rows.lost, rows.sent))
    out = np.unique(np.flatnonzero(nats(lost, usual * sent) >= STANDS_OUT) >> 1)
    around, count = np.unique(space.parts_of_link[out, 1:], return_counts=True)
    around, count = around[around >= 0], count[around >= 0]
    links, bounds = space.links_of_all(around.astype(np.int64))
    probed = np.concatenate([[0], np.cumsum((sent[2 * links] > 0) | (sent[2 * links + 1] > 0))])
    alone = np.diff(probed[bounds]) == 1
    return np.concatenate([out, around[(count > 1) | alone]]).astype(np.int64)


def _by_link(crossed: Ints, value: Longs, n: int) -> Floats:
    row, place = np.nonzero(crossed >= 0)
    return np.asarray(np.bincount(crossed[row, place], weights=value[row], minlength=n), dtype=np.float64)


def _over(space: PartSpace, rows: Rows, scratch: Ints) -> npt.NDArray[np.bool_]:
    held = np.asarray(((scratch[space.parts_of_link] >= 0) & (space.parts_of_link >= 0)).any(axis=1))
    return np.asarray((held[rows.crossed >> 1] & (rows.crossed >= 0)).any(axis=1))


def _odds(parts: Longs, n_links: int, words: dict[int, float]) -> Floats | None:
    if not words:
        return None
    out = np.zeros((len(parts), 3))
    for i in np.flatnonzero(parts < n_links):
        up, down = (words.get(2 * int(parts[i]) + way, 0.0) for way in (0, 1))
        one_sided = max(up, down) > 0 > min(up, down)
        out[i] = up, down, up + down - (ONE_SIDED if one_sided else 0.0)
    return out.reshape(-1)


# -- flows whose paths are not told apart ----------------------------------------------------------------
def explain_totals(space: PartSpace, t: FlowTotals, least: float) -> Found:
    """Return which host links and sides of T0s explain flows' totals: a suspected T0 stands for its side."""
    used = t.sent > 0
    sent, lost = t.sent[used], t.lost[used]
    usual = usual_loss(sent, lost)
    hood = _sides(space, t.src[used], t.dst[used])
    counted = Counted(hood, sent.astype(float), lost.astype(float), np.full(len(sent), 1 - usual))
    return Found(tuple(explain(counted, least)), usual)


def _sides(space: PartSpace, src: Ints, dst: Ints) -> Neighbourhood:
    """Cross flows with host links and sides: a flow crosses those of each plane with its share of the packets."""
    f = space.fabric
    plane = np.arange(f.planes)
    row = np.repeat(np.arange(len(src)), f.planes)
    entries = []
    for nic, way in ((src, 0), (dst, 1)):
        away = np.repeat(f.nic_t0_index[src] != f.nic_t0_index[dst], f.planes)
        entries.append((row, f.port_link(nic[:, None], plane).ravel(), way))
        entries.append((row[away], space.first[1] + f.t0_of(nic[:, None], plane).ravel()[away], way))
    rows, part = (np.concatenate([e[i] for e in entries]).astype(np.int64) for i in (0, 1))
    ways = np.concatenate([np.full(len(e[0]), e[2]) for e in entries])
    parts, local = np.unique(part, return_inverse=True)
    key = np.concatenate([3 * local + ways, 3 * local + BOTH]) * max(len(src), 1) + np.tile(rows, 2)
    key, times = np.unique(key, return_counts=True)
    hyp = key // max(len(src), 1)
    start = np.searchsorted(hyp, np.arange(3 * len(parts) + 1)).astype(np.int64)
    sizes = np.where(parts < f.n_links, 1, f.t1_per_plane).astype(np.int64)
    return Neighbourhood(
        np.arange(len(src)), parts, sizes, start, (key % max(len(src), 1)).astype(np.int32), times / f.planes
    )  # fmt: skip
