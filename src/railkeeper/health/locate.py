"""The locator: from one tick's evidence and what is known so far to the faults of the fabric.

`judge` is a function of state and observation: no clock, no file, no chance. The same observations give the same
faults. It takes its state over and returns the next one.
"""

from __future__ import annotations

import numpy as np

from railkeeper.health.carriers import read_carriers
from railkeeper.health.evidence import TickRows, tick_rows
from railkeeper.health.fault import Fault, LocatorConfig, Observation
from railkeeper.health.gradual import judge_delay, judge_slow
from railkeeper.health.hard import judge_hard
from railkeeper.health.hiccups import forget_hiccups
from railkeeper.health.losses import judge_losses
from railkeeper.health.presence import judge_presence, tell_away
from railkeeper.health.seeds import seed_state
from railkeeper.health.state import LocatorState, new_state
from railkeeper.health.track import CORRUPT, HARD, LOSS, SLOW, to_fault

__all__ = ["Fault", "LocatorConfig", "LocatorState", "Observation", "judge", "new_state", "seed_state"]


def judge(state: LocatorState, observation: Observation) -> tuple[LocatorState, tuple[Fault, ...]]:
    """Return the next state and the faults of this tick: the open ones, and those cleared in it."""
    s, obs = state, observation
    s.tick = obs.tick
    s.ticks_seen += 1
    s.drop_stale()
    returned = judge_presence(s, obs.silent)
    newly = read_carriers(s.carriers, obs.ports, obs.tick)
    t = tick_rows(s.rows, obs, returned | set(obs.unclean))
    s.refresh_table()
    judge_hard(s, t, obs.ports, newly)
    _take_in(s, t)
    forget_hiccups(s.rows, s.loss)
    judge_slow(s)
    judge_delay(s)
    judge_losses(s, LOSS, s.loss)
    judge_losses(s, CORRUPT, s.corrupt)
    tell_away(s)
    s.previous = t
    return s, tuple(to_fault(s.fabric, f) for f in s.faults)


def _take_in(s: LocatorState, t: TickRows) -> None:
    """Add the tick to the evidence, without what crosses parts whose state explains any loss."""
    row = np.arange(len(s.rows))
    dead = _explained(s, HARD)
    slow = dead | _explained(s, SLOW)
    lost = t.sent - t.received - t.corrupt
    arrived = t.received + t.corrupt
    s.loss.n.push(len(row), row, np.where(slow, 0, t.sent))
    s.loss.x.push(len(row), row, np.where(slow, 0, lost))
    s.corrupt.n.push(len(row), row, np.where(dead, 0, arrived))
    s.corrupt.x.push(len(row), row, np.where(dead, 0, t.corrupt))
    s.delays.push(len(row), row, t.delay_ms)
    s.trains.push(len(row), row, t.train_bps)


def _explained(s: LocatorState, family: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    out = np.zeros(len(s.rows), dtype=bool)
    for f in s.live(family):
        out[s.rows_of(f.part)] = True
    links = s.carriers.pending
    if family == HARD and links.any():
        out |= (links[s.rows.crossed // 2] & (s.rows.crossed >= 0)).any(axis=1)
    return out
