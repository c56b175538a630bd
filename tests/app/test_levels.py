"""What a tick shows, as amounts: what nobody has seen does not count, and what was seen counts for a while."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic_world import FIRST_TICK, TICK_S, SynthWorld, make_fabric

from railkeeper.app.detecting import entities_of
from railkeeper.app.levels import LevelConfig, LevelState, PortsSeen, Seen, keep_levels
from railkeeper.fabric.names import link_name
from railkeeper.fabric.paths import links_crossed
from railkeeper.health.fault import ALONE, OPEN, Fault
from railkeeper.health.slo.keep import new_slo_state
from railkeeper.health.slo.scopes import Job, Scopes
from railkeeper.health.slo.slis import NAMES
from railkeeper.probe.join import join_reports
from railkeeper.telemetry.frame import Rates
from railkeeper.telemetry.ports import unread_ports

FABRIC = make_fabric()
PORTS = entities_of(FABRIC)["port"]
NOTHING = unread_ports(FABRIC)
EMPTY = join_reports(FABRIC, ()).stats
T0 = FIRST_TICK * TICK_S
PATHS = 4 * 2 * 4 * 2  # NICs, those below the other T0, T1s, planes


def seen(t_s, **changes):
    return replace(Seen(T0 + t_s, TICK_S, EMPTY, NOTHING, (), (), (), frame_s=20.0), **changes)


def frame(up):
    n = len(PORTS)
    none = Rates((), np.ones(n, np.float32), np.empty((0, n), np.float32), np.empty((0, n), np.uint8))
    return PortsSeen(PORTS, none, np.asarray(up, dtype=np.float32))


def told(state, of):
    """What a tick has added of the fabric: indicator -> (good, total)."""
    before, minute = state.slo.sums[:, 0].copy() if len(state.slo.sums[0]) else 0.0, state.slo.minute
    keep_levels(FABRIC, LevelConfig(), 2e7, state, of)
    fresh = state.slo.sums[:, 0] - (before if state.slo.minute == minute else 0.0)
    return {name: tuple(row) for name, row in zip(NAMES, fresh.tolist(), strict=True)}


@pytest.fixture
def state():
    made = LevelState(new_slo_state(FABRIC.n_nodes), Scopes(FABRIC))
    told(made, seen(0))
    return made


def test_where_nothing_is_seen_nothing_is_said(state):
    assert set(told(state, seen(1)).values()) == {(0.0, 0.0)}


def test_a_frame_counts_for_some_frames(state):
    up = np.ones(len(PORTS))
    up[5] = 0
    first = told(state, seen(1, frame=frame(up)))
    assert first["link-health"] == (FABRIC.n_links - 1, FABRIC.n_links)
    assert 0 < first["path-diversity"][0] < first["path-diversity"][1] == PATHS
    later = told(state, seen(40))
    assert later["path-diversity"] == first["path-diversity"]
    assert later["link-health"] == (0, 0)
    assert told(state, seen(62))["path-diversity"] == (0, 0)


def test_a_port_that_is_read_no_more_is_not_down_for_ever(state):
    up = np.ones(len(PORTS))
    up[5] = 0
    told(state, seen(1, frame=frame(up)))
    up[5] = np.nan
    assert told(state, seen(11, frame=frame(up)))["path-diversity"] == (PATHS, PATHS)


def test_paths_over_links_that_nobody_reads_do_not_count(state):
    up = np.ones(len(PORTS))
    up[2 * FABRIC.n_ports :] = np.nan
    assert told(state, seen(1, frame=frame(up)))["path-diversity"] == (0, 0)


def test_probes_see_the_links_that_they_cross(state):
    given = SynthWorld(FABRIC).next_tick()
    stats = join_reports(FABRIC, given.reports).stats
    crossed = links_crossed(FABRIC, stats.paths)
    links = len(np.unique(crossed[crossed >= 0] // 2))
    for t_s in (1.0, 1.5):
        found = told(state, seen(t_s, stats=stats))
        assert found["link-health"] == (links, links)
        assert found["packet-loss"][1] == stats.sent.sum()
    few = stats.take(np.arange(3))
    assert told(state, seen(2.0, stats=few))["link-health"][1] < links
    assert told(state, seen(2.5))["link-health"] == (0, 0)


def fault(counters):
    name = link_name(FABRIC, 0)
    return Fault(
        "f", name, "corrupt", "up", 0, OPEN, 1.0, *[float("nan")] * 5, (), ("up",), (), (), True, (0,), counters
    )


def test_a_fault_of_counters_weighs_no_more_than_links_that_are_well(state):
    up = frame(np.ones(len(PORTS)))
    alone, of_paths = seen(1.0, faults=(fault(ALONE),)), seen(2.0, faults=(fault(""),))
    assert told(state, replace(alone, frame=up))["link-health"] == (FABRIC.n_links - 1, FABRIC.n_links)
    assert told(state, alone)["link-health"] == (0, 0)
    assert told(state, of_paths)["link-health"] == (0, 1)


def test_jobs_come_and_go(state):
    up = frame(np.ones(len(PORTS)))
    names = []
    for t_s, jobs in enumerate([(Job("a", (0, 1)),), (Job("b", (1,)),), ()], 1):
        told(state, seen(float(t_s), frame=up, jobs=jobs))
        names.append([n for n in state.slo.scopes.names if n.startswith("job/")])
        if jobs:
            mine = state.slo.sums[NAMES.index("link-health"), -1]
            assert mine.tolist() == [2 * len(jobs[0].nodes)] * 2
    assert names == [["job/a"], ["job/b"], []]


def test_after_the_clock_was_set_back_what_was_seen_later_is_not_seen(state):
    up = frame(np.ones(len(PORTS)))
    assert told(state, seen(1000, frame=up))["path-diversity"] == (PATHS, PATHS)
    assert told(state, seen(10))["path-diversity"] == (0, 0)
    assert told(state, seen(21, frame=up))["path-diversity"] == (PATHS, PATHS)
