"""Clock offset of nodes: against the middle of all nodes, so that the keeper's own clock is told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, no_hits, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import settled, unread
from railkeeper.health.detect.peers import MIN_PEERS
from railkeeper.health.detect.sparse import union

if TYPE_CHECKING:
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

OFFSET = "clock_offset_s"


@dataclass
class State:
    """Open cases."""

    p: dict[str, float]
    cases: Cases


class ClockOffset:
    """Nodes whose clock is off, and a keeper whose own is."""

    about = About(
        name="clock-offset",
        text="The clock of a node is off: its samples and logs can't be put in order with others'.",
        kinds=("node",),
        needs=(OFFSET,),
        uses=(OFFSET,),
        against=("peers", "limit"),
        parameters={
            "limit_s": (0.1, "s", "offset from the middle of all nodes; NTP holds a few ms, PTP microseconds"),
            "failed_s": (5, "s", "offset from which samples fall into wrong ticks"),
            **PERSISTENCE,
            "need_ticks": (4, "ticks", "hits that open a finding: a slow answer looks like an offset"),
            "persist_s": (60, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (5, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare all nodes with their middle, and the middle with the keeper."""
        offset, blind = view.gauge(OFFSET), unread(view, (OFFSET,))
        known = np.flatnonzero(~blind)
        if offset is None or not len(known):
            return state, tell(state.cases, view, no_hits(), state.p, blind)
        many = len(known) >= MIN_PEERS
        middle = float(np.median(offset[known])) if many else 0.0
        away = np.abs(offset - np.float32(middle))
        ids = np.flatnonzero(away > state.p["limit_s"]).astype(np.int32)
        if abs(middle) > state.p["limit_s"]:  # told once, at the first node that agrees with the middle
            ids = union(ids, known[away[known] <= state.p["limit_s"]][:1])
        hits = Hits(ids, away[ids], lambda i: _say(state.p, float(offset[ids[i]]), middle, many=many))
        return state, tell(state.cases, view, hits, state.p, blind)


def _say(p: dict[str, float], offset: float, middle: float, *, many: bool) -> Said:
    away = abs(offset - middle)
    if away <= p["limit_s"]:
        return Said(
            OFFSET, offset, 0.0, "s", "limit", 0.9,
            (f"the middle of all nodes is {middle:+.3g} s from the keeper, as is this one: the keeper's clock is off",),
        )  # fmt: skip
    against = "peers" if many else "limit"
    return Said(
        OFFSET, offset, middle, "s", against, 0.9 if many else 0.6,
        (
            f"its clock is {offset:+.3g} s from the keeper's, the middle of all nodes {middle:+.3g} s",
            "its time service has lost its source, or was never started; times in its logs and samples are off by that",
        ),
        V_FAILED if away >= p["failed_s"] else V_DEGRADED,
    )  # fmt: skip
