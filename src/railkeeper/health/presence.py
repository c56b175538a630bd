"""Which agents report: an agent away is told as such, and never as a fault of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Component, Kind
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.track import AWAY, HARD, Tracked

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.state import FleetLocator
    from railkeeper.health.state import LocatorState

    Locator = LocatorState | FleetLocator

# When most agents are silent at once, it is more likely the way to us; and one that was never heard may be starting.
PATIENT_FACTOR = 5
GOOD_TICKS = 2


def judge_presence(s: Locator, silent: tuple[int, ...]) -> set[int]:
    """Count silence; returns nodes whose tick is their first after it, which began in the middle of the tick."""
    now = np.zeros(s.fabric.n_nodes, dtype=bool)
    now[list(silent)] = True
    s.heard |= ~now
    returned = np.flatnonzero(~now & (s.silent_for > 0))
    s.silent_for = np.where(now, s.silent_for + 1, 0)
    return set(returned.tolist())


def expected(s: Locator) -> npt.NDArray[np.bool_]:
    """Return (n_nodes,) which agents should report: all, or those that were heard before."""
    return s.heard | s.config.expect_agents


def tell_away(s: Locator) -> None:
    """Open and clear faults of agents that are away."""
    due = expected(s)
    most = int((due & (s.silent_for > 0)).sum()) * 2 > int(due.sum()) > 2
    limit = s.config.silent_ticks * np.where(s.heard & (not most), 1, PATIENT_FACTOR)
    down = {f.target for f in s.live(HARD) if f.kind == "node-down"}
    told = {f.target for f in s.live(AWAY)} | down
    for node in np.flatnonzero(due & (s.silent_for >= limit)):
        target = Component(Kind.NODE, int(node))
        if target not in told:
            _open(s, target)
    for f in s.live(AWAY):
        _age(s, f, is_down=f.target in down)


def _open(s: Locator, target: Component) -> None:
    part = s.parts.of(target)
    links_up = bool(s.carriers.up[part.links].any())
    f = Tracked(AWAY, "agent-down", part, s.tick - int(s.silent_for[target.id]) + 1, s.tick, target=target)
    f.also_kinds = () if links_up else ("node-down",)
    f.evidence = (f"no report for {int(s.silent_for[target.id])} ticks", "ports up" if links_up else "ports not read")
    s.open(f)


def _age(s: Locator, f: Tracked, *, is_down: bool) -> None:
    assert f.target is not None
    if s.silent_for[f.target.id] and not is_down:
        f.good, f.status, f.seen = 0, OPEN, s.tick
        return
    f.good += 1
    f.status = CLEARED if is_down or f.good >= GOOD_TICKS else CLEARING
