"""What holds for every detector that is installed: no data is never health, and the same frames give the same answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railkeeper.app.bench_fleet import Fleet
from railkeeper.app.bench_tick_faults import ten_faults
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.detect import engine
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, V_OK
from railkeeper.telemetry.frame import ABSENT, NO_TIME, Frame

SPEC = (
    "[fabric]\nplanes = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 16\nnics_per_node = 4\nlink_gbps = 100\n"
)
DETECTORS = engine.detectors_found()


def ids(detectors):
    return [d.about.name for d in detectors]


def fleet():
    made = Fleet(Fabric(parse_spec(SPEC)), 15.0)
    made.harms = [fault.harm for fault in ten_faults(made)]
    return made


def copied(frame):
    blocks = {
        kind: replace(b, counters=b.counters.copy(), gauges=b.gauges.copy(), t_ns=b.t_ns.copy())
        for kind, b in frame.blocks.items()
    }
    return Frame(frame.t_s, blocks)


def silenced(frame):
    """The frame as it is when nothing could be read."""
    blocks = {
        kind: replace(
            b, counters=np.full_like(b.counters, ABSENT), gauges=np.full_like(b.gauges, np.nan),
            t_ns=np.full_like(b.t_ns, NO_TIME),
        )
        for kind, b in frame.blocks.items()
    }  # fmt: skip
    return Frame(frame.t_s, blocks)


def run(detectors, frames, made):
    state = engine.new(detectors, made.entities, tick_s=15.0)
    said = []
    for frame in frames:
        state, judged = engine.tick(state, frame)
        said.append({key: (j.findings, j.verdicts.copy(), j.error) for key, j in judged.items()})
    return said


MADE = fleet()
FRAMES = [copied(MADE.tick()) for _ in range(26)]


@pytest.fixture(scope="module")
def said():
    return run(engine.detectors_found(), [*FRAMES, silenced(FRAMES[-1])], MADE)


def test_the_same_frames_give_the_same_answers(said):
    for a, b in zip(said, run(engine.detectors_found(), FRAMES, MADE), strict=False):
        assert a.keys() == b.keys()
        for key in a:
            assert repr(a[key][0]) == repr(b[key][0])
            assert (a[key][1] == b[key][1]).all()
            assert a[key][2] == b[key][2] == ""


def test_silence_after_a_fault_does_not_heal_at_once(said):
    for key, (_, verdicts, _) in said[-2].items():
        bad = np.flatnonzero(np.isin(verdicts, (V_DEGRADED, V_FAILED)))
        assert (said[-1][key][1][bad] != V_OK).all(), key
    assert any(findings for findings, _, _ in said[-2].values())


@pytest.mark.parametrize("detector", DETECTORS, ids=ids(DETECTORS))
@pytest.mark.parametrize("blind", [silenced, lambda frame: Frame(frame.t_s, {})], ids=["nothing read", "no columns"])
def test_no_data_is_never_health(detector, blind):
    for said in run([detector], [blind(f) for f in FRAMES[:3]], MADE):
        for key, (_, verdicts, error) in said.items():
            assert not error, key
            assert not (verdicts == V_OK).any(), key
