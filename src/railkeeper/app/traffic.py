"""What the traffic saw around a denial: sums over flow reports, and when a denial can be verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import links_crossed
from railkeeper.lab.traffic.flowstats import join_flows
from railkeeper.respond.verify import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.traffic.flowstats import FlowReport

# Long enough for two looks at a fault's whole life in a demonstration, short enough to cost nothing.
REMEMBER_TICKS = 240


@dataclass(frozen=True)
class TrafficTick:
    """Sums over the senders of one tick: packets, bytes, and the packets of each directed link that carried some."""

    tick: int
    senders: int
    sent: int
    lost: int
    retransmitted: int
    delivered_bytes: int
    busbw_bps: float
    link_sent: dict[int, int]
    link_lost: dict[int, int]


def sum_flows(fabric: Fabric, reports: Iterable[FlowReport]) -> tuple[TrafficTick, ...]:
    """Return one sum for each tick among the reports, in order."""
    by_tick: dict[int, list[FlowReport]] = {}
    for report in reports:
        by_tick.setdefault(report.tick, []).append(report)
    return tuple(_sum(fabric, tick, group) for tick, group in sorted(by_tick.items()))


def _sum(fabric: Fabric, tick: int, group: list[FlowReport]) -> TrafficTick:
    rows = join_flows([report.stats for report in group])
    # Given up, less those that came after all; below 0 where these are of earlier ticks.
    lost = rows.lost - rows.spurious
    crossed = links_crossed(fabric, rows.paths)
    return TrafficTick(
        tick=tick,
        senders=len(group),
        sent=int(rows.sent.sum()),
        lost=int(lost.sum()),
        retransmitted=int(rows.retransmitted.sum()),
        delivered_bytes=int(rows.delivered_bytes.sum()),
        busbw_bps=float(np.mean([r.busbw_bps for r in group])),
        link_sent=_by_link(crossed, rows.sent),
        link_lost=_by_link(crossed, np.maximum(lost, 0)),
    )


def _by_link(crossed: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> dict[int, int]:
    """Return the sum of the rows' counts for each directed link that they cross, where it is not 0."""
    rows, columns = np.nonzero((crossed >= 0) & (counts[:, None] > 0))
    links, inverse = np.unique(crossed[rows, columns], return_inverse=True)
    totals = np.bincount(inverse, weights=counts[rows], minlength=len(links)).astype(np.int64)
    return dict(zip(links.tolist(), totals.tolist(), strict=True))


def merge(old: Sequence[TrafficTick], new: Iterable[TrafficTick]) -> tuple[TrafficTick, ...]:
    """Return the remembered sums with new ones added to their ticks; the oldest are forgotten."""
    known = {t.tick: t for t in old}
    for t in new:
        known[t.tick] = _plus(known[t.tick], t) if t.tick in known else t
    return tuple(known[k] for k in sorted(known)[-REMEMBER_TICKS:])


def _plus(a: TrafficTick, b: TrafficTick) -> TrafficTick:
    both = a.senders + b.senders
    return TrafficTick(
        tick=a.tick,
        senders=both,
        sent=a.sent + b.sent,
        lost=a.lost + b.lost,
        retransmitted=a.retransmitted + b.retransmitted,
        delivered_bytes=a.delivered_bytes + b.delivered_bytes,
        busbw_bps=(a.busbw_bps * a.senders + b.busbw_bps * b.senders) / both,
        link_sent=_plus_counts(a.link_sent, b.link_sent),
        link_lost=_plus_counts(a.link_lost, b.link_lost),
    )


def _plus_counts(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    return {link: a.get(link, 0) + b.get(link, 0) for link in a.keys() | b.keys()}


def span(ticks: Iterable[TrafficTick], first: int, last: int, links: Sequence[int]) -> Traffic:
    """Return the sum of the ticks first..last; `through` counts the busiest of the given directed links."""
    total = Traffic()
    for t in ticks:
        if first <= t.tick <= last:
            through = max((t.link_sent.get(i, 0) for i in links), default=0)
            through_lost = max((t.link_lost.get(i, 0) for i in links), default=0)
            total += Traffic(t.sent, t.lost, through, through_lost)
    return total
