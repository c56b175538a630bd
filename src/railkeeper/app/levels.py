"""Service level indicators of one tick: what the keeper has seen, as amounts by scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.paths import links_crossed
from railkeeper.health.fault import CLEARED
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
    from railkeeper.health.fault import Fault
    from railkeeper.lab.traffic.flowstats import FlowReport
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.frame import Rates
    from railkeeper.telemetry.ports import PortStates

    Floats = npt.NDArray[np.float64]

# Nothing passes a part with such a fault.
DEAD_KINDS = frozenset({"down", "flap", "blackhole", "reboot", "optic", "node-down"})


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

    `frame` is what a frame says of the ports, None in ticks without one; `jobs` run now; `denied`: directed links.
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


@dataclass
class LevelState:
    """Service levels, and what is worked out only when it changes."""

    slo: SloState
    scopes: Scopes
    broken: tuple[int, ...] | None = None
    diversity: Floats | None = None


def keep_levels(
    fabric: Fabric, config: LevelConfig, nominal_bps: float, state: LevelState, seen: Seen
) -> tuple[tuple[SliRow, ...], tuple[Level, ...]]:
    """Take in a tick; return the rows of a minute that has ended, and the levels that have changed with it."""
    if state.scopes.jobs != seen.jobs or state.scopes.groups_per_pod != config.slis.groups_per_pod:
        state.scopes, state.broken = Scopes(fabric, config.slis.groups_per_pod, seen.jobs), None
    amounts = _amounts(fabric, config.slis, nominal_bps, state, seen)
    return keep(state.slo, state.scopes, config.slos, seen.now_s, amounts)


def _amounts(fabric: Fabric, config: SliConfig, nominal_bps: float, state: LevelState, seen: Seen) -> dict[str, Floats]:
    scopes = state.scopes
    found = {
        "packet-loss": slis.loss(fabric, scopes, seen.stats),
        "tail-latency": slis.latency(fabric, scopes, seen.stats, config.latency_us),
        "bandwidth": slis.bandwidth(fabric, scopes, seen.stats, config.bandwidth_share * nominal_bps),
        "link-health": slis.link_health(fabric, scopes, *_links(fabric, seen)),
        "path-diversity": _diversity(fabric, state, seen),
    }
    if seen.frame is not None:
        found["congestion"] = slis.congestion(fabric, scopes, seen.frame.entities, seen.frame.rates)
        found["delivery"] = slis.delivery(fabric, scopes, seen.frame.entities, seen.frame.rates)
    if seen.flows:
        found |= _collectives(config, state, seen)
    return found


def _links(fabric: Fabric, seen: Seen) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return (n_links,) whether a link was seen, by probes or by a port that says how it is; and whether it is bad."""
    lower, upper = seen.ports.lower, seen.ports.upper
    looked = (lower != UNREAD) | (upper != UNREAD)
    if len(seen.stats):
        crossed = links_crossed(fabric, seen.stats.paths)
        looked[crossed[crossed >= 0] // 2] = True
    bad = (lower == DOWN) | (upper == DOWN)
    if seen.frame is not None:
        up = seen.frame.up.reshape(-1, 2)
        looked |= (~np.isnan(up)).any(axis=1)
        bad |= (up == 0).any(axis=1)
    for fault in seen.faults:
        if fault.status != CLEARED and fault.network:
            bad[_links_of(fabric, fault)] = True
    return looked | bad, bad


def _links_of(fabric: Fabric, fault: Fault) -> npt.NDArray[np.int32]:
    try:
        return links_of(fabric, parse_name(fabric, fault.target))
    except InputError:
        return np.unique(np.array(fault.denied_links, dtype=np.int32) // 2)


def _diversity(fabric: Fabric, state: LevelState, seen: Seen) -> Floats:
    down = np.flatnonzero((seen.ports.lower == DOWN) | (seen.ports.upper == DOWN))
    dead = [_links_of(fabric, f) for f in seen.faults if f.status != CLEARED and f.network and f.kind in DEAD_KINDS]
    links = np.unique(np.concatenate([down, *dead])).astype(np.int64)
    broken = tuple(sorted({*seen.denied, *(2 * links).tolist(), *(2 * links + 1).tolist()}))
    if state.diversity is None or broken != state.broken:
        state.broken = broken
        state.diversity = slis.path_diversity(fabric, state.scopes, np.array(broken, dtype=np.int64))
    return state.diversity


def _collectives(config: SliConfig, state: LevelState, seen: Seen) -> dict[str, Floats]:
    nodes = np.array([f.node for f in seen.flows], dtype=np.int64)
    busbw = np.array([f.busbw_bps for f in seen.flows], dtype=np.float64)
    usual = learn(state.slo.usual, seen.now_s, nodes, busbw)
    return {
        "collective": slis.collective(state.scopes, nodes, busbw, usual, config.busbw_share),
        "job-impact": slis.job_impact(state.scopes, nodes, busbw, usual, config.gpus_per_node * seen.tick_s),
    }
