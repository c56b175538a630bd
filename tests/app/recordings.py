"""A small recording, made once for all tests that read one."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from synthetic_world import SynthWorld, event, make_fabric

from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Setup
from railkeeper.app.recording import Recorder
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.responder import ResponseState

FABRIC = make_fabric()
SETUP = Setup(FABRIC, "lab", limits=Limits(dry_run=False, frozen=((1.0, 2.0),)))
TICKS = 24


def record(path, *, ticks=TICKS, setup=SETUP, response=None, notes=True):
    """Write a recording of a keeper's run over a lossy link; return the keeper and its events."""
    world = SynthWorld(FABRIC, [event(FABRIC, 4, 90, kind="loss", target="p0/t0-1--p0/t1-2", rate=0.2)], ticks=ticks)
    response = response or ResponseState()
    recorder, events = Recorder(path, setup, response), []
    keeper = Keeper(setup, world, response=response, recorder=recorder)

    def watch(state, outcome):
        events.extend(outcome.events)
        if notes and state.ticks == 3:
            recorder.note("something was broken ✂", outcome.t_s)
        return True

    keeper.run(watch)
    recorder.close()
    return keeper, events


@functools.cache
def recorded():
    """The bytes of the recording."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.rkrec"
        record(path)
        return path.read_bytes()
