"""Link flap: a link that goes down again and again, by the counters and states of both ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.ends import Carriers, Changes, changes, link_of
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.poisson import surprise
from railkeeper.health.detect.sparse import peer_quantile

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]


@dataclass
class State:
    """Falls of links in the window: by link (its lower end), when, how often, and at which ends they were seen."""

    p: dict[str, float]
    cases: Cases
    carriers: Carriers = field(default_factory=Carriers)
    links: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    at_s: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    times: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class LinkFlap:
    """Links that fell more often than their peers, and than `falls`, within the window."""

    about = About(
        name="link-flap",
        text="A link goes down again and again.",
        kinds=("port",),
        needs=(),
        uses=("link_downs", "oper_up", "admin_up"),
        against=("peers", "limit"),
        parameters={
            "falls": (3, "times", "falls of one link within the window that are a flap; others use 3 too"),
            "failed_falls": (10, "times", "falls within the window from which the link has failed"),
            "window_s": (3600, "s", "how far back falls count; others use 1 h and 12 h"),
            "usual_falls": (0.01, "times", "falls in the window that a link may be expected to have: one in four days"),
            "surprise": (6, "-log10 p", "how unlikely so many falls have to be at the rate of the peers"),
            "hold_s": (900, "s", "a flap stays open so long after the falls have left the window"),
            "need_ticks": (1, "ticks", "hits that open a finding: the window is persistence enough"),
            "of_ticks": (1, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Add the falls of this tick, forget old ones, and judge the links that fell often enough."""
        _log(state, view, changes(state.carriers, view))
        blind = unread(view, ("link_downs", "oper_up"))
        links, totals = _totals(state)
        often = totals >= state.p["falls"]
        usual = peer_quantile(view.entities, links, totals, 0.5)[view.entities.group[links]]
        hit = often & (surprise(totals, np.maximum(usual, state.p["usual_falls"])) >= state.p["surprise"])
        ids, falls, peers = links[hit], totals[hit], usual[hit]
        # A link is judged from either end: it is dark when neither says anything.
        other = view.entities.other[ids]
        ids = np.where(blind[ids] & (other >= 0), other, ids).astype(np.int32)
        hits = Hits(ids, falls.astype(np.float32), lambda i: _say(state, view, int(ids[i]), int(falls[i]), peers[i]))
        return state, tell(state.cases, view, hits, state.p, blind)


def _log(state: State, view: View, now: Changes) -> None:
    """One fall is seen at both ends: a link fell as often as the end that saw more."""
    every = link_of(view.entities, now.fell)
    links, place = np.unique(every, return_inverse=True)
    times = np.zeros(len(links), dtype=np.int64)
    np.maximum.at(times, place, now.times)
    # The other end may tell the same fall a tick later.
    again = np.isin(links, state.links[state.at_s >= view.now_s - 1.5 * view.tick_s]) & (times == 1)
    state.links = np.concatenate([state.links, links[~again]])
    state.at_s = np.concatenate([state.at_s, np.full(int((~again).sum()), view.now_s)])
    state.times = np.concatenate([state.times, times[~again]])
    stays = state.at_s > view.now_s - state.p["window_s"]
    state.links, state.at_s, state.times = state.links[stays], state.at_s[stays], state.times[stays]


def _totals(state: State) -> tuple[Ids, npt.NDArray[np.int64]]:
    links, place = np.unique(state.links, return_inverse=True)
    totals = np.zeros(len(links), dtype=np.int64)
    np.add.at(totals, place, state.times)
    return links.astype(np.int32), totals


def _say(state: State, view: View, port: int, falls: int, usual: float) -> Said:
    e, other = view.entities, int(view.entities.other[port])
    minutes = state.p["window_s"] / 60
    ends = np.array([port, other], dtype=np.int32)
    up = ["up" if x > 0.5 else "down" if x <= 0.5 else "unknown" for x in at(view, "oper_up", ends)]
    there = e.name_of(other) if other >= 0 else "the other end"
    mine = state.at_s[state.links == min(port, other if other >= 0 else port)]
    gaps = f"; the last {view.now_s - mine.max():.0f} s ago" if len(mine) else ""
    return Said(
        "link_downs", falls, float(usual), "times", "peers",
        min(0.99, 0.6 + 0.05 * falls),
        (
            f"went down {falls} times in {minutes:.0f} minutes, switched off by nobody{gaps}",
            f"half of its peers: at most {usual:.2g} times; allowed below {state.p['falls']:.0f}",
            f"now {up[0]} here and {up[1]} at {there}",
        ),
        V_FAILED if falls >= state.p["failed_falls"] else V_DEGRADED, () if other < 0 else (other,),
    )  # fmt: skip
