"""FEC margin: how many bits are wrong before FEC, against peers, own past and the code's limit.

FEC hides errors until it can't any more; the ratio before FEC shows a link that is going, hours before it loses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, no_hits
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.fec_arithmetic import pre_fec_ber
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled
from railkeeper.health.detect.past import Past, update
from railkeeper.health.detect.slices import Rounds, SlicedPast, part_of
from railkeeper.health.detect.some_peers import middle_and_spread

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]
    Mask = npt.NDArray[np.bool_]

SIGNALS = ("fec_corrected_bits", "rx_bits", "speed_gbps", "lane_errors", "pre_fec_ber")
# The ratio at which RS(544,514) repairs no more to the standard's taste.
CODE_LIMIT = 2.4e-4


@dataclass
class State:
    """Own past of every port in decades, and of the middle of every group of peers, by part."""

    p: dict[str, float]
    cases: Cases
    rounds: Rounds
    past: SlicedPast
    peers: dict[int, Past]


@dataclass(frozen=True)
class Compared:
    """Decades of the ratio: x (m,) now; middle and spread of its peers; drift (m,) against own past and peers."""

    x: Floats
    middle: Floats
    spread: Floats
    drift: Floats
    past: Floats


class FecMargin:
    """Bit error ratio before FEC: near the limit, far from peers, or drifting."""

    about = About(
        name="fec-margin",
        text="Bits that are wrong before FEC: near the code's limit, far from peers, or drifting.",
        kinds=("port",),
        needs=(),
        uses=(*SIGNALS, "oper_up", "link_downs"),
        against=("peers", "past", "limit"),
        parameters={
            "limit_ber": (1e-4, "ratio", "from here there is too little margin; RS(544,514) ends at 2.4e-4"),
            "peers_decades": (1.5, "decades", "how far over the middle of the peers is far, at least"),
            "peers_sigmas": (6, "sigmas", "the same in spreads of the peers: chance passes it once in 1e9"),
            "peers_floor_ber": (1e-6, "ratio", "under this a port is well, wherever its peers are"),
            "drift_decades": (
                0.7,
                "decades",
                "rise over own past, less that of the peers, that is a drift; 5 times",
            ),
            "drift_sigmas": (6, "sigmas", "the same in spreads of its own past"),
            "drift_floor_ber": (1e-8, "ratio", "under this a drift is of no consequence, and is mostly counting noise"),
            "past_half_life_s": (43_200, "s", "what lies so far back weighs half: days and nights level out"),
            "past_least_s": (7200, "s", "so much past is needed to speak of a drift"),
            **PERSISTENCE,
            "hold_s": (900, "s", PERSISTENCE["hold_s"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        p = settled(self.about, parameters)
        rounds = Rounds(len(entities))
        return State(p, cases(self.about, entities), rounds, SlicedPast(rounds.turns, p["past_half_life_s"]), {})

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge the part whose turn it is, then let it learn."""
        part, (start, _) = part_of(view, state.rounds.turns), state.rounds.turns.bounds()
        ber = _trusted(part)
        if ber is None:
            blind = np.ones(len(part.entities), dtype=np.bool_)
            return state, state.rounds.tell(state.cases, view, no_hits(), state.p, blind)
        c = _compare(state, part, ber)
        near = np.flatnonzero(_worth(state.p, c)).astype(np.int32)
        hits = _hits(state, view, (c, near), start)  # before it learns
        update(state.past.mine(), c.x, part.now_s, skip=near)  # suspects are not learnt: no drift becomes normal
        return state, state.rounds.tell(state.cases, view, hits, state.p, np.isnan(ber))


def _trusted(view: View) -> Floats | None:
    """Return the ratio, NaN where the link is down or has fallen in this tick: then it trains, and counts nonsense."""
    ber = pre_fec_ber(view)
    if ber is None:
        return None
    up, falls = view.gauge("oper_up"), view.rate("link_downs")
    bad = np.zeros(len(ber), dtype=np.bool_)
    if up is not None:
        bad |= up < 0.5
    if falls is not None:
        bad |= falls > 0
    return np.where(bad, np.float32(np.nan), ber)


