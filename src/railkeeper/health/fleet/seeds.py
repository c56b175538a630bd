"""Start from faults that an earlier keeper had told: they stay open until fresh evidence clears them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Kind, parse_name
from railkeeper.health.fault import CLEARED
from railkeeper.health.fleet.follow import believe_again
from railkeeper.health.fleet.solve_kernels import U_MAX
from railkeeper.health.fleet.state import Followed
from railkeeper.health.seeds import tracked_fault
from railkeeper.health.track import AWAY, HARD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.health.fault import Fault
    from railkeeper.health.fleet.state import FleetLocator, Memory

LEAST_RATE = 1e-6


def seed_fleet(state: FleetLocator, faults: Iterable[Fault]) -> FleetLocator:
    """Return the state with these faults open; their rows are followed from the first tick on."""
    for fault in faults:
        if fault.status == CLEARED:
            continue
        target = parse_name(state.fabric, fault.target)
        if fault.kind == "agent-down" and target.kind is Kind.NODE:
            state.silent_for[target.id] = max(int(state.silent_for[target.id]), state.config.silent_ticks)
        state.others.append(tracked_fault(state.parts, fault))
    return state


def take_up(s: FleetLocator, m: Memory) -> None:
    """Follow the rows of faults that were told before there were any."""
    early = [t for t in s.others if t.family != AWAY and s.space.number(t.part.component) >= 0]
    if not early:
        return
    s.others = [t for t in s.others if t not in early]
    for t in early:
        directed = t.part.directed(t.direction)
        rows = m.index.rows_over(directed)
        times = np.isin(m.index.crossed[rows], directed).sum(axis=1).astype(np.float64)
        u = U_MAX if t.family == HARD else -np.log1p(-min(max(t.rate if t.rate > 0 else 0.0, LEAST_RATE), 1 - 1e-7))
        none = np.zeros(len(rows))
        s.followed.append(Followed(t, s.space.number(t.part.component), rows, times, none, none.copy(), float(u)))
    believe_again(s, m)
