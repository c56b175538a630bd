"""The path half of `railkeeper bench tick`: millions of path rows a tick, judged and located."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railkeeper.app.bench_evidence import FleetEvidence
from railkeeper.fabric.components import links_of
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.names import parse_name
from railkeeper.health.fault import LocatorConfig
from railkeeper.health.fleet.locate import judge_fleet, new_fleet
from railkeeper.health.fleet.plan_index import index_paths
from railkeeper.health.fleet.state import remember
from railkeeper.probe.plan import ProbeBudget
from railkeeper.probe.plan_all import all_paths

if TYPE_CHECKING:
    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault
    from railkeeper.health.fleet.state import FleetLocator

# One NIC for each uplink, and one peer: with more, rows only repeat each other.
BUDGET = ProbeBudget(agents_per_link=1, peers=1)
WARM_TICKS = 6  # the first compile, and build what is built once


def ten_faults(f: Fabric) -> list[InjectedFault]:
    """Return ten faults of mixed kinds, spread over the fabric."""
    p, t0, t1, nic = f.planes, f.t0_per_plane, f.t1_per_plane, f.nics_per_t0
    node = [(i * f.n_nodes) // 11 for i in range(11)]
    rows: list[dict[str, Any]] = [
        {"kind": "loss", "rate": 0.01, "target": f"p0/t0-{t0 // 3}--p0/t1-{t1 // 5}", "direction": "up"},
        {"kind": "loss", "rate": 0.005, "target": f"p{1 % p}/t0-{t0 // 7}--p{1 % p}/t1-{t1 // 2}"},
        {"kind": "down", "target": f"n{node[3]}/nic0/p{2 % p}--p{2 % p}/t0-{_t0_of(f, node[3])}"},
        {"kind": "down", "target": f"p{3 % p}/t0-{t0 // 2}"},
        {"kind": "blackhole", "target": f"p{4 % p}/t1-{t1 // 3}"},
        {"kind": "loss", "rate": 0.05, "target": f"n{node[5]}/nic0"},
        {"kind": "loss", "rate": 0.02, "target": f"p{5 % p}/t0-{t0 // 5}/optic{nic // 4 + 1}"},
        {"kind": "slow", "gbps": 0.25 * f.link_gbps, "target": f"p{6 % p}/t0-{t0 // 4}--p{6 % p}/t1-{t1 // 6}"},
        {"kind": "delay", "ms": 2.0, "target": f"p{7 % p}/t0-{t0 // 6}--p{7 % p}/t1-{t1 // 4}", "direction": "down"},
        {"kind": "corrupt", "rate": 0.01, "target": f"n{node[8]}/nic0/p0--p0/t0-{_t0_of(f, node[8])}"},
    ]
    return [parse_fault(f, {"id": f"f{i}", **row}, where="bench") for i, row in enumerate(rows)]


def _t0_of(f: Fabric, node: int) -> int:
    return int(f.nic_t0_index[node * f.nics_per_node])


def is_right(f: Fabric, told: Fault, injected: InjectedFault) -> bool:
    """Whether a fault that is told is the injected one: the same links, a kind and a direction that it says fit."""
    links = set(links_of(f, parse_name(f, told.target)).tolist())
    return (
        links == set(links_of(f, injected.target).tolist())
        and injected.kind in {told.kind, *told.also_kinds}
        and injected.direction in {told.direction, *told.directions}
    )


def measure(fabric: Fabric, *, ticks: int = 12, quiet_ticks: int = 10, seed: int = 1) -> dict[str, Any]:
    """Return the figures of a fleet's path ticks; `ticks` (at least 5) under ten faults, after some of none."""
    start = time.perf_counter()
    paths = all_paths(fabric, BUDGET)
    index = index_paths(fabric, paths)
    state = new_fleet(fabric, LocatorConfig(nominal_bps=fabric.link_gbps * 1e9, slow_fraction=0.9))
    state.memory = remember(state.space, index)
    build_s = time.perf_counter() - start
    world = FleetEvidence(fabric, paths, index.crossed, index.rows_over, seed)
    state, quiet_s, quiet = _run(state, world, 0, WARM_TICKS + quiet_ticks)
    world = replace(world, faults=ten_faults(fabric), seed=seed + 1)
    state, tick_s, told = _run(state, world, WARM_TICKS + quiet_ticks, max(ticks, 5))
    return {
        "path_rows": len(paths),
        "path_build_s": round(build_s, 3),
        "path_tick_s": round(statistics.median(tick_s), 4),
        "path_tick_max_s": round(max(tick_s), 4),
        "path_quiet_tick_s": round(statistics.median(quiet_s[WARM_TICKS:] or quiet_s), 4),
        **_verdict(fabric, world.faults, told, quiet),
    }


def _run(
    state: FleetLocator, world: FleetEvidence, first: int, ticks: int
) -> tuple[FleetLocator, list[float], list[tuple[Fault, ...]]]:
    seconds, told = [], []
    for tick in range(first, first + ticks):
        observation = world.tick(tick)
        start = time.perf_counter()
        state, faults = judge_fleet(state, observation)
        seconds.append(time.perf_counter() - start)
        told.append(faults)
    return state, seconds, told


def _verdict(
    fabric: Fabric, injected: list[InjectedFault], told: list[tuple[Fault, ...]], quiet: list[tuple[Fault, ...]]
) -> dict[str, Any]:
    keys = {f.key: f for tick in (*quiet, *told) for f in tick}
    false = [f for f in keys.values() if not any(is_right(fabric, f, i) for i in injected)]
    last = [f for f in told[-1] if f.status != "cleared"]
    right = [i for i in injected if any(is_right(fabric, f, i) for f in last)]
    return {
        "located": len(right),
        "located_right": len(right) == len(injected),
        "missed": [i.target_name for i in injected if i not in right],
        "false_alarms": len(false),
        "false_targets": [f"{f.kind} {f.target} {f.direction}" for f in false][:20],
        "ticks_to_locate": [_first(fabric, i, told) for i in injected],
    }


def _first(fabric: Fabric, injected: InjectedFault, told: list[tuple[Fault, ...]]) -> int | None:
    """Return how many ticks after the first faulty one a fault was told right; None if never."""
    return next((k + 1 for k, tick in enumerate(told) if any(is_right(fabric, f, injected) for f in tick)), None)
