"""Reports that pass every check and are nonsense all the same: the keeper judges on, whatever comes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from synthetic_world import SynthWorld, make_fabric

from railkeeper.app.pipeline import Setup, begin, step
from railkeeper.app.sound import check_input
from railkeeper.health.fault import LocatorConfig
from railkeeper.probe.pathstats import NO_TIME
from railkeeper.respond.guardrails import Limits

FABRIC = make_fabric()
DELAYS = (0, -(10**9), 10**12, NO_TIME, 5_000_000)
RATES = (0.0, 1e3, 1e12, np.nan)


def spoilt(rng, report):
    """A report with some of its numbers drawn anew."""
    columns = {}
    for name in ("sent", "received", "corrupt", "delay_min_ns", "train_bps"):
        column = getattr(report.stats, name).copy()
        where = rng.random(len(column)) < rng.choice([0.0, 0.02, 0.3, 1.0])
        n = int(where.sum())
        if name == "delay_min_ns":
            column[where] = rng.choice(DELAYS, n)
        elif name == "train_bps":
            column[where] = rng.choice(RATES, n)
        else:
            column[where] = rng.integers(-1, 10 ** int(rng.integers(1, 8)), n)
        columns[name] = column
    changed = replace(report, stats=replace(report.stats, **columns), unsent=int(rng.random() < 0.1))
    return replace(changed, port_state=(0, -1), port_downs=(5, -1)) if rng.random() < 0.2 else changed


@pytest.mark.parametrize("common_clock", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_nonsense_stops_nothing(common_clock, seed):
    rng, world = np.random.default_rng(seed), SynthWorld(FABRIC, ticks=10**9)
    setup = Setup(FABRIC, "lab", locator=LocatorConfig(common_clock=common_clock), limits=Limits(dry_run=False))
    state, told = begin(setup), set()
    for _ in range(250):
        given = world.next_tick()
        reports = [spoilt(rng, r) if rng.random() < 0.3 else r for r in given.reports if rng.random() < 0.95]
        given = replace(
            given, reports=tuple(reports) if rng.random() < 0.95 else (), ports=given.ports if rng.random() < 0.8 else None,
            flows=given.flows if rng.random() < 0.9 else (),
        )  # fmt: skip
        check_input(FABRIC, 0.5, given, "test")
        state, outcome = step(setup, state, given)
        json.dumps(outcome.events, allow_nan=False)
        told |= {f.kind for f in outcome.faults}
        if outcome.step.denied_changed:
            world.deny(state.response.version, state.response.denied)

    assert told  # it was nonsense indeed


@pytest.mark.parametrize("common_clock", [True, False])
def test_nobody_at_all_is_no_data(common_clock):
    setup = Setup(FABRIC, "live", locator=LocatorConfig(common_clock=common_clock))
    state, world = begin(setup), SynthWorld(FABRIC)
    for _ in range(30):
        given = replace(world.next_tick(), reports=(), ports=None, flows=())
        state, outcome = step(setup, state, given)

    assert outcome.silent == tuple(range(FABRIC.n_nodes))
    assert not any(f.network for f in outcome.faults)
