"""Extra probes for faults that the evidence can't pin down: what is asked of which agent, and how often at most.

A function of faults and of what was asked before. Probes touch no traffic and are few, so that they are asked for in a
dry run too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fault import OPEN
from railkeeper.health.propose import propose_probes
from railkeeper.probe.extra import Ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault
    from railkeeper.health.propose import ProbeProposal

SETTLE_S = 2.0  # after which a fault's names are worth a question: the plan's own probes may still split them
AGAIN_S = 60.0
MOST_TIMES = 3  # that one fault is asked for
MOST_AT_ONCE = 4  # faults a tick
PATHS = 8  # a fault
SECONDS = 30.0
MOST_RATE = 50.0  # probes a second on one path


@dataclass(frozen=True)
class Asked:
    """When a fault was first seen ambiguous, when it was asked for last (-1: not yet), and how often."""

    since: int
    last: int = -1
    times: int = 0


def ask_for(
    fabric: Fabric, faults: Iterable[Fault], asked: Mapping[str, Asked], tick: int, tick_s: float
) -> tuple[dict[str, Asked], tuple[Ask, ...]]:
    """Return what is known of questions after a tick, and those of this tick."""
    unclear = [f for f in faults if f.status == OPEN and f.network and _is_ambiguous(f)]
    known = {f.key: asked.get(f.key, Asked(tick)) for f in unclear}
    due = [f for f in unclear if _due(known[f.key], tick, tick_s)][:MOST_AT_ONCE]
    asks: list[Ask] = []
    for fault in due:
        before = known[fault.key]
        known[fault.key] = Asked(before.since, tick, before.times + 1)
        asks += _asks(fabric, propose_probes(fabric, fault, PATHS))
    return known, tuple(asks)


def _is_ambiguous(f: Fault) -> bool:
    return len(f.directions) > 1 or bool(f.indistinguishable)


def _due(a: Asked, tick: int, tick_s: float) -> bool:
    if a.last < 0:
        return (tick - a.since) * tick_s >= SETTLE_S
    return a.times < MOST_TIMES and (tick - a.last) * tick_s >= AGAIN_S


def _asks(fabric: Fabric, proposal: ProbeProposal) -> list[Ask]:
    """Return one question for each node that sends."""
    if not len(proposal.paths):
        return []
    node = fabric.node_of(proposal.paths.src)
    rate = min(MOST_RATE, max(1.0, float(proposal.packets.max()) / SECONDS))
    return [Ask(int(n), proposal.paths.take(node == n), rate, SECONDS) for n in np.unique(node)]
