"""Compiles what detectors need before the first tick: else the first frame of a new installation holds up the ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.app.detecting import begin_detecting, detect, entities_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.telemetry.frame import Block, Frame
from railkeeper.telemetry.signals import catalogue

if TYPE_CHECKING:
    from railkeeper.telemetry.entities import Entities

# Enough peers for every comparison, and nothing more.
SHAPE = {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 2, "nics_per_t0": 8}
FRAMES = 3


def warm_up() -> None:
    """Let all detectors judge a few frames of a small fabric; what is compiled is kept for the next time."""
    state = begin_detecting(entities_of(Fabric(check_spec({"fabric": SHAPE}))), {}, 10.0)
    for number in range(1, FRAMES + 1):
        blocks = {kind: _block(e, number) for kind, e in state.entities.items()}
        detect(state, Frame(1000.0 + 10 * number, blocks))


def _block(entities: Entities, number: int) -> Block:
    """Return a frame in which every signal of a kind moves, each entity a little differently."""
    n = len(entities)
    signals = [s for s in catalogue() if s.entity == entities.kind]
    counters = tuple(s.column("3" if s.parts else "") for s in signals if s.kind == "counter")
    gauges = tuple(s.column("3" if s.parts else "") for s in signals if s.kind != "counter")
    each = np.arange(n, dtype=np.uint64) + np.uint64(1)
    return Block(
        entities, np.full(n, (1000 + 10 * number) * 10**9), counters, np.full(len(counters), 64, dtype=np.uint8),
        np.tile(each * np.uint64(1000 * number), (len(counters), 1)), gauges,
        np.tile(each.astype(np.float32), (len(gauges), 1)),
    )  # fmt: skip
