"""Turns the counts of a node's flows into the report of a tick."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import make_paths
from railkeeper.lab.traffic.flowstats import FlowReport, FlowStats, join_flows
from railkeeper.lab.traffic.sender import new_tally

if TYPE_CHECKING:
    from railkeeper.lab.traffic.config import TrafficConfig
    from railkeeper.lab.traffic.receiver import RxFlow
    from railkeeper.lab.traffic.ring import Ring
    from railkeeper.lab.traffic.sender import TxFlow

    Job = tuple[TxFlow, RxFlow, Ring]


@dataclass
class Totals:
    """Counts of a node since its last report that belong to no path."""

    unsent: int = 0
    socket_dropped: int = 0
    corrupt: int = 0
    stray: int = 0
    ticks_dropped: int = 0


def make_report(config: TrafficConfig, tick: int, jobs: list[Job], totals: Totals, deny_version: int) -> FlowReport:
    """Return the report of a tick and begin to count anew."""
    flows = [flow for flow, _, _ in jobs]
    bits = [8 * config.size * take_count(back, "in_order") for _, back, _ in jobs]
    counts = asdict(totals)
    counts["unsent"] += sum(take_count(flow, "unsent") for flow in flows)
    return FlowReport(
        node=config.node, tick=tick, tick_s=config.tick_s, stats=_rows(flows),
        steps=min((back.cum // ring.chunk for _, back, ring in jobs), default=0),
        busbw_bps=float(np.mean(bits)) / config.tick_s if bits else 0.0,
        unanswered=sum(take_count(flow, "unanswered") for flow in flows),
        refused=sum(take_count(flow, "refused") for flow in flows),
        duplicate=sum(take_count(back, "duplicate") for _, back, _ in jobs),
        floor_holds=sum(flow.evs.floor_holds for flow in flows),
        silent_peers=sum(not flow.open for flow in flows), deny_version=deny_version, **counts,
    )  # fmt: skip


def take_count(flow: TxFlow | RxFlow, name: str) -> int:
    """Return a flow's count and set it to 0."""
    value = int(getattr(flow, name))
    setattr(flow, name, 0)
    return value


def _rows(flows: list[TxFlow]) -> FlowStats:
    none = np.empty(0, dtype=np.int64)
    parts = [FlowStats(make_paths(none, none, none), *[none] * 7)]
    for flow in flows:
        t = flow.tally
        parts.append(
            FlowStats(
                paths=flow.paths, sent=t.sent, retransmitted=t.retransmitted, lost=t.lost, spurious=t.spurious,
                delivered_bytes=t.delivered, state=flow.evs.state.astype(np.int64),
                active=flow.evs.active.astype(np.int64),
            )
        )  # fmt: skip
        flow.tally = new_tally(len(flow.evs))
    return join_flows(parts)
