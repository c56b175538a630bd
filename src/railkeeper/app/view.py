"""Builds the snapshot that the live view shows from the keeper's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from railkeeper.app.faultlinks import DEAD_KINDS, links_of_fault
from railkeeper.app.snapshot import Line, LinkLook, Snapshot
from railkeeper.fabric.paths import links_crossed
from railkeeper.health.fault import CLEARED
from railkeeper.respond.actions import DONE
from railkeeper.respond.faultview import describe, record_of
from railkeeper.respond.incidents import IncidentStatus

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.app.pipeline import KeeperState, Outcome, Setup
    from railkeeper.app.traffic import TrafficTick
    from railkeeper.fabric.model import Fabric
    from railkeeper.respond.actions import Action
    from railkeeper.respond.incidents import Incident

T = TypeVar("T")
MAX_LINES = 6
TRAFFIC_TICKS = 4


def snapshot(setup: Setup, state: KeeperState, outcome: Outcome, notes: tuple[str, ...] = ()) -> Snapshot:
    """Return what a person wants to see after a tick."""
    f = setup.fabric
    recent = [t for t in state.traffic if t.tick > outcome.tick - 1 - TRAFFIC_TICKS]
    return Snapshot(
        tick=outcome.tick,
        t_s=outcome.t_s,
        world=setup.world,
        links=link_looks(f, state, outcome),
        agents=(f.n_nodes - len(outcome.silent), f.n_nodes),
        judged_rows=len(outcome.stats),
        denied_links=len(state.response.denied),
        traffic_loss=_loss(recent),
        goodput_bps=_goodput_bps(recent, setup.tick_s),
        incidents=_incident_lines(state),
        actions=_action_lines(state),
        notes=notes,
    )


def link_looks(fabric: Fabric, state: KeeperState, outcome: Outcome) -> npt.NDArray[np.int8]:
    """Return (n_links,) of LinkLook: worst word on each link; a link that no probe crossed has no data."""
    looks = np.full(fabric.n_links, LinkLook.NO_DATA, dtype=np.int8)
    crossed = links_crossed(fabric, outcome.stats.paths) if len(outcome.stats) else np.empty((0, 1), dtype=np.int32)
    looks[crossed[crossed >= 0] // 2] = LinkLook.OK
    denied = np.array(state.response.denied, dtype=np.int64) // 2
    looks[denied] = np.maximum(looks[denied], LinkLook.DENIED)
    for fault in outcome.faults:
        if fault.status != CLEARED and fault.network:
            mine = links_of_fault(fabric, fault)
            look = LinkLook.FAILED if fault.kind in DEAD_KINDS else LinkLook.DEGRADED
            looks[mine] = np.maximum(looks[mine], look)
    return looks


def _loss(recent: list[TrafficTick]) -> float | None:
    sent = sum(t.sent for t in recent)
    return sum(t.lost for t in recent) / sent if sent else None


def _goodput_bps(recent: list[TrafficTick], tick_s: float) -> float | None:
    if not recent:
        return None
    return 8 * sum(t.delivered_bytes for t in recent) / (len(recent) * tick_s)


def _incident_lines(state: KeeperState) -> tuple[Line, ...]:
    known = list(state.response.incidents.values())
    return tuple(map(_incident_line, _newest(known, [i.is_open for i in known])))


def _newest(lines: list[T], standing: list[bool]) -> list[T]:
    """Return the newest of what still stands, and before it, where there is room, what has ended."""
    live = [x for x, stands in zip(lines, standing, strict=True) if stands][-MAX_LINES:]
    ended = [x for x, stands in zip(lines, standing, strict=True) if not stands]
    return ended[max(0, len(ended) - (MAX_LINES - len(live))) :] + live


def _incident_line(i: Incident) -> Line:
    text = describe(record_of(i.fault))
    return Line((i.id, i.fault.target, i.fault.kind, text, str(i.status)), bad=i.status is IncidentStatus.OPEN)


def _action_lines(state: KeeperState) -> tuple[Line, ...]:
    known = list(state.response.actions.values())
    return tuple(map(_action_line, _newest(known, [a.status not in DONE for a in known])))


def _action_line(a: Action) -> Line:
    why = "; ".join(v.reason for v in a.refusals) or a.note or a.reason
    if a.verification and a.in_force:
        why = f"{a.verification['outcome']}: {a.verification['reason']}"
    return Line((f"deny {len(a.links)} directed link(s)", a.target, str(a.status), why), bad=a.in_force)
