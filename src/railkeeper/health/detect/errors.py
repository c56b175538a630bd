"""Error rates of ports: checksums, symbols, any errors, retrains; which end, or from upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Hits, Said, cases, tell
from railkeeper.health.detect.counted import (
    CHANCE,
    CountedState,
    Rule,
    Suspects,
    against,
    confidence,
    lines,
    merge,
)
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.together import owner_name
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

SIGNALS = ("rx_crc_errors", "rx_symbol_errors", "rx_errors", "tx_errors", "icrc_errors", "link_recoveries")
# A switch that cuts through passes a damaged frame on: it counts at every port on its way.
STOMPED = ("rx_crc_errors", "rx_errors")
Found = dict[int, list[tuple[Suspects, int]]]


class ErrorRates:
    """Errors beyond chance, peers and the floor of a good link."""

    about = About(
        name="error-rates",
        text="Checksum, symbol and other errors of a port, retrains of a link.",
        kinds=("port",),
        needs=(),
        uses=(*SIGNALS, "rx_packets", "tx_packets", "fec_uncorrected_codewords"),
        against=("peers", "limit"),
        parameters={
            "floor_per_s": (
                1e-3,
                "1/s",
                "errors that every port may have; one in a quarter of an hour, ten times what good optics do",
            ),
            "floor_ratio": (
                1e-10,
                "ratio",
                "errors per packet that every port may have (a good link after FEC has fewer than 1e-11)",
            ),
            "symbol_floor_per_s": (10, "1/s", "symbol errors that every port may have; others warn from 10/s"),
            "retrain_floor_per_s": (5 / 60, "1/s", "retrains that every link may have; others warn from 5 a minute"),
            "failed_ratio": (1e-3, "ratio", "share of damaged packets from which a port has failed"),
            **CHANCE,
            **PERSISTENCE,
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> CountedState:
        """Return the state before the first tick."""
        return CountedState(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: CountedState, view: View) -> tuple[CountedState, Judged]:
        """Judge each counter of errors that the frame has."""
        every = [s for r in _rules(state.p) if (s := state.suspects(view, r)) is not None]
        ids, worst, found = merge(every)
        hits = Hits(ids, worst, lambda i: _say(state, view, found, int(ids[i])))
        return state, tell(state.cases, view, hits, state.p, unread(view, SIGNALS))


def _rules(p: dict[str, float]) -> tuple[Rule, ...]:
    floor, ratio = p["floor_per_s"], p["floor_ratio"]
    return (
        Rule("rx_crc_errors", "rx_packets", floor, ratio, 0, "frames"),
        Rule("rx_symbol_errors", "", p["symbol_floor_per_s"], 0, 0, "symbols"),
        Rule("rx_errors", "rx_packets", floor, ratio, 0, "packets"),
        Rule("tx_errors", "tx_packets", floor, ratio, 0, "packets"),
        Rule("icrc_errors", "rx_packets", floor, ratio, 0, "packets"),
        Rule("link_recoveries", "", p["retrain_floor_per_s"], 0, 0, "times"),
    )


def _say(state: CountedState, view: View, found: Found, entity: int) -> Said:
    """Blame by direction: damage on arrival is of the link or of the far transmitter, unless it came from upstream."""
    (s, k), more = found[entity][0], found[entity][1:]
    source = _upstream(view, s, k)
    failed = bool(s.ratio[k] >= state.p["failed_ratio"]) and source is None
    words = _direction(view, s, entity, found) if source is None else _from_afar(view, source)
    rest = tuple(line for other, j in more for line in lines(other, j)[:1])
    return Said(
        s.rule.signal, float(s.per_s[k]), float(s.allowed_per_s[k]), f"{s.rule.unit}/s", against(s, k),
        confidence(s, k) * (0.5 if source is not None else 1.0), (*lines(s, k)[:1], words, *lines(s, k)[1:], *rest),
        V_FAILED if failed else V_DEGRADED, () if source is None else (source,),
    )  # fmt: skip


def _upstream(view: View, s: Suspects, k: int) -> int | None:
    """Return the port at which the damage entered the switch that sends to this one, if it shows as much there.

    Damage that FEC of this very link could not repair is the link's own.
    """
    e, entity = view.entities, int(s.ids[k])
    far = int(e.other[entity])
    if s.rule.signal not in STOMPED or far < 0 or e.owner[far] < 0 or e.role[far] == NIC_END:
        return None  # a NIC passes nothing on
    if at(view, "fec_uncorrected_codewords", s.ids[k : k + 1])[0] > 0:
        return None
    same = (e.owner[s.ids] == e.owner[far]) & (e.role[s.ids] != NIC_END)
    enough = np.flatnonzero(same & s.hit & (s.ids != far) & (s.per_s >= s.per_s[k]))
    return int(s.ids[enough[np.argmax(s.per_s[enough])]]) if len(enough) else None


def _from_afar(view: View, source: int) -> str:
    return (
        f"the switch that sends to it receives as much damage at {view.entities.name_of(source)}: "
        "passed on from there, this link may be good"
    )


def _direction(view: View, s: Suspects, entity: int, found: Found) -> str:
    e = view.entities
    far = int(e.other[entity])
    there = e.name_of(far) if far >= 0 else "the other end (unknown)"
    if s.rule.signal == "icrc_errors":
        return "damaged between two good links: memory of a switch on the way, or of this NIC; not this link"
    if s.rule.signal == "tx_errors":
        return f"on sending: {owner_name(e, entity)} itself, not the link"
    if far in found and any(x.rule.signal == s.rule.signal for x, _ in found[far]):
        return f"both ends see errors ({there} too): the cable or both modules, not one transmitter"
    state = "reads no errors" if _reads(view, s.rule.signal, far) else "says nothing"
    return f"on arrival: the fibre or cable, this receiver, or the transmitter of {there}, which itself {state}"


def _reads(view: View, signal: str, far: int) -> bool:
    return bool(at(view, signal, np.array([far], dtype=np.int32))[0] >= 0)
