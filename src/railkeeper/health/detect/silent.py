"""Silent agents: entities of which no fresh sample has come for several intervals. Silence is never health."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_NO_DATA, Judged
from railkeeper.health.detect.known import settled
from railkeeper.telemetry.frame import NO_TIME

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Mask = npt.NDArray[np.bool_]

NS = 1e9


@dataclass
class State:
    """Who was ever heard, and who is not heard now: since when (unix s of the last sample, as far as known)."""

    p: dict[str, float]
    cases: Cases
    heard: Mask
    ids: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    since_s: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


class SilentAgents:
    """Entities that were heard and are not any more, or that nearly all peers of are heard."""

    about = About(
        name="silent-agents",
        text="No fresh sample of an entity for several intervals.",
        kinds=("port", "nic", "node", "switch"),
        needs=(),
        uses=(),
        against=("peers", "past"),
        parameters={
            "intervals": (4, "ticks", "so many ticks without a sample are silence"),
            "least_s": (180, "s", "and so many seconds, so that slow polls and quick restarts are not told"),
            "peers_share": (0.9, "ratio", "share of the peers that have to be heard for one never heard to be told"),
            "need_ticks": (1, "ticks", "hits that open a finding: the time is persistence enough"),
            "of_ticks": (1, "ticks", PERSISTENCE["of_ticks"][2]),
            "hold_s": (0, "s", "a finding closes with the first fresh sample"),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        heard = np.zeros(len(entities), dtype=np.bool_)
        return State(settled(self.about, parameters), cases(self.about, entities), heard)

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Follow who is not heard, and tell who is silent for too long."""
        allowed_s = max(state.p["intervals"] * view.tick_s, state.p["least_s"])
        # One comparison finds those without a sample (the least of all times) and those whose sample is old.
        stale = view.block.t_ns < int((view.now_s - 1.5 * view.tick_s) * NS)
        _follow(state, view, np.flatnonzero(stale).astype(np.int32))
        np.logical_or(state.heard, ~stale, out=state.heard)
        late = view.now_s - state.since_s >= allowed_s
        ids = state.ids[late & (state.heard[state.ids] | _odd(state, view))]
        since = state.since_s[np.searchsorted(state.ids, ids)]
        lengths = (view.now_s - since).astype(np.float32)
        hits = Hits(ids, lengths, lambda i: _say(state, view, int(ids[i]), float(since[i]), allowed_s))
        judged = tell(state.cases, view, hits, state.p, np.zeros(len(stale), dtype=np.bool_))
        judged.verdicts[stale] = V_NO_DATA
        return state, judged


def _follow(state: State, view: View, ids: Ids) -> None:
    t_ns = view.block.t_ns[ids]
    since = np.where(t_ns == NO_TIME, view.now_s - view.tick_s, t_ns / NS)
    if len(state.ids) and len(ids):
        place = np.minimum(np.searchsorted(state.ids, ids), len(state.ids) - 1)
        held = (state.ids[place] == ids) & (t_ns == NO_TIME)
        since[held] = state.since_s[place[held]]
    state.ids, state.since_s = ids, since


def _odd(state: State, view: View) -> Mask:
    """Return (m,) True where nearly all peers of an entity that was never heard are heard."""
    e = view.entities
    group = e.group[state.ids]
    never = np.bincount(group[~state.heard[state.ids]], minlength=e.n_groups)
    share = 1 - never / np.maximum(e.group_size, 1)
    odd: Mask = share[group] >= state.p["peers_share"]
    return odd


def _say(state: State, view: View, entity: int, since_s: float, allowed_s: float) -> Said:
    e = view.entities
    seconds = view.now_s - since_s
    group = e.group[entity]
    silent = int((e.group[state.ids] == group).sum())
    heard = 1 - silent / max(int(e.group_size[group]), 1)
    once = bool(state.heard[entity])
    return Said(
        "sample age", seconds, allowed_s, "s", "past" if once else "peers", 0.95 if heard >= 0.5 else 0.6,
        (
            f"no fresh sample for {seconds:.0f} s" if once else "never heard, unlike nearly all of its peers",
            f"{heard:.0%} of its peers are heard" + ("" if heard >= 0.5 else ": look at the source or collector first"),
            "its agent, its management network or the thing itself is down; nothing is known of it until it speaks",
        ),
        V_NO_DATA, since_s=since_s,
    )  # fmt: skip
