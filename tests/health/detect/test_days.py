"""Simulated days: the same seed gives the same frames, what was down says so, faults change what they say they change."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.detect import engine
from railkeeper.health.detect.days.faults import Planted, planted
from railkeeper.health.detect.days.score import quiet_days, struck_day
from railkeeper.health.detect.days.world import FABRIC, World
from railkeeper.health.detect.ecn_balance import EcnBalance
from railkeeper.health.detect.lossless_drops import LosslessDrops
from railkeeper.health.detect.srv6_no_sid import Srv6NoSid
from railkeeper.telemetry.frame import ABSENT, NO_TIME
from railkeeper.telemetry.signals import catalogue

SMALL = Fabric(check_spec({"fabric": FABRIC | {"t0_per_plane": 2, "t1_per_plane": 4, "nics_per_t0": 32}}))


def world(seed=3, days=1.0) -> World:
    return World(days, seed, fabric=SMALL)


def test_the_same_seed_gives_the_same_frames():
    first, second, other = world(), world(), world(4)
    for i in range(3):
        a, b, c = (w.frame(i) for w in (first, second, other))
        for kind in a.blocks:
            assert a.blocks[kind].counters.tobytes() == b.blocks[kind].counters.tobytes()
            assert a.blocks[kind].gauges.tobytes() == b.blocks[kind].gauges.tobytes()
        assert a.blocks["port"].counters.tobytes() != c.blocks["port"].counters.tobytes()


def test_columns_are_signals():
    known = {(s.entity, s.name) for s in catalogue()}
    for kind, block in world().frame(0).blocks.items():
        for name in (*block.counter_names, *block.gauge_names):
            assert (kind, name.split("[")[0]) in known, name


def test_counters_only_grow_but_for_wraps_and_restarts():
    days = world()
    before = days.frame(0).blocks["port"]
    for i in range(1, 30):
        now = days.frame(i).blocks["port"]
        both = (before.counters != ABSENT) & (now.counters != ABSENT) & (now.widths[:, None] == 64)
        restarted = days.life.outages.silent(i * 30.0, 1000).any()
        assert restarted or (now.counters[both] >= before.counters[both]).all()
        before = now


def test_samples_are_missing_late_and_repeated():
    days, seen = world(), {"missing": 0, "repeated": 0, "late": 0}
    before = days.frame(0).blocks["port"]
    for i in range(1, 600):
        block = days.frame(i).blocks["port"]
        there = block.t_ns != NO_TIME
        seen["missing"] += np.count_nonzero(~there)
        seen["repeated"] += np.count_nonzero(there & (block.t_ns == before.t_ns))
        seen["late"] += len(np.unique(block.t_ns[there])) > 10
        assert (block.counters[:, ~there] == ABSENT).all()
        assert np.isnan(block.gauges[:, ~there]).all()
        before = block
    assert all(seen.values()), seen


def test_what_is_down_says_so():
    days = world()
    link = int(days.life.outages.link[0])
    t_s = float(days.life.outages.start_s[0]) + 1.0
    moment = days._moment(t_s)

    assert moment.gauges["port"]["oper_up"][2 * link] == 0
    assert moment.counters["port"]["tx_bytes"][2 * link] == 0
    assert days.touched(t_s)[2 * link + 1]
    assert not days.touched(t_s).all()


def test_there_is_a_fault_for_each_detector_and_it_changes_its_entities_only():
    days = World(1.0, 3)
    faults = planted(days)
    names = {f.detector for f in faults}
    ours = {d.about.name for d in engine.detectors_found() if type(d).__module__.startswith("railkeeper.")}
    assert len(names) == len(faults)
    assert names == ours
    clean = days._moment(8 * 3600.0)
    for fault in faults:
        moment = copy.deepcopy(clean)
        moment.t_s = fault.start_s - 1
        fault(moment)
        assert _changed(clean, moment) == {}
        moment.t_s = fault.start_s + 7 * days.tick_s - 1
        for t_s in np.arange(fault.start_s, fault.start_s + 300, days.tick_s):
            moment.t_s = t_s
            fault(moment)
        struck = _changed(clean, moment)
        assert struck or fault.detector == "silent-agents", fault.detector
        if fault.kind == "port":
            both = {e ^ 1 for e in fault.entities} | set(fault.entities)
            assert struck["port"] <= both, fault.detector


def _changed(clean, moment) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for tables, others in ((clean.counters, moment.counters), (clean.gauges, moment.gauges)):
        for kind, columns in tables.items():
            for name, values in columns.items():
                at = np.flatnonzero(~np.isclose(values, others[kind][name], rtol=0, atol=0, equal_nan=True))
                if len(at):
                    found.setdefault(kind, set()).update(at.tolist())
    return found


def test_a_quiet_hour():
    """All detectors, none of which may fail, and hours that they judged."""
    score = quiet_days(0.012, 5, engine.detectors_found(), lambda _: None, fabric=SMALL)

    assert {name: a.examples for name, a in score.items() if a.false} == {}
    assert all(a.entity_hours > 0 for a in score.values())


def test_a_detector_that_fails_is_no_quiet_one():
    class Broken(EcnBalance):
        def judge(self, state, view):
            raise ZeroDivisionError(state, view)

    with pytest.raises(RuntimeError, match="ecn-balance"):
        quiet_days(0.01, 5, [Broken()], lambda _: None, fabric=SMALL)


def test_a_planted_fault_is_told_and_how_soon():
    days = world()
    change = next(f.change for f in planted(World(1.0, 3)) if f.detector == "lossless-drops")
    entities = next(f.entities for f in planted(World(1.0, 3)) if f.detector == "lossless-drops")
    fault = Planted("lossless-drops", "port", entities, 300.0, 900.0, change)

    (told,) = struck_day(days, (fault,), [LosslessDrops(), Srv6NoSid()], lambda _: None, ticks=25)

    assert told.after_s is not None
    assert told.after_s <= 60
