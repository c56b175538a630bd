"""One tick of the keeper as a pure function: judge, locate, weigh, decide, verify.

`step(setup, state, tick input) -> (state, outcome)`. There is no clock and no I/O here: live, lab, twin and recording
run this same code, and the same inputs give the same outcomes, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from railkeeper.app import traffic as tr
from railkeeper.app.asking import Asked, ask_for
from railkeeper.app.detecting import Detecting, begin_detecting, detect, entities_of, failures, ports_seen
from railkeeper.app.events import (
    TickFacts,
    action_event,
    detector_event,
    ended_event,
    failure_event,
    fault_event,
    finding_events,
    impact_event,
    incident_event,
    level_event,
    tick_event,
)
from railkeeper.app.fusing import Fusing, Now, begin_fusing, clock_set_back, fuse_in
from railkeeper.app.inputs import Confirmation
from railkeeper.app.levels import LevelConfig, LevelState, PortsSeen, Seen, keep_levels
from railkeeper.app.locators import begin_locating, locate
from railkeeper.app.sound import possible_rows
from railkeeper.health.fault import ALONE, Fault, LocatorConfig, Observation
from railkeeper.health.presence import expected
from railkeeper.health.slo.keep import SliRow, new_slo_state
from railkeeper.health.slo.scopes import Job, Scopes
from railkeeper.probe.join import join_reports
from railkeeper.respond import responder
from railkeeper.respond.actions import ActionStatus
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.responder import ResponseState, Step
from railkeeper.respond.verify import verify
from railkeeper.telemetry.frame_wire import decode_frame
from railkeeper.telemetry.ports import PortStates, unread_ports

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.app.inputs import TickInput
    from railkeeper.app.locators import Locator
    from railkeeper.app.traffic import TrafficTick
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.slo.objectives import Level
    from railkeeper.health.slo.series import Series
    from railkeeper.probe.extra import Ask
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.respond.actions import Action
    from railkeeper.respond.incidents import Incident

# A sender whose last report is older than this does not hold up an action.
SENDER_GONE_TICKS = 3
# Traffic is compared from this many ticks after all senders have confirmed, over this many ticks.
SETTLE_TICKS, VERIFY_TICKS = 1, 6
# Where it still loses, the newest ticks are looked at for this long before the verdict: a burst passes by, but a
# denial that does not help stays without effect.
VERIFY_PATIENCE_TICKS = 24


@dataclass(frozen=True)
class Setup:
    """What does not change while a keeper runs."""

    fabric: Fabric
    world: str
    tick_s: float = 0.5
    locator: LocatorConfig = field(default_factory=LocatorConfig)
    limits: Limits = field(default_factory=Limits)
    frame_s: float = 10.0
    detectors: dict[str, dict[str, float]] = field(default_factory=dict)
    levels: LevelConfig = field(default_factory=LevelConfig)


@dataclass(frozen=True)
class KeeperState:
    """All that a keeper remembers from tick to tick."""

    locator: Locator
    response: ResponseState
    levels: LevelState
    fusing: Fusing
    detecting: Detecting | None = None
    jobs: tuple[Job, ...] = ()
    faults: tuple[Fault, ...] = ()
    held: dict[str, Confirmation] = field(default_factory=dict)
    asked: dict[str, Asked] = field(default_factory=dict)
    senders: dict[str, int] = field(default_factory=dict)
    traffic: tuple[TrafficTick, ...] = ()
    ticks: int = 0
    tick: int = -1


@dataclass(frozen=True)
class Outcome:
    """What a tick led to: lines for the outside, records for the journal, the denied set where it has changed.

    `asks`: what agents are asked to probe beside their plans.
    """

    tick: int
    t_s: float
    stats: PathStats
    faults: tuple[Fault, ...]
    events: tuple[dict[str, Any], ...]
    step: Step
    silent: tuple[int, ...]
    unclean: tuple[int, ...]
    slis: tuple[SliRow, ...] = ()
    asks: tuple[Ask, ...] = ()


def begin(setup: Setup, response: ResponseState | None = None, series: Series | None = None) -> KeeperState:
    """Return the first state.

    With `response` from a journal, its open faults are taken up again; with `series`, error budgets go on.
    """
    response = response or ResponseState()
    open_faults = response.open_faults
    # A journal may tell of ticks that are still to come, if the clock was set back while no keeper ran.
    levels = LevelState(new_slo_state(setup.fabric.n_nodes, series), Scopes(setup.fabric))
    newest = max((f.since_tick for f in open_faults), default=-1)
    fusing = begin_fusing(setup.fabric, open_faults)
    return KeeperState(_seeded(setup, open_faults), response, levels, fusing, tick=newest)


def _seeded(setup: Setup, open_faults: Iterable[Fault]) -> Locator:
    by_paths = [f for f in open_faults if f.counters != ALONE]
    return begin_locating(setup.fabric, setup.locator, by_paths)


def _set_back(setup: Setup, state: KeeperState, tick: int) -> KeeperState:
    """Return the state to go on with after the clock was set back: what is known stays, what counts ticks goes."""
    open_faults = [replace(f, since_tick=min(f.since_tick, tick)) for f in state.response.open_faults]
    return replace(
        state, locator=_seeded(setup, open_faults), fusing=clock_set_back(state.fusing, tick), held={}, senders={},
        traffic=(), asked={},
    )  # fmt: skip


def step(setup: Setup, state: KeeperState, given: TickInput) -> tuple[KeeperState, Outcome]:
    """Return the state after a tick, and what the tick led to."""
    fabric, now = setup.fabric, (given.tick + 1) * setup.tick_s
    if given.tick < state.tick:
        state = _set_back(setup, state, given.tick)
    joined = join_reports(fabric, given.reports)
    stats = possible_rows(joined.stats)
    ports = merge_ports(fabric, given)
    seen = Observation(given.tick, stats, ports, joined.silent, joined.unclean)
    locator, located = locate(state.locator, seen)
    sums = tr.sum_flows(fabric, given.flows)
    state = replace(
        state,
        locator=locator,
        traffic=tr.merge(state.traffic, sums),
        senders=_senders(state.senders, given),
        held=_held(state.held, given),
        ticks=state.ticks + 1,
        tick=given.tick,
        jobs=state.jobs if given.jobs is None else given.jobs,
    )
    state, told, frame = _detect(setup, state, given)
    fusing, faults = fuse_in(state.fusing, _beside(setup, state, seen, located, frame))
    state = replace(state, fusing=fusing)
    state, steps = _respond(setup, state, faults, given.tick, now)
    changes = _merge_steps(state.response, steps)
    facts = TickFacts(
        given.tick, setup.tick_s, stats, len(given.reports), joined.silent, joined.unclean,
        len(state.response.denied), state.traffic[-1] if state.traffic else None, _away(state.locator, joined.silent),
    )  # fmt: skip
    rows, changed = _keep_levels(setup, state, given, Shown(now, stats, ports, faults, frame))
    events = _events(facts, told, state.faults, faults, changes) + tuple(level_event(now, x) for x in changed)
    # Of what paths alone leave open: probes are the better answer to it.
    asked, asks = ask_for(fabric, located, state.asked, given.tick, setup.tick_s)
    outcome = Outcome(given.tick, now, stats, faults, events, changes, joined.silent, joined.unclean, rows, asks)
    return replace(state, faults=faults, asked=asked), outcome


def _away(locator: Locator, silent: tuple[int, ...]) -> tuple[int, ...]:
    """Return those of the silent nodes whose agent should report."""
    due = expected(locator)
    return tuple(node for node in silent if due[node])


class Shown(NamedTuple):
    """What a tick's evidence came to."""

    now: float
    stats: PathStats
    ports: PortStates
    faults: tuple[Fault, ...]
    frame: PortsSeen | None


