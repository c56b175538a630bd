"""Service level indicators of one tick: what the keeper has seen, as amounts by scope."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railkeeper.app.faultlinks import DEAD_KINDS, links_of_fault
from railkeeper.fabric.paths import links_crossed
from railkeeper.health.fault import ALONE, CLEARED
from railkeeper.health.slo import slis
from railkeeper.health.slo.keep import SliRow, SloState, keep
from railkeeper.health.slo.objectives import DEFAULT_SLOS, Level, Slo
from railkeeper.health.slo.scopes import Job, Scopes
from railkeeper.health.slo.slis import SliConfig
from railkeeper.health.slo.usual import learn
from railkeeper.telemetry.ports import DOWN, UNREAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.fabric.paths import Paths
    from railkeeper.health.fault import Fault
    from railkeeper.lab.traffic.flowstats import FlowReport
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.frame import Rates
    from railkeeper.telemetry.ports import PortStates

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

# What was seen in a tick counts as seen for so long; what a frame says, for so many frames.
SEEN_S, FRAMES_LAST = 10.0, 2.5


@dataclass(frozen=True)
class LevelConfig:
    """What is kept: objectives, and where good ends."""

    slos: tuple[Slo, ...] = DEFAULT_SLOS
    slis: SliConfig = field(default_factory=SliConfig)


class PortsSeen(NamedTuple):
    """The ports in a frame: rates of their counters; `up`: (n,) 1 passes packets, 0 does not, NaN unread or off."""

    entities: Entities
    rates: Rates
    up: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """What a tick has shown, for service levels.

    `frame` is what a frame says of the ports, None in ticks without one, and comes every `frame_s`; `jobs` run now;
    `denied`: directed links.
    """

    now_s: float
    tick_s: float
    stats: PathStats
    ports: PortStates
    faults: tuple[Fault, ...]
    denied: Sequence[int]
    flows: tuple[FlowReport, ...]
    jobs: tuple[Job, ...] = ()
    frame: PortsSeen | None = None
    frame_s: float = SEEN_S


@dataclass
class LevelState:
    """Service levels, and what is worked out only when it changes.

    - probed: paths of the newest tick, and (n_links,) which links they cross
    - seen_until_s: (n_links,) unix time up to which a link counts as seen
    - down: (n_links,) by the newest frame, which counts up to `frame_until_s`
    - broken, diversity, diversity_s: directed links out of use, what that leaves of paths, and when it was worked out
    """

    slo: SloState
    scopes: Scopes
    probed: tuple[Paths, Bools] | None = None
    seen_until_s: Floats | None = None
    down: Bools | None = None
    frame_until_s: float = 0.0
    broken: tuple[int, ...] | None = None
    diversity: Floats | None = None
    diversity_s: float = 0.0


def keep_levels(
    fabric: Fabric, config: LevelConfig, nominal_bps: float, state: LevelState, seen: Seen
) -> tuple[tuple[SliRow, ...], tuple[Level, ...]]:
    """Take in a tick; return the rows of a minute that has ended, and the levels that have changed with it."""
    if state.scopes.groups_per_pod != config.slis.groups_per_pod:
        state.scopes, state.diversity = Scopes(fabric, config.slis.groups_per_pod, seen.jobs), None
    elif state.scopes.jobs != seen.jobs:
        state.scopes, state.diversity = state.scopes.with_jobs(seen.jobs), None
    amounts = _amounts(fabric, config.slis, nominal_bps, state, seen)
    return keep(state.slo, state.scopes, config.slos, seen.now_s, amounts)


def _amounts(fabric: Fabric, config: SliConfig, nominal_bps: float, state: LevelState, seen: Seen) -> dict[str, Floats]:
    scopes = state.scopes
    looked, bad = _links(fabric, state, seen)
    found = {
        "packet-loss": slis.loss(fabric, scopes, seen.stats),
        "tail-latency": slis.latency(fabric, scopes, seen.stats, config.latency_us),
        "bandwidth": slis.bandwidth(fabric, scopes, seen.stats, config.bandwidth_share * nominal_bps),
        "link-health": slis.link_health(scopes, looked, bad),
        "path-diversity": _diversity(fabric, state, seen, looked),
    }
    if seen.frame is not None:
        found["congestion"] = slis.congestion(scopes, seen.frame.entities, seen.frame.rates)
        found["delivery"] = slis.delivery(scopes, seen.frame.rates)
    if seen.flows:
        found |= _collectives(config, state, seen)
    return found


def _links(fabric: Fabric, state: LevelState, seen: Seen) -> tuple[Bools, Bools]:
    """Return (n_links,) whether a link was seen, by probes or by a port that says how it is; and whether it is bad."""
    lower, upper = seen.ports.lower, seen.ports.upper
    looked = (lower != UNREAD) | (upper != UNREAD) | _probed(fabric, state, seen)
    bad = (lower == DOWN) | (upper == DOWN)
    if seen.frame is not None:
        up = seen.frame.up.reshape(-1, 2)
        state.down = (up == 0).any(axis=1)
        looked |= (~np.isnan(up)).any(axis=1)
        bad |= state.down
    counted = np.zeros_like(bad)
    for fault in seen.faults:
        if fault.status != CLEARED and fault.network:
            (counted if fault.counters == ALONE else bad)[links_of_fault(fabric, fault)] = True
    # What counters alone show is seen as often as all that they see, or its link would weigh as much as many others.
    return looked | bad, bad | (counted & looked)


def _probed(fabric: Fabric, state: LevelState, seen: Seen) -> Bools:
    """Return (n_links,) which links the tick's probes cross; agents probe the same paths again and again."""
    paths = seen.stats.paths
    if state.probed is None or not _same(paths, state.probed[0]):
        links = np.zeros(fabric.n_links, dtype=np.bool_)
        if len(paths):
            crossed = links_crossed(fabric, paths)
            links[crossed[crossed >= 0] // 2] = True
        state.probed = paths, links
    return state.probed[1]


def _same(one: Paths, other: Paths) -> bool:
    return one is other or all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


def _diversity(fabric: Fabric, state: LevelState, seen: Seen, looked: Bools) -> Floats:
    """Return what is left of paths over links that were seen lately; worked out when a link breaks or heals."""
    lately = _seen_lately(fabric, state, seen, looked)
    down = (seen.ports.lower == DOWN) | (seen.ports.upper == DOWN)
    down = np.flatnonzero(down if state.down is None else down | state.down)
    dead = [
        links_of_fault(fabric, f) for f in seen.faults if f.status != CLEARED and f.network and f.kind in DEAD_KINDS
    ]
    links = np.unique(np.concatenate([down, *dead])).astype(np.int64)
    broken = tuple(sorted({*seen.denied, *(2 * links).tolist(), *(2 * links + 1).tolist()}))
    old = not 0 <= seen.now_s - state.diversity_s < SEEN_S
    if state.diversity is None or old or broken != state.broken:
        state.broken, state.diversity_s = broken, seen.now_s
        state.diversity = slis.path_diversity(fabric, state.scopes, np.array(broken, dtype=np.int64), lately)
    return state.diversity


def _seen_lately(fabric: Fabric, state: LevelState, seen: Seen, looked: Bools) -> Bools:
    """Return (n_links,) which links were seen in the last seconds, or in one of the last frames."""
    if state.seen_until_s is None or seen.now_s < state.diversity_s:  # the clock was set back
        state.seen_until_s = np.zeros(fabric.n_links)
    until, last_s = state.seen_until_s, FRAMES_LAST * seen.frame_s
    until[looked] = np.maximum(until[looked], seen.now_s + SEEN_S)
    if seen.frame is not None:
        read = (~np.isnan(seen.frame.up.reshape(-1, 2))).any(axis=1)
        until[read] = np.maximum(until[read], seen.now_s + last_s)
        state.frame_until_s = seen.now_s + last_s
    elif not seen.now_s <= state.frame_until_s <= seen.now_s + last_s:
        state.down = None
    return np.asarray(seen.now_s <= until)


def _collectives(config: SliConfig, state: LevelState, seen: Seen) -> dict[str, Floats]:
    nodes = np.array([f.node for f in seen.flows], dtype=np.int64)
    busbw = np.array([f.busbw_bps for f in seen.flows], dtype=np.float64)
    usual = learn(state.slo.usual, seen.now_s, nodes, busbw)
    return {
        "collective": slis.collective(state.scopes, nodes, busbw, usual, config.busbw_share),
        "job-impact": slis.job_impact(
            state.scopes,
            nodes,
            busbw,
            usual,
            share=config.busbw_share,
            gpu_seconds=config.gpus_per_node * seen.tick_s,
        ),
    }
