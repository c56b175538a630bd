"""Losses and damage: entities that stand out, their neighbourhood, the parts that explain it, and when to tell."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fleet.follow import Told, begin_following
from railkeeper.health.fleet.hiccups import Lossy
from railkeeper.health.fleet.solve import BOTH, CLOSE, Counted, Suspect, explain, neighbourhood
from railkeeper.health.fleet.state import PER_NEAR, Columns, FleetLocator, Memory, Waiting
from railkeeper.health.fleet.take import counts_of
from railkeeper.health.fleet.window_kernels import WINDOWS
from railkeeper.health.fleet.windows import NOW, SCALES, ticks_held
from railkeeper.health.track import LOSS

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.ports import PortStates

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

SCREEN = 15.0  # nats from which on an entity is looked at closely; to tell, evidence must reach the threshold
AGAIN = 6.0  # nats that losses after a first suspicion must have, so that a burst alone is not told
WITHIN_TICKS = 16  # a suspicion must be raised again within so many
TIMES, TIMES_HOST = 2, 4
HOST_CAUTION = 3.0
MOST_ENTITIES = 20_000  # looked at in one tick: beyond it, those that stand out most
MORE_THAN_USUAL = 1.1
BIG = 64  # links from which on a part is a candidate only if its losses are spread over them
TOP_SHARE = 0.1  # of the links of a big part are left out before its losses are called spread


def judge_losses(
    s: FleetLocator, m: Memory, family: str, columns: Columns, *, wrong: tuple[Ints, Ints], ports: PortStates
) -> None:
    """Add what went wrong in this tick (rows, how much on each), and tell the parts that explain it."""
    (rows, x), windows = wrong, m.wrong[family]
    open_rows = m.believed[family][rows] == 1
    rows, x = rows[open_rows], x[open_rows]
    windows.put(s.ticks_seen, m.index, s.space, rows, x)
    if family == LOSS:
        m.hiccups.add(Lossy(s.ticks_seen, rows, x, m.exposure.now[rows]))
        m.hiccups.take_back(windows, m.index, s.space)
    hits = windows.screen(m.nominal, s.background[family], SCREEN)
    explained = np.empty(0, dtype=np.int64)
    for scale in SCALES if len(hits) else ():
        bit = 1 << (WINDOWS if scale == NOW else scale)
        entities = hits[hits[:, 1] & bit != 0, 0].astype(np.int64)
        if not len(entities):
            continue
        counted = _count(s, m, family, columns, look=(entities, scale, explained))
        suspects = _explain(s, m, family, counted, scale)
        for suspect in suspects:
            row = counted.hood.rows_of(suspect.hyp)[0]
            explained = np.union1d(explained, counted.hood.rows[row])
            if _certain(s, m, family, suspect):
                at = Told(columns, ports, s.waiting[family, suspect.part].first, scale)
                begin_following(s, m, family, suspect, counted, at=at)
        if suspects:
            looked_at = np.setdiff1d(entities, _unsettled(s, family, counted, explained))
            hits = hits[~np.isin(hits[:, 0], looked_at)]


def _explain(s: FleetLocator, m: Memory, family: str, counted: Counted, scale: int) -> list[Suspect]:
    """Return suspects; where everything else loses more than what is usual, that is what healthy rows lose."""
    before = counted.survive.copy()
    found = explain(counted, s.threshold)
    if not found:
        return found
    elsewhere = _elsewhere(m, family, counted, found, scale)
    if elsewhere <= s.background[family] * MORE_THAN_USUAL:
        return found
    more = (elsewhere - s.background[family]) * PER_NEAR[m.index.group[counted.hood.rows]]
    return explain(Counted(counted.hood, counted.n, counted.x, before * (1 - more.astype(np.float64))), s.threshold)


def _elsewhere(m: Memory, family: str, counted: Counted, found: list[Suspect], scale: int) -> float:
    """Return what rows lose (or find damaged) in a window that no suspect touches, for a shortest row."""
    on = np.zeros(len(counted.n), dtype=np.bool_)
    for suspect in found:
        on[counted.hood.rows_of(3 * (suspect.hyp // 3) + BOTH)[0]] = True
    wrong = m.wrong[family]
    lost = wrong.total_now if scale == NOW else wrong.total.of(scale)
    sent = m.sent_now if scale == NOW else m.sent.of(scale)
    weight = PER_NEAR[m.index.group[counted.hood.rows[on]]]
    return max(0.0, lost - float(counted.x[on].sum())) / max(sent - float(counted.n[on] @ weight), 1.0)


def _count(s: FleetLocator, m: Memory, family: str, columns: Columns, *, look: tuple[Longs, int, Longs]) -> Counted:
    """Return the neighbourhood of entities with its counts; rows that are explained already count nothing."""
    entities, scale, explained = look
    parts = _suspected(s, m, family, _foremost(m, family, entities, scale), scale)
    links = np.unique(s.space.links_of_all(parts)[0]).astype(np.int64)
    rows = m.index.rows_over(np.concatenate([2 * links, 2 * links + 1]))
    hood = neighbourhood(m.index, s.space, parts, rows, m.part_scratch)
    n, x = counts_of(m, family, columns, rows, scale)
    believed = m.believed[family][rows]
    silent = np.isin(rows, explained, assume_unique=True) | ((believed < 1) & (scale != NOW))
    n[silent] = 0
    x = np.minimum(np.where(silent, 0, x), n)
    usual = s.background[family] * PER_NEAR[m.index.group[rows]]
    return Counted(hood, n.astype(np.float64), x.astype(np.float64), ((1 - usual) * believed).astype(np.float64))


def _unsettled(s: FleetLocator, family: str, counted: Counted, explained: Longs) -> Longs:
    """Return the entities on which something stands out even without the rows that are explained."""
    hood = counted.hood
    left = np.where(np.isin(hood.rows, explained, assume_unique=True), 0.0, 1.0)
    of_entry = np.repeat(np.arange(hood.n_hyps), np.diff(hood.start))
    x = np.bincount(of_entry, weights=(left * counted.x)[hood.row], minlength=hood.n_hyps)
    n = np.bincount(of_entry, weights=(left * counted.n)[hood.row], minlength=hood.n_hyps)
    hyp = np.array([h for h in np.flatnonzero(x) if surprise(x[h], s.background[family] * n[h]) >= SCREEN], dtype=int)
    part, way = hood.parts[hyp // 3], hyp % 3
    link = part < s.fabric.n_links
    return np.concatenate([(2 * part + way)[link & (way < BOTH)], (part + s.fabric.n_links)[~link & (way == BOTH)]])


def _foremost(m: Memory, family: str, entities: Longs, scale: int) -> Longs:
    if len(entities) <= MOST_ENTITIES:
        return entities
    x = m.wrong[family].of_entities(scale, entities)
    return entities[np.argsort(-x, kind="stable")[:MOST_ENTITIES]]


def _suspected(s: FleetLocator, m: Memory, family: str, entities: Longs, scale: int) -> Longs:
    """Return the parts that may be at fault: links that stand out, and wider parts that a single link can't stand for.

    A wider part of which only one link stands out is no better an explanation, unless no row crosses its others.
    """
    n_links = s.fabric.n_links
    links = np.unique(entities[entities < 2 * n_links] >> 1)
    wide = entities[entities >= 2 * n_links] - n_links
    around = s.space.parts_of_link[links, 1:].ravel()
    around, count = np.unique(around[around >= 0], return_counts=True)
    single = around[count == 1].astype(np.int64)
    alone = single[~_others_probed(s, m, single)]
    wide = np.unique(np.concatenate([np.setdiff1d(wide, single), around[count > 1].astype(np.int64), alone]))
    big = s.space.size(wide) >= BIG
    spread = wide[big][_spread(s, m, family, wide[big], scale)]
    return np.unique(np.concatenate([links, wide[~big], spread]))


def _others_probed(s: FleetLocator, m: Memory, parts: Longs) -> npt.NDArray[np.bool_]:
    """Return whether more than one link of each part is crossed by any row."""
    links, bounds = s.space.links_of_all(parts)
    probed = np.concatenate([[0], np.cumsum(m.index.probed(links.astype(np.int64)))])
    return np.asarray(probed[bounds[1:]] - probed[bounds[:-1]] > 1)


def _spread(s: FleetLocator, m: Memory, family: str, parts: Longs, scale: int) -> npt.NDArray[np.bool_]:
    """Return whether the losses of big parts stand out even without the few links that lose most."""
    links, bounds = s.space.links_of_all(parts)
    up = 2 * links.astype(np.int64)
    x = np.maximum(*(m.wrong[family].of_entities(scale, up + d) for d in (0, 1)))
    nominal = np.maximum(m.nominal[up], m.nominal[up + 1])
    ticks = float(ticks_held(m.wrong[family].tick)[WINDOWS if scale == NOW else scale])
    out = np.zeros(len(parts), dtype=np.bool_)
    for i, (a, b) in enumerate(pairwise(bounds.tolist())):
        rest = np.argsort(x[a:b], kind="stable")[: b - a - math.ceil(TOP_SHARE * (b - a))]
        expected = s.background[family] * ticks * float(nominal[a:b][rest].sum())
        out[i] = surprise(float(x[a:b][rest].sum()), expected) >= SCREEN
    return out


def surprise(x: float, mu: float) -> float:
    """Return nats by which a count above its mean stands out."""
    mu = max(mu, 1e-9)
    return x * math.log(x / mu) - x + mu if x > mu else 0.0


def _certain(s: FleetLocator, m: Memory, family: str, suspect: Suspect) -> bool:
    """Whether a suspect may be told: seen again, on new losses, and no near rival that time would rule out."""
    now = _lost_so_far(s, m, family, suspect.part)
    key = (family, suspect.part)
    w = s.waiting.get(key)
    if w is None or w.last < s.tick - WITHIN_TICKS or now < w.lost:
        s.waiting[key] = Waiting(s.tick, s.tick, now)
        return False
    w.times, w.last = w.times + 1, s.tick
    host = _of_one_host(s, suspect.part)
    usual = s.background[family] * _nominal(s, m, suspect.part) * (s.tick - w.first)
    patient = (s.tick - w.first) * s.config.tick_s >= s.config.patience_s
    open_question = suspect.margin < CLOSE and set(suspect.rivals) != set(suspect.twins)
    return (
        w.times >= (TIMES_HOST if host else TIMES)
        and surprise(float(now - w.lost), usual) >= AGAIN
        and suspect.llr >= s.threshold + (HOST_CAUTION if host else 0.0)
        and (patient or not open_question)
    )


def _entities(s: FleetLocator, part: int) -> Longs:
    if part < s.fabric.n_links:
        return np.array([2 * part, 2 * part + 1])
    return np.array([part + s.fabric.n_links])


def _lost_so_far(s: FleetLocator, m: Memory, family: str, part: int) -> int:
    return int(m.wrong[family].of_entities(WINDOWS - 1, _entities(s, part)).sum())


def _nominal(s: FleetLocator, m: Memory, part: int) -> float:
    return float(m.nominal[_entities(s, part)].sum())


def _of_one_host(s: FleetLocator, part: int) -> bool:
    return s.parts.of(s.space.component(part)).of_one_host