def _compare(state: State, part: View, ber: Floats) -> Compared:
    p, past = state.p, state.past.mine()
    x = np.log10(np.maximum(ber, np.float32(1e-15)))
    middle, spread = middle_and_spread(part, x)
    group = part.entities.group
    peers = state.peers.setdefault(state.rounds.turns.part, Past(part.entities.n_groups, p["past_half_life_s"]))
    rise = np.nan_to_num(middle - peers.mean)
    drift = x - past.mean - rise[group]
    drift[past.weight_s < p["past_least_s"]] = np.nan
    drift[drift < p["drift_sigmas"] * past.spread] = 0
    update(peers, middle, part.now_s)
    return Compared(x, middle[group], spread[group], drift, past.mean)


def _worth(p: dict[str, float], c: Compared) -> Mask:
    return _over_limit(p, c.x) | _off_peers(p, c) | _drifted(p, c)


def _over_limit(p: dict[str, float], x: Floats) -> Mask:
    return x >= np.float32(np.log10(p["limit_ber"]))


def _off_peers(p: dict[str, float], c: Compared) -> Mask:
    far = np.maximum(np.float32(p["peers_decades"]), np.float32(p["peers_sigmas"]) * c.spread)
    found: Mask = (c.x - c.middle >= far) & (c.x >= np.log10(p["peers_floor_ber"]))
    return found


def _drifted(p: dict[str, float], c: Compared) -> Mask:
    found: Mask = (c.drift >= p["drift_decades"]) & (c.x >= np.log10(p["drift_floor_ber"]))
    return found


def _hits(state: State, view: View, found: tuple[Compared, npt.NDArray[np.int32]], start: int) -> Hits:
    c, near = found
    past = c.past[near]
    return Hits(
        (near + start).astype(np.int32), c.x[near],
        lambda i: _say(state, view, c, (int(near[i]), start), float(past[i])),
    )  # fmt: skip


def _say(state: State, view: View, c: Compared, at_part: tuple[int, int], past: float) -> Said:
    (k, start), p = at_part, state.p
    ber = float(10.0 ** c.x[k])
    one = np.array([k])
    off, drifts = bool(_off_peers(p, c)[one][0]), bool(_drifted(p, c)[one][0])
    against, expected = (
        ("peers", c.middle[k]) if off else ("past", past) if drifts else ("limit", np.log10(p["limit_ber"]))
    )
    lines = [f"{ber:.2g} of the bits are wrong before FEC, {CODE_LIMIT / ber:.3g} times under where RS(544,514) ends"]
    if np.isfinite(c.middle[k]):
        lines.append(f"the middle of its peers: {10.0 ** c.middle[k]:.2g}, {c.x[k] - c.middle[k]:+.1f} decades")
    if np.isfinite(past):
        drift = f"; {c.drift[k]:+.1f} decades more than its peers rose" if c.drift[k] > 0 else ""
        lines.append(f"its own past: {10.0**past:.2g}{drift}")
    lines.append(_other_end(view, k + start))
    other = int(view.entities.other[k + start])
    return Said(
        "fec_corrected_bits", ber, float(10.0**expected), "ratio", against,
        float(min(0.95, 0.5 + 0.15 * ((c.x[k] >= np.log10(p["limit_ber"])) + off + drifts))), tuple(lines),
        V_FAILED if ber >= CODE_LIMIT else V_DEGRADED, () if other < 0 else (other,),
    )  # fmt: skip


def _other_end(view: View, port: int) -> str:
    """Say what the other direction of the link shows: one bad direction is a transmitter, a fibre or a receiver."""
    other = view.entities.other[port : port + 1]
    if other[0] < 0:
        return "the other end is unknown"
    name = view.entities.name_of(int(other[0]))
    wrong, bits = at(view, "fec_corrected_bits", other)[0], at(view, "rx_bits", other)[0]
    if not np.isfinite(wrong):
        return f"{name} says nothing of the other direction"
    if not np.isfinite(bits):
        bits = at(view, "speed_gbps", other)[0] * np.float32(1e9)
    return f"the other direction, at {name}: {wrong / bits:.2g}; if that is good: its transmitter or this receiver"