def _detect(
    setup: Setup, state: KeeperState, given: TickInput
) -> tuple[KeeperState, tuple[dict[str, Any], ...], PortsSeen | None]:
    """Let the detectors judge a frame, if there is one; return the lines of what has changed, and the ports in it."""
    if not given.frame:
        return state, (), None
    found = state.detecting or begin_detecting(entities_of(setup.fabric), setup.detectors, setup.frame_s)
    frame = decode_frame(given.frame, found.entities)
    if frame is None:
        return state, (), None
    fresh, ended = detect(found, frame)
    name = {kind: e.name_of for kind, e in found.entities.items()}
    now = (given.tick + 1) * setup.tick_s
    lines = [detector_event(given.tick, now, f, name[f.kind]) for f in fresh]
    lines += [ended_event(given.tick, now, f, name[f.kind]) for f in ended]
    lines += [failure_event(given.tick, now, which, error) for which, error in failures(found).items()]
    return replace(state, detecting=found), tuple(lines), ports_seen(found, frame)


def _beside(
    setup: Setup, state: KeeperState, seen: Observation, located: tuple[Fault, ...], frame: PortsSeen | None
) -> Now:
    """Return what paths and detectors have of a tick, side by side."""
    return Now(
        seen.tick, setup.tick_s, located, seen.stats, seen.unclean, seen.ports, state.detecting, fresh=frame is not None
    )


def _keep_levels(
    setup: Setup, state: KeeperState, given: TickInput, shown: Shown
) -> tuple[tuple[SliRow, ...], tuple[Level, ...]]:
    seen = Seen(
        shown.now, setup.tick_s, shown.stats, shown.ports, shown.faults, state.response.denied, given.flows,
        state.jobs, shown.frame, setup.frame_s,
    )  # fmt: skip
    return keep_levels(setup.fabric, setup.levels, setup.locator.nominal_bps, state.levels, seen)


