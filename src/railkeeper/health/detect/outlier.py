"""Counts that stand out: more events to the packet than peers that carry traffic have, by more than chance allows.

Counts of losses and their kin come in bursts, over packets that differ by orders of magnitude between entities. So:
a floor in events per s screens (nearly everything stays below), the few are compared by *ratio* with a quantile of the
peers' ratios, and must then be surprising as a count of bursts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.lasting import Lasting, last
from railkeeper.health.detect.peers import MIN_PEERS
from railkeeper.health.detect.poisson import surprise
from railkeeper.health.detect.screen import above

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]

# So many of a group of peers, evenly spread over it, stand for all of it: a quantile of 0.9 to a few per cent of rank.
SAMPLE = 1024


@dataclass(frozen=True)
class Rule:
    """How one counter is judged.

    - floor_per_s: below it nothing is looked at; busy_per_s: peers with fewer packets say nothing
    - floor_ratio: events to the packet (per s where there is no exposure) that are normal in any case
    - factor: times the peers' 90% quantile; burst: events that come together; strict: -log10 of chance
    - peers: whether peers excuse it; False for what must not be at all, whoever has it
    """

    floor_per_s: float
    floor_ratio: float
    factor: float
    burst: float
    strict: float
    busy_per_s: float = 100.0
    peers: bool = True


@dataclass(frozen=True)
class Outliers:
    """Entities (m,) that stand out and have done so for long enough, ascending.

    - since_s: onset; value: events per s; ratio: to the packet (NaN without packets); normal: what the ratio should be
    - by_peers: whether peers say so (else a limit does)
    """

    ids: Ids
    since_s: Doubles
    value: Floats
    ratio: Floats
    normal: Floats
    by_peers: npt.NDArray[np.bool_]


class PeerSample:
    """Ids of some entities of every group of peers: (G, SAMPLE) int32, -1 where a group has fewer."""

    def __init__(self, entities: Entities) -> None:
        order = np.argsort(entities.group, kind="stable")
        start = np.concatenate([[0], np.cumsum(entities.group_size)])
        self.ids = np.full((entities.n_groups, min(SAMPLE, int(entities.group_size.max(initial=1)))), -1, np.int32)
        for group in range(entities.n_groups):
            mine = order[start[group] : start[group + 1]]
            spread = mine[np.linspace(0, len(mine) - 1, min(len(mine), SAMPLE)).astype(np.int64)]
            self.ids[group, : len(spread)] = spread

    def quantile(self, values: Floats, exposure: Floats | None, busy: float, q: float = 0.9) -> Floats:
        """Return (G,) quantile of values (over exposure, where it is at least `busy`); NaN under MIN_PEERS values.

        Without an exposure, values below `busy` do not count.
        """
        there = self.ids >= 0
        at = np.maximum(self.ids, 0)
        ratio = np.where(there, values[at], np.nan)
        if exposure is not None:
            over = exposure[at]
            ratio = np.where(over >= busy, ratio / np.maximum(over, busy), np.nan)
        elif busy > 0:
            ratio = np.where(ratio >= busy, ratio, np.nan)
        ordered = np.sort(ratio, axis=1)
        known = np.count_nonzero(~np.isnan(ordered), axis=1)
        place = np.ceil(q * np.maximum(known - 1, 0)).astype(np.int64)
        found = ordered[np.arange(len(ordered)), place]
        return np.where(known >= MIN_PEERS, found, np.nan).astype(np.float32)


@dataclass(frozen=True)
class Counter:
    """One counter column in one tick: events per s, packets per s that they are a share of (None: of time)."""

    sample: PeerSample
    group: npt.NDArray[np.int16]
    values: Floats
    packets: Floats | None
    rule: Rule
    tick_s: float

    def ratio(self, ids: Ids) -> Floats:
        """Return (m,) events to the packet; NaN where the packets are not known."""
        if self.packets is None:
            return self.values[ids]
        packets = np.maximum(self.packets[ids], np.float32(self.rule.busy_per_s))
        return np.divide(self.values[ids], packets, dtype=np.float32)

    def normal(self, ids: Ids) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return (m,) the ratio that is normal, and whether peers say so."""
        if not len(ids) or not self.rule.peers:
            return np.full(len(ids), self.rule.floor_ratio, dtype=np.float32), np.zeros(len(ids), dtype=np.bool_)
        busy = self.rule.busy_per_s if self.packets is not None else 0.0
        peers = self.sample.quantile(self.values, self.packets, busy)[self.group[ids]]
        return np.fmax(peers, np.float32(self.rule.floor_ratio)), ~np.isnan(peers)

    def hits(self) -> Ids:
        """Return who stands out in this tick, ascending."""
        near = above(self.values, self.rule.floor_per_s)
        ratio, (normal, _) = self.ratio(near), self.normal(near)
        out = ratio > (self.rule.factor if self.rule.peers else 1.0) * normal
        near, ratio, normal = near[out], ratio[out], normal[out]
        count = self.values[near] * self.tick_s / self.rule.burst
        return near[surprise(count, count * normal / ratio) >= self.rule.strict]


def follow_counter(lasting: Lasting, counter: Counter, view: View) -> Outliers:
    """Follow one counter column for a tick and return who stands out for long enough."""
    hit = counter.hits()
    dark = lasting.ids[np.isnan(counter.values[lasting.ids])]
    found = last(lasting, view, hit, counter.values[hit], dark)
    normal, by_peers = counter.normal(found.ids)
    return Outliers(found.ids, found.since_s, found.values, counter.ratio(found.ids), normal, by_peers)
