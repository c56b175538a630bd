"""Slow port: a link that runs below its peers, or below what it once ran at: lanes lost, or negotiated down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, no_hits, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.ends import HALF
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.peers import quantiles
from railkeeper.health.detect.slices import Turns

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

SPEED = "speed_gbps"
# Speeds come in steps; a few hundredths below are rounding.
STEP = np.float32(0.97)


@dataclass
class State:
    """By port, learnt in parts since speeds change seldom: the fastest it ran, and under which speed it is slow.

    usual: (n_groups,) the speed at which nearly all of a group run; NaN where they do not agree
    """

    p: dict[str, float]
    cases: Cases
    turns: Turns
    best: Floats
    least: Floats
    usual: Floats


class PortSpeed:
    """Ports slower than peers that all agree, than the other end, or than themselves before."""

    about = About(
        name="port-speed",
        text="A port runs slower than its peers, its other end, or itself before.",
        kinds=("port",),
        needs=(SPEED,),
        uses=(SPEED, "oper_up", "admin_up"),
        against=("peers", "past"),
        parameters={
            "agree_share": (0.9, "ratio", "share of peers that have to run at one speed for it to be the usual one"),
            "failed_share": (0.25, "ratio", "share of the usual speed from which down the port has failed"),
            **PERSISTENCE,
            "need_ticks": (3, "ticks", PERSISTENCE["need_ticks"][2]),
            "persist_s": (45, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (4, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        n, unknown = len(entities), np.float32(np.nan)
        return State(
            settled(self.about, parameters), cases(self.about, entities), Turns(n), np.full(n, unknown),
            np.full(n, unknown), np.full(entities.n_groups, unknown),
        )  # fmt: skip

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare speeds with those of peers, and with the best of each port before."""
        speed, blind = view.gauge(SPEED), unread(view, (SPEED,))
        if speed is None:
            return state, tell(state.cases, view, no_hits(), state.p, blind)
        _learn(state, view, speed)
        ids = _one_end(view, np.flatnonzero(speed < state.least).astype(np.int32))
        want = _want(state, view, ids)
        hits = Hits(ids, want / speed[ids], lambda i: _say(state, view, int(ids[i]), float(want[i])))
        return state, tell(state.cases, view, hits, state.p, blind)


def _learn(state: State, view: View, speed: Floats) -> None:
    """Renew, for the part whose turn it is, the best and the least; and at the begin of a round what is usual."""
    if state.turns.part == 0:
        state.usual = _usual(state.p, view, speed)
    here = slice(*state.turns.bounds())
    state.turns.turn += 1
    state.best[here] = np.fmax(state.best[here], np.where(speed[here] > 0, speed[here], np.float32(np.nan)))
    usual = state.usual[view.entities.group[here]]
    state.least[here] = np.where(np.isnan(usual), state.best[here], usual) * STEP


def _usual(p: dict[str, float], view: View, speed: Floats) -> Floats:
    """Quantiles of a histogram are exact to a hundredth only, and so is what they agree on."""
    low, middle, high = quantiles(view, speed, (1 - p["agree_share"], 0.5, p["agree_share"]))
    agree = (low > middle * np.float32(0.97)) & (high < middle * np.float32(1.03))
    return np.where(agree, middle, np.float32(np.nan)).astype(np.float32)


def _one_end(view: View, ids: Ids) -> Ids:
    """Keep the lower end of each slow link, and no link that is down."""
    ids = ids[~(at(view, "oper_up", ids) < HALF) & (at(view, SPEED, ids) > 0)]
    other = view.entities.other[ids]
    return ids[~((other >= 0) & (other < ids) & np.isin(other, ids))]


def _want(state: State, view: View, ids: Ids) -> Floats:
    usual = state.usual[view.entities.group[ids]]
    return np.where(np.isnan(usual), state.best[ids], usual)


def _say(state: State, view: View, port: int, want: float) -> Said:
    e, other = view.entities, int(view.entities.other[port])
    speed, there = at(view, SPEED, np.array([port, other], dtype=np.int32)).tolist()
    peers = bool(np.isfinite(state.usual[e.group[port]]))
    of = f"{state.p['agree_share']:.0%} of its peers run" if peers else "it has run, and its peers do not agree,"
    name = e.name_of(other) if other >= 0 else "the other end"
    return Said(
        SPEED, speed, want, "Gb/s", "peers" if peers else "past", 0.95 if peers else 0.8,
        (
            f"runs at {speed:g} Gb/s, where {of} at {want:.4g} Gb/s",
            _other_end(name, speed, there),
            f"at {speed / want:.0%}: lanes are lost, or the ends settled for less",
        ),
        V_FAILED if speed <= state.p["failed_share"] * want else V_DEGRADED, () if other < 0 else (other,),
    )  # fmt: skip


def _other_end(name: str, here: float, there: float) -> str:
    if np.isnan(there):
        return f"{name} does not say its speed"
    if there > here * 1.01:
        return f"the ends disagree: {name} says {there:g} Gb/s"
    return f"{name} runs at {there:g} Gb/s too"
