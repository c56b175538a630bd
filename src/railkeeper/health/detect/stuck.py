"""Stuck counters: a value that stands while its siblings, or the other end of the link, show that it must move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.judging import number
from railkeeper.health.detect.known import settled, unread
from railkeeper.health.detect.slices import Rounds, part_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

TRAFFIC = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
# What stands, and what shows that it must move: at this end, or (first True) at the other.
PAIRS = (
    (False, "rx_packets", "rx_bytes"),
    (False, "tx_packets", "tx_bytes"),
    (False, "rx_bytes", "rx_packets"),
    (False, "tx_bytes", "tx_packets"),
    (True, "tx_bytes", "rx_bytes"),
    (True, "rx_bytes", "tx_bytes"),
)


@dataclass
class State:
    """Open cases, and whose turn it is."""

    p: dict[str, float]
    cases: Cases
    rounds: Rounds


class StuckCounters:
    """Counters that stand while others show traffic."""

    about = About(
        name="stuck-counters",
        text="A counter stands while its siblings or the other end show traffic.",
        kinds=("port",),
        needs=(),
        uses=TRAFFIC,
        against=("peers", "limit"),
        parameters={
            "busy_bytes_per_s": (1e6, "bytes/s", "traffic at which a standing counter is told"),
            "busy_packets_per_s": (1000, "1/s", "the same in packets"),
            **PERSISTENCE,
            "need_ticks": (3, "ticks", "hits that open a finding: ends are not sampled at the same moment"),
            "persist_s": (45, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (3, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities), Rounds(len(entities)))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge the part whose turn it is."""
        part, (start, end) = part_of(view, state.rounds.turns), state.rounds.turns.bounds()
        stands = {pair: _stands(state.p, view, pair, (start, end)) for pair in PAIRS}
        found = [ids for ids in stands.values() if len(ids)]
        ids = np.unique(np.concatenate(found)).astype(np.int32) if found else np.empty(0, dtype=np.int32)
        hits = Hits(ids, np.ones(len(ids), dtype=np.float32), lambda i: _say(view, stands, int(ids[i])))
        return state, state.rounds.tell(state.cases, view, hits, state.p, unread(part, TRAFFIC))


def _stands(p: dict[str, float], view: View, pair: tuple[bool, str, str], bounds: tuple[int, int]) -> Ids:
    """Return ids of the whole view at which the first counter stands and the second one moves."""
    far, still_name, moves_name = pair
    still, moves = view.rate(still_name), view.rate(moves_name)
    if still is None or moves is None:
        return np.empty(0, dtype=np.int32)
    here = slice(*bounds)
    limit = p["busy_bytes_per_s"] if moves_name.endswith("bytes") else p["busy_packets_per_s"]
    zero: Ids = (np.flatnonzero(still[here] == 0) + bounds[0]).astype(np.int32)
    asked = view.entities.other[zero] if far else zero
    moving = (asked >= 0) & (moves[np.maximum(asked, 0)] > limit)
    found: Ids = zero[moving]
    return found


def _say(view: View, stands: dict[tuple[bool, str, str], Ids], port: int) -> Said:
    mine = [pair for pair, ids in stands.items() if port in ids]
    far, still, moves = mine[0]
    e, other = view.entities, int(view.entities.other[port])
    rate = view.rate(moves)
    assert rate is not None
    value = float(rate[other if far else port])
    every = all(x[port] == 0 for name in TRAFFIC if (x := view.rate(name)) is not None)
    lines = [f"{still} stands, while {moves} {f'of {e.name_of(other)} ' if far else ''}is {number(value)}/s"]
    if every:
        lines.append("every counter of its traffic stands though its samples are fresh: a frozen agent or driver")
    if far and still == "rx_bytes":
        lines.append("or nothing that is sent arrives: then the link swallows it, though it is up")
    lines.append("what other detectors say of this port rests on counters that may not count")
    unit = "bytes/s" if moves.endswith("bytes") else "1/s"
    return Said(still, 0.0, value, unit, "peers" if far else "limit", 0.8, tuple(lines), others=(other,) if far else ())
