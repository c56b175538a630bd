"""Drills: break the lab as a fault file says, and measure how the keeper finds, avoids and forgets each fault.

The drill only compares what was injected with what the keeper reported; the keeper knows nothing of the drill.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railkeeper.app.drillmatch import explains, is_found, same_kind
from railkeeper.app.events import fault_view
from railkeeper.base.errors import OutsideError
from railkeeper.health.fault import CLEARED
from railkeeper.lab.session import fault_line
from railkeeper.respond.actions import ActionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railkeeper.app.pipeline import KeeperState, Outcome
    from railkeeper.app.traffic import TrafficTick
    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault
    from railkeeper.lab.client import LabClient
    from railkeeper.respond.actions import Action

# After the senders have confirmed, the traffic is watched for this long.
AFTER_S = 3.0
# A lab in which some agent or sender has not been heard of by then is not going to work.
WARM_PATIENCE_S = 60.0
# A fault that is not healthy again this long after it was cleared is left behind.
CLEAR_PATIENCE_S = 60.0


@dataclass
class Episode:
    """One fault, or one group, from its injection to its end."""

    faults: tuple[InjectedFault, ...]
    injected_at: float = 0.0
    cleared_at: float = 0.0
    located_s: dict[str, float] = field(default_factory=dict)
    mitigated_s: dict[str, float] = field(default_factory=dict)
    refused_s: dict[str, float] = field(default_factory=dict)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    before: list[TrafficTick] = field(default_factory=list)
    after: list[TrafficTick] = field(default_factory=list)
    clear_s: float | None = None

    @property
    def answered_s(self) -> float | None:
        """When the last of the faults was denied or its denial refused; None while one has no answer."""
        times = {**self.refused_s, **self.mitigated_s}
        return max(times.values()) if len(times) == len(self.faults) else None


@dataclass
class Drill:
    """The drill's own state; `watch` is called after each tick and returns False at the end."""

    fabric: Fabric
    lab: LabClient
    units: list[tuple[InjectedFault, ...]]
    quiet_s: float = 30.0
    patience_s: float = 60.0
    tick_s: float = 0.5
    say: Callable[[str], None] = print
    episodes: list[Episode] = field(default_factory=list)
    false_alarms: dict[str, dict[str, Any]] = field(default_factory=dict)
    quiet_seconds: float = 0.0
    _phase: str = "warm"
    _since: float = field(default_factory=time.time)
    _now: Episode | None = None

    def watch(self, state: KeeperState, outcome: Outcome) -> bool:
        """Take in a tick; inject, clear or end where it is time."""
        t = time.time()
        self._note_false_alarms(outcome)
        return bool(getattr(self, f"_{self._phase}")(state, outcome, t))

    # -- phases ----------------------------------------------------------------------------------------
    def _warm(self, state: KeeperState, outcome: Outcome, t: float) -> bool:
        """Wait until every agent reports and every sender is heard."""
        if not outcome.silent and len(state.senders) >= self.fabric.n_nodes:
            self._go("quiet", t, f"all {self.fabric.n_nodes} agents report; {self.quiet_s:.0f} s of quiet")
        elif t - self._since > WARM_PATIENCE_S:
            missing = len(outcome.silent), self.fabric.n_nodes - len(state.senders)
            raise OutsideError(f"the lab does not get warm: {missing[0]} agents and {missing[1]} senders are missing")
        return True

    def _quiet(self, _state: KeeperState, _outcome: Outcome, t: float) -> bool:
        if t - self._since < self.quiet_s:
            return True
        self.quiet_seconds = t - self._since
        return self._next(t)

    def _faulty(self, state: KeeperState, outcome: Outcome, t: float) -> bool:
        episode = self._episode()
        self._find(episode, state, outcome, t)
        self._sum_traffic(episode, state)
        answered = episode.answered_s
        watched = answered is not None and t - episode.injected_at >= answered + AFTER_S
        if watched or t - episode.injected_at > self.patience_s:
            self._end_of(episode, t)
        return True

    def _clearing(self, state: KeeperState, outcome: Outcome, t: float) -> bool:
        episode = self._episode()
        well = not state.response.denied and all(f.status == CLEARED for f in outcome.faults) and not outcome.silent
        if not well and t - episode.cleared_at < CLEAR_PATIENCE_S:
            return True
        episode.clear_s = t - episode.cleared_at if well else None
        self.say(f"  healthy again after {episode.clear_s:.1f} s" if well else "  not healthy again in time")
        return self._next(t)

    # -- steps -----------------------------------------------------------------------------------------
    def _go(self, phase: str, t: float, text: str) -> None:
        self._phase, self._since = phase, t
        self.say(text)

    def _next(self, t: float) -> bool:
        if len(self.episodes) == len(self.units):
            return False
        unit = self.units[len(self.episodes)]
        self._now = Episode(unit)
        self.episodes.append(self._now)
        names = "; ".join(f"{f.kind} {f.target_name} {f.direction}{numbers(f)}" for f in unit)
        self._go("faulty", t, f"[{len(self.episodes)}/{len(self.units)}] {names}")
        for fault in unit:
            self.lab.ask("inject", fault=fault_line(fault))
        self._now.injected_at = time.time()
        return True

    def _end_of(self, episode: Episode, t: float) -> None:
        missing = [f.id for f in episode.faults if f.id not in episode.located_s]
        what = f"  NOT located: {missing}" if missing else f"  located after {max(episode.located_s.values()):.1f} s"
        self._go("clearing", t, what)
        for fault in episode.faults:
            self.lab.ask("clear", fault=fault.id)
        episode.cleared_at = time.time()

    def _episode(self) -> Episode:
        assert self._now is not None
        return self._now

    def _find(self, episode: Episode, state: KeeperState, outcome: Outcome, t: float) -> None:
        live = [f for f in outcome.faults if f.status != CLEARED]
        for injected in episode.faults:
            found = next((f for f in live if is_found(self.fabric, injected, f) and same_kind(injected, f)), None)
            near = found or next((f for f in live if is_found(self.fabric, injected, f)), None)
            if near is not None:
                episode.found[injected.id] = fault_view(near)
            if found is None:
                continue
            episode.located_s.setdefault(injected.id, t - episode.injected_at)
            if injected.id in episode.mitigated_s:
                continue
            if mitigated(state, found):
                episode.mitigated_s[injected.id] = t - episode.injected_at
            elif refusals := refused(state, found):
                episode.refused_s.setdefault(injected.id, t - episode.injected_at)
                episode.refusals[injected.id] = refusals

    def _sum_traffic(self, episode: Episode, state: KeeperState) -> None:
        begin = episode.injected_at / self.tick_s
        end = None
        if episode.answered_s is not None:
            end = (episode.injected_at + episode.answered_s) / self.tick_s
        seen = [x for x in state.traffic if x.tick >= int(begin)]
        episode.before = [x for x in seen if end is None or x.tick <= int(end)]
        # The tick that follows still declares lost what left before the denial.
        episode.after = [x for x in seen if end is not None and x.tick > int(end) + 1]

    def _note_false_alarms(self, outcome: Outcome) -> None:
        known = list(self._now.faults) if self._now else []
        left_behind = [f for e in self.episodes if e.cleared_at and e.clear_s is None for f in e.faults]
        for fault in outcome.faults:
            if fault.status == CLEARED or fault.key in self.false_alarms:
                continue
            if not any(explains(self.fabric, injected, fault) for injected in (*known, *left_behind)):
                self.say(f"  FALSE: {fault.kind} {fault.target} {fault.direction}")
                self.false_alarms[fault.key] = {**fault_view(fault), "during": [f.id for f in known], "t": outcome.t_s}


