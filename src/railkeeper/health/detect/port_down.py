"""Port down: down although switched on; what the other end says decides which of several stories it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import Cases, Hits, Said, cases, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.ends import HALF, low, switched_off
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, V_SKIPPED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.sparse import union
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]


@dataclass
class State:
    """Ports that are down, and since when each was."""

    p: dict[str, float]
    cases: Cases
    ids: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    since_s: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


class PortDown:
    """Links that are down though nobody switched them off, and ends that disagree."""

    about = About(
        name="port-down",
        text="A port is down although it is switched on; or the two ends of a link disagree.",
        kinds=("port",),
        needs=("oper_up",),
        uses=("oper_up", "admin_up"),
        against=("peers", "limit"),
        parameters={
            "down_s": (240, "s", "how long a port has to be down; others wait 4 minutes, which outlives most restarts"),
            "disagree_s": (60, "s", "how long one end has to be down while the other says that it is up"),
            "hold_s": (0, "s", "a finding closes as soon as the port is up"),
            "need_ticks": (1, "ticks", "hits that open a finding: the time is persistence enough"),
            "of_ticks": (1, "ticks", "the hits have to be among so many last ticks"),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge ports that are down, one finding a link."""
        down = low(view, "oper_up")
        off = switched_off(view, down)
        _follow(state, view, down[~off])
        there = at(view, "oper_up", view.entities.other[state.ids])
        for_s = view.now_s - state.since_s
        late = for_s >= np.where(there > HALF, state.p["disagree_s"], state.p["down_s"])
        # One finding a link: that of the lower end, if that end is down and seen.
        lower = view.entities.other[state.ids]
        twin = (lower >= 0) & (lower < state.ids) & np.isin(lower, state.ids[late])
        blind = unread(view, ("oper_up",))
        keep = late & ~twin & ~blind[state.ids]
        ids, since = state.ids[keep], state.since_s[keep]
        hits = Hits(ids, (view.now_s - since).astype(np.float32), lambda i: _say(view, int(ids[i]), float(since[i])))
        judged = tell(state.cases, view, hits, state.p, blind)
        judged.verdicts[down[off]] = V_SKIPPED
        return state, judged


def _follow(state: State, view: View, down: Ids) -> None:
    """Keep since when: of those that are silent now, what was known stays."""
    silent = state.ids[np.isnan(at(view, "oper_up", state.ids))]
    ids = union(down, silent)
    since = np.full(len(ids), view.now_s)
    held = np.isin(ids, state.ids)
    since[held] = state.since_s[np.searchsorted(state.ids, ids[held])]
    state.ids, state.since_s = ids, since


def _say(view: View, port: int, since_s: float) -> Said:
    e, other = view.entities, int(view.entities.other[port])
    ends = np.array([port, other], dtype=np.int32)
    oper, admin = at(view, "oper_up", ends), at(view, "admin_up", ends)
    seconds = view.now_s - since_s
    there = e.name_of(other) if other >= 0 else "the other end"
    story, sure = _story(e, other, float(oper[1]))
    on = "switched on" if admin[0] > HALF else "not known to be switched off"
    # Half sure when nobody knows what was meant.
    known = np.isfinite(admin).mean() if other >= 0 else np.isfinite(admin[:1]).mean()
    return Said(
        "oper_up", 0.0, 1.0, "bool", "peers" if oper[1] > HALF else "limit", sure * (0.5 + 0.5 * float(known)),
        (f"down for {seconds:.0f} s, {on}", story.format(there=there)),
        V_FAILED if np.isfinite(oper[1]) or other < 0 else V_DEGRADED, () if other < 0 else (other,), since_s,
    )  # fmt: skip


def _story(e: Entities, other: int, there: float) -> tuple[str, float]:
    if other < 0:
        return "its other end is unknown", 0.6
    if there > HALF:
        return "the ends disagree: {there} says that it is up: one direction is dead, or its state is stale", 0.9
    if there <= HALF:
        return "{there} is down too, and switched off by nobody: cable, module, or either port", 0.9
    if e.role[other] == NIC_END:
        return "{there} says nothing: the host or its NIC may be off, or its agent; look there first", 0.6
    return "{there} says nothing: the switch there may be off or restarting; look there first", 0.6
