"""A tie that the agents' sparse plan can't split is split by probes that the keeper asks for, on real packets."""

from __future__ import annotations

import os
import time

import pytest
from probe_fabrics import fabric

from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.app.world import HubWorld
from railkeeper.base.errors import CapabilityError
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.paths import PathKind
from railkeeper.lab import names
from railkeeper.lab.build import build
from railkeeper.lab.capability import check_capability
from railkeeper.lab.crew import Crew
from railkeeper.lab.faults import Injector
from railkeeper.probe.agent import AgentConfig, run_agent
from railkeeper.probe.link import Hub
from railkeeper.probe.plan import ProbeBudget

pytestmark = pytest.mark.lab

F = fabric(planes=2, t0=2, t1=2, nics=2)
LINK = "p0/t0-1--p0/t1-1"
# Bounces only: no path crosses a link in one direction alone.
SPARSE = ProbeBudget(peers=0, far_weight=1e-6, far_trains_per_s=0.0)


@pytest.fixture
def lab():
    try:
        check_capability()
    except CapabilityError as e:
        pytest.skip(str(e))
    with build(F, f"x{os.getpid()}") as lab:
        yield lab


def test_the_direction_of_a_loss_is_told_after_probes_that_were_asked_for(lab, tmp_path):
    endpoint = f"ipc://{tmp_path}/k"
    hub = Hub(endpoint)
    lab.crew = crew = Crew(lab, preload=["railkeeper.probe.agent"])
    injector = Injector(lab, crew)
    try:
        for n in range(F.n_nodes):
            ports = range(n * F.planes, (n + 1) * F.planes)
            config = AgentConfig(F, n, endpoint, tuple(names.nic_interface(F, p) for p in ports), budget=SPARSE)
            crew.start("agent", n, run_agent, config)
        keeper = Keeper(Setup(F, "lab"), HubWorld(F, hub, None, tick_s=0.5))
        _run(keeper, lambda outcome: len(outcome.stats) > 0)
        injector.inject(parse_fault(F, {"id": "f", "kind": "loss", "target": LINK, "direction": "up", "rate": 0.2}, where="t"))  # fmt: skip
        before = _run(keeper, lambda o: any(f.target == LINK for f in o.faults))
        assert len(before.faults[0].directions) > 1
        assert not (before.stats.paths.kind == PathKind.ONEWAY).any()
        asked = _run(keeper, lambda o: o.asks)
        assert all((a.paths.kind == PathKind.ONEWAY).all() for a in asked.asks)
        after = _run(keeper, lambda o: any(f.directions == ("up",) for f in o.faults))
        assert [(f.target, f.direction) for f in after.faults if f.status == "open"] == [(LINK, "up")]
        assert (after.stats.paths.kind == PathKind.ONEWAY).any()
    finally:
        injector.close()
        crew.stop()
        hub.close()


def _run(keeper, until, patience_s=40.0):
    """Run until an outcome is as wanted; returns it."""
    seen = []
    end = time.monotonic() + patience_s
    keeper.run(lambda _state, o: seen.append(o) or (not until(o) and time.monotonic() < end))
    assert until(seen[-1]), [(f.target, f.kind, f.directions, f.status) for f in seen[-1].faults]
    return seen[-1]