def answer(drill: Drill) -> dict[str, Any]:
    """Return the drill's answer as plain values: see the command's reference."""
    return {
        "results": [_result(e, f) for e in drill.episodes for f in e.faults],
        "false_alarms": list(drill.false_alarms.values()),
        "quiet_seconds": round(drill.quiet_seconds, 3),
    }


def _result(episode: Episode, fault: InjectedFault) -> dict[str, Any]:
    found = episode.found.get(fault.id)
    return {
        "id": fault.id,
        "kind": fault.kind,
        "target": fault.target_name,
        "direction": fault.direction,
        "group": fault.group,
        "right": fault.id in episode.located_s,
        "located": [found] if found else [],
        "seconds_to_locate": _rounded(episode.located_s.get(fault.id)),
        "seconds_to_mitigate": _rounded(episode.mitigated_s.get(fault.id)),
        "refused": [] if fault.id in episode.mitigated_s else episode.refusals.get(fault.id, []),
        "loss_before": _loss(episode.before),
        "loss_after": _loss(episode.after),
        "seconds_to_clear": _rounded(episode.clear_s),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _loss(ticks: list[TrafficTick]) -> float | None:
    sent = sum(t.sent for t in ticks)
    return round(sum(t.lost for t in ticks) / sent, 8) if sent else None


def all_right(drill: Drill) -> bool:
    """Return whether every fault was located, nothing else was reported, and all was healthy again."""
    located = all(f.id in e.located_s for e in drill.episodes for f in e.faults)
    finished = len(drill.episodes) == len(drill.units) and all(e.clear_s is not None for e in drill.episodes)
    return located and finished and not drill.false_alarms


def mitigated(state: KeeperState, fault: Fault) -> bool:
    """Return whether all senders obey the denial for a fault, or nothing is to be denied."""
    if not fault.network or not fault.denied_links:
        return True
    return any(a.status is ActionStatus.APPLIED for a in _actions_for(state, fault))


def refused(state: KeeperState, fault: Fault) -> list[str]:
    """Return why the denial for a fault is refused; empty where it is not."""
    held = [a for a in _actions_for(state, fault) if a.status is ActionStatus.REFUSED]
    return [v.reason for a in held for v in a.refusals]


def _actions_for(state: KeeperState, fault: Fault) -> list[Action]:
    mine = {i.id for i in state.response.incidents.values() if i.fault.key == fault.key or fault.key in i.former}
    return [a for a in state.response.actions.values() if a.incident in mine]


def numbers(fault: InjectedFault) -> str:
    """Return the numbers of a fault for people."""
    pairs = ((k, getattr(fault, k)) for k in ("rate", "gbps", "ms", "down_s", "up_s", "seconds"))
    return "".join(f" {k}={v:g}" for k, v in pairs if v)


def group_faults(faults: Sequence[InjectedFault]) -> list[tuple[InjectedFault, ...]]:
    """Return the units of a drill: faults of one group together, at the place of the group's first."""
    units: dict[str, list[InjectedFault]] = {}
    for fault in faults:
        units.setdefault(f"group {fault.group}" if fault.group else f"fault {fault.id}", []).append(fault)
    return [tuple(unit) for unit in units.values()]
