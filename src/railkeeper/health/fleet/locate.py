"""The locator for fleets: from one tick's evidence of millions of paths, and what is known so far, to the faults.

Same questions and answers as `health.locate`; other means. Every row is looked at once in each tick; what is odd is
put on the parts that it crosses; only the neighbourhood of parts that stand out is reasoned about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.health.fleet.follow import follow_losses, follow_new_rows
from railkeeper.health.fleet.gradual import judge_delay, judge_slow
from railkeeper.health.fleet.losses import judge_losses
from railkeeper.health.fleet.scan_kernels import DAMAGED, LATE, LOST, ODD, SLOW, select
from railkeeper.health.fleet.seeds import seed_fleet, take_up
from railkeeper.health.fleet.state import FleetLocator, new_fleet
from railkeeper.health.fleet.take import learn, take_in, wrong_now
from railkeeper.health.presence import judge_presence, tell_away
from railkeeper.health.track import CORRUPT, LOSS

if TYPE_CHECKING:
    from railkeeper.health.fault import Fault, Observation
    from railkeeper.health.fleet.state import Columns, Memory

__all__ = ["FleetLocator", "judge_fleet", "new_fleet", "seed_fleet"]


def judge_fleet(state: FleetLocator, observation: Observation) -> tuple[FleetLocator, tuple[Fault, ...]]:
    """Return the next state and the faults of this tick: the open ones, and those cleared in it.

    A function of its arguments: no clock, no file, no chance. It takes the state over.
    """
    s, obs = state, observation
    s.tick = obs.tick
    s.drop_stale()
    returned = judge_presence(s, obs.silent)
    if len(obs.stats) or s.memory is not None:
        columns = take_in(s, obs, returned | set(obs.unclean))
        assert s.memory is not None
        take_up(s, s.memory)
        if s.grown:
            follow_new_rows(s, s.memory)
            s.grown = False
        _judge_rows(s, s.memory, columns, obs)
    tell_away(s)
    s.ticks_seen += 1
    return s, s.answer()


def _judge_rows(s: FleetLocator, m: Memory, columns: Columns, obs: Observation) -> None:
    odd = select(m.verdict, ODD)
    bits = m.verdict[odd]
    follow_losses(s, m, columns)
    judge_slow(s, m, columns, odd[bits & SLOW != 0])
    judge_delay(s, m, odd[bits & LATE != 0])
    for family, bit in ((LOSS, LOST), (CORRUPT, DAMAGED)):
        rows = odd[bits & bit != 0]
        x = wrong_now(columns, family, rows).astype("int32")
        learn(s, family, rows, x)
        judge_losses(s, m, family, columns, wrong=(rows, x), ports=obs.ports)