def merge_ports(fabric: Fabric, given: TickInput) -> PortStates:
    """Return the port states of the switches with those that the agents report of their own NIC ports."""
    ports = given.ports or unread_ports(fabric)
    lower, downs = ports.lower.copy(), ports.lower_downs.copy()
    width = fabric.nics_per_node * fabric.planes
    for report in given.reports:
        if 0 <= report.node < fabric.n_nodes and len(report.port_state) == len(report.port_downs) == width:
            mine = slice(report.node * width, (report.node + 1) * width)
            lower[mine], downs[mine] = report.port_state, report.port_downs
    return replace(ports, lower=lower, lower_downs=downs)


def _senders(known: dict[str, int], given: TickInput) -> dict[str, int]:
    heard = {**known, **{f"sender/n{r.node}": given.tick for r in given.flows}}
    return {name: tick for name, tick in heard.items() if given.tick - tick <= SENDER_GONE_TICKS}


def _held(known: dict[str, Confirmation], given: TickInput) -> dict[str, Confirmation]:
    """Return what each sender holds: by its word, or by its last report where the word was lost."""
    held = {**known, **{c.sender: c for c in given.confirmations}}
    for report in given.flows:
        name = f"sender/n{report.node}"
        if name not in held or report.deny_version > held[name].version:
            held[name] = Confirmation(name, report.deny_version, 0, 0)
    return held


def _respond(
    setup: Setup, state: KeeperState, faults: tuple[Fault, ...], tick: int, now: float
) -> tuple[KeeperState, list[Step]]:
    first = responder.respond(setup.fabric, state.response, faults, setup.limits, now)
    steps = [first, _confirm(replace(state, response=first.state), now)]
    state = replace(state, response=steps[-1].state)
    for action in list(state.response.actions.values()):
        found = _verify(setup, state, action, tick, now)
        if found is not None:
            steps.append(found)
            state = replace(state, response=found.state)
    return state, steps


def _confirm(state: KeeperState, now: float) -> Step:
    asked = sorted(state.senders)
    version = state.response.version
    holding = [s for s in asked if s in state.held and state.held[s].version >= version]
    kept = sum(state.held[s].refused for s in holding)
    return responder.confirm(state.response, asked, holding, kept, now)


def _verify(setup: Setup, state: KeeperState, action: Action, tick: int, now: float) -> Step | None:
    if action.status is not ActionStatus.APPLIED or action.verification is not None or action.applied_at is None:
        return None
    incident = state.response.incidents.get(action.incident)
    applied = round(action.applied_at / setup.tick_s) - 1
    first = applied + 1 + SETTLE_TICKS
    if incident is None or tick < first + VERIFY_TICKS - 1:
        return None
    before = tr.span(state.traffic, min(incident.fault.since_tick, applied), applied, action.links)
    start = max(first, tick - VERIFY_TICKS + 1)
    found = verify(before, tr.span(state.traffic, start, tick, action.links))
    if found.outcome.useless and tick < first + VERIFY_PATIENCE_TICKS - 1:
        return None
    return responder.verification(state.response, action.key, found, now, since=start * setup.tick_s)


def _merge_steps(final: ResponseState, steps: Iterable[Step]) -> Step:
    """Return one step that holds the last word on everything that the steps have changed."""
    incidents: dict[str, Incident] = {}
    actions: dict[str, Action] = {}
    denied = False
    for s in steps:
        incidents |= {i.id: i for i in s.incidents}
        actions |= {a.key: a for a in s.actions}
        denied |= s.denied_changed
    return Step(final, tuple(incidents.values()), tuple(actions.values()), denied)


def _events(
    facts: TickFacts, told: tuple[dict[str, Any], ...], before: tuple[Fault, ...], faults: tuple[Fault, ...],
    changes: Step,
) -> tuple[dict[str, Any], ...]:  # fmt: skip
    now, old = facts.now, {f.key: f for f in before}
    lines = [tick_event(facts), *finding_events(facts), *told]
    lines += [fault_event(now, f) for f in faults if news_of(old.get(f.key), f)]
    lines += [impact_event(now, i) for i in changes.incidents if i.opened_at == now]
    lines += [incident_event(now, i) for i in changes.incidents]
    lines += [action_event(now, a) for a in changes.actions]
    return tuple(lines)


def news_of(old: Fault | None, new: Fault) -> bool:
    """Return whether a fault differs from its last report in what people act upon."""
    if old is None:
        return True
    fixed = ("target", "kind", "direction", "status", "indistinguishable", "denied_links", "counters")
    return any(getattr(old, name) != getattr(new, name) for name in fixed)
