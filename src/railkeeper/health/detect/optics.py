"""Optics: light, bias, temperature and voltage of transceivers, against the lanes beside, peers, own past and limits.

Modules are read about once a minute and drift over days: each is judged in its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.ends import HALF
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, column, columns_of, settled, unread
from railkeeper.health.detect.past import Past, update
from railkeeper.health.detect.screen import above, below
from railkeeper.health.detect.slices import Rounds, SlicedPast, part_of
from railkeeper.health.detect.some_peers import middle_and_spread

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]
    Mask = npt.NDArray[np.bool_]
    Worst = tuple[Floats, Floats]  # (n,) value of the worst lane, and (lanes, n) of all

LANED = ("rx_power_dbm", "tx_power_dbm", "tx_bias_ma", "snr_db")
WHOLE = ("module_temperature_c", "module_voltage_v")
LANE_ERRORS = "lane_errors"
# Yardsticks, as findings say them.
BESIDE, LIKE, OWN, LIMIT = "the lanes beside", "its peers", "its own past", "the limit"
# Many columns of what changes slowly: of a large fleet a smaller part each tick.
PARTS = 16
# Below this a receiver sees no light: modules report -40 dBm, or less, for none.
DARK_DBM = -30.0


@dataclass(frozen=True)
class Sense:
    """One measurement of a module: which way is bad, and how far is far. Units are the signal's.

    - sign: -1 less is bad, +1 more is bad, 0 either
    - lanes, peers, past: names of the parameters that say how far is far from the others, "" for not compared
    - low, high: names of the limits, "" for none
    """

    signal: str
    unit: str
    sign: int
    lanes: str
    peers: str
    past: str
    low: str
    high: str


SENSES = (
    Sense("rx_power_dbm", "dBm", -1, "lanes_db", "peers_db", "past_db", "rx_low_dbm", ""),
    Sense("tx_power_dbm", "dBm", -1, "lanes_db", "peers_db", "past_db", "tx_low_dbm", ""),
    Sense("tx_bias_ma", "mA", 1, "", "bias_peers_ma", "bias_past_ma", "", ""),
    Sense("snr_db", "dB", -1, "lanes_db", "peers_db", "past_db", "", ""),
    Sense("module_temperature_c", "C", 1, "", "temperature_peers_c", "temperature_past_c", "", "temperature_high_c"),
    Sense("module_voltage_v", "V", 0, "", "", "voltage_past_v", "voltage_low_v", "voltage_high_v"),
)


@dataclass
class State:
    """Past of each measurement's worst lane, by signal: own, and of the middle of the peers by part."""

    p: dict[str, float]
    cases: Cases
    rounds: Rounds
    past: dict[str, SlicedPast] = field(default_factory=dict)
    peers: dict[tuple[str, int], Past] = field(default_factory=dict)


@dataclass(frozen=True)
class Off:
    """A measurement that is off at ports (m,): the worst lane's value; than what, which says `want`; times too far."""

    sense: Sense
    ids: Ids
    lane: npt.NDArray[np.int64]
    value: Floats
    want: Floats
    times: Floats
    than: str

    @property
    def against(self) -> str:
        """In the words of findings."""
        return {OWN: "past", LIMIT: "limit"}.get(self.than, "peers")


class Optics:
    """Modules and fibres that grow dim, hot or old, and single lanes that do."""

    about = About(
        name="optics",
        text="Light, bias, temperature and voltage of a transceiver; one lane that is off.",
        kinds=("port",),
        needs=(),
        uses=(*LANED, *WHOLE, LANE_ERRORS, "oper_up", "admin_up"),
        against=("peers", "past", "limit"),
        parameters={
            "lanes_db": (3, "dB", "how far a lane may be under the middle of its module: half the light"),
            "peers_db": (4, "dB", "how far the worst lane may be under that of its peers, at least"),
            "past_db": (2, "dB", "fall under own past that is a drift"),
            "rx_low_dbm": (-10, "dBm", "least light received; low alarm of common 400G and 800G modules"),
            "tx_low_dbm": (-6, "dBm", "least light sent; low alarm of common modules"),
            "bias_peers_ma": (40, "mA", "how far bias may be over its peers'; a laser that ages needs more"),
            "bias_past_ma": (15, "mA", "rise of bias over own past that is a drift"),
            "temperature_peers_c": (20, "C", "how much hotter than its peers a module may be"),
            "temperature_past_c": (12, "C", "rise of temperature over own past, days and nights levelled out"),
            "temperature_high_c": (75, "C", "high alarm of modules of the commercial class; 70 is their warning"),
            "voltage_past_v": (0.1, "V", "change of supply voltage over own past"),
            "voltage_low_v": (3.0, "V", "low alarm of the supply of 3.3 V"),
            "voltage_high_v": (3.6, "V", "high alarm of the supply of 3.3 V"),
            "hot_lane_times": (30, "ratio", "how many times the errors of its module's middle lane a lane may have"),
            "hot_lane_per_s": (1e4, "1/s", "raw errors of a lane that are worth telling: 1e-7 at 100 Gb/s"),
            "sigmas": (6, "sigmas", "all against peers and past also in spreads: chance passes it once in 1e9"),
            "past_half_life_s": (172_800, "s", "what lies so far back weighs half"),
            "past_least_s": (21_600, "s", "so much past is needed to speak of a drift"),
            **PERSISTENCE,
            "need_ticks": (3, "ticks", PERSISTENCE["need_ticks"][2]),
            "persist_s": (45, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (4, "ticks", PERSISTENCE["of_ticks"][2]),
            "hold_s": (900, "s", PERSISTENCE["hold_s"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities), Rounds(len(entities), PARTS))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge the part whose turn it is, then let it learn."""
        part, (start, _) = part_of(view, state.rounds.turns), state.rounds.turns.bounds()
        dark = _without_light(view, part, start)
        found = [off for sense in SENSES for off in _judge(state, part, sense, dark)] + _hot_lane(state.p, part)
        by_port: dict[int, list[tuple[Off, int]]] = {}
        for off in found:
            for k, i in enumerate(off.ids.tolist()):
                by_port.setdefault(i + start, []).append((off, k))
        for pairs in by_port.values():
            pairs.sort(key=lambda pair: -float(pair[0].times[pair[1]]))
        ids = np.array(sorted(by_port), dtype=np.int32)
        worst = np.array([by_port[i][0][0].times[by_port[i][0][1]] for i in ids.tolist()], dtype=np.float32)
        hits = Hits(ids, worst, lambda i: _say(view, by_port[int(ids[i])], int(ids[i])))
        blind = unread(part, columns_of(part, (*LANED, *WHOLE, LANE_ERRORS)))
        return state, state.rounds.tell(state.cases, view, hits, state.p, blind)


def _without_light(view: View, part: View, start: int) -> Mask:
    """Return (m,) True where darkness is meant: this port or its other end is switched off or down."""
    out = np.zeros(len(part.entities), dtype=np.bool_)
    for name in ("admin_up", "oper_up"):
        state = view.gauge(name)
        if state is None:
            continue
        mine = slice(start, start + len(out))
        out |= state[mine] < HALF
        other = view.entities.other[mine]
        out |= (other >= 0) & (state[np.maximum(other, 0)] < HALF)
    return out


def _judge(state: State, part: View, sense: Sense, dark: Mask) -> list[Off]:
    """Reduce the lanes to the worst one, and compare it with each of its yardsticks."""
    names = part.parts(sense.signal) if sense.signal in LANED else (sense.signal,)
    lanes = [x for name in names if (x := column(part, name)) is not None]
    if not lanes:
        return []
    every = np.array(lanes)
    if sense.signal in LANED:
        every[:, dark] = np.nan
    worst = _worst(every, sense.sign)
    peers = middle_and_spread(part, worst[0])
    found = [
        *_against_limits(state.p, sense, worst), *_against_lanes(state.p, sense, worst),
        *_against_peers(state.p, part, sense, worst, peers), *_against_past(state, part, sense, worst, peers[0]),
    ]  # fmt: skip
    off = np.unique(np.concatenate([x.ids for x in found])) if found else None
    update(_past(state, sense).mine(), worst[0], part.now_s, skip=off)
    update(_past_of_peers(state, part, sense), peers[0], part.now_s)
    return found


def _worst(every: Floats, sign: int) -> Worst:
    """Return the worst of the lanes, NaN where none is known; of signals without a bad side, the first lane."""
    fold = np.fmax if sign > 0 else np.fmin
    return (every[0] if len(every) == 1 else fold.reduce(every, axis=0)), every


def _lane(worst: Worst, ids: Ids) -> npt.NDArray[np.int64]:
    value, every = worst
    lane: npt.NDArray[np.int64] = np.argmax(every[:, ids] == value[ids], axis=0)
    return lane


def _past(state: State, sense: Sense) -> SlicedPast:
    return state.past.setdefault(sense.signal, SlicedPast(state.rounds.turns, state.p["past_half_life_s"]))


def _past_of_peers(state: State, part: View, sense: Sense) -> Past:
    key = (sense.signal, state.rounds.turns.part)
    return state.peers.setdefault(key, Past(part.entities.n_groups, state.p["past_half_life_s"]))


def _off(sense: Sense, worst: Worst, ids: Ids, should: tuple[Floats, Floats], than: str) -> list[Off]:
    """Return what is too far: ids (m,), what they should be and how many times too far they are."""
    want, times = should
    return [Off(sense, ids, _lane(worst, ids), worst[0][ids], want, times, than)] if len(ids) else []


def _against_limits(p: dict[str, float], s: Sense, worst: Worst) -> list[Off]:
    out: list[Off] = []
    for name, screen, sign in ((s.low, below, -1), (s.high, above, 1)):
        if name:
            limit = np.float32(p[name])
            ids = screen(worst[0], float(limit))
            times = 1 + (worst[0][ids] - limit) * sign / max(abs(float(limit)), 1.0)
            out += _off(s, worst, ids, (np.full(len(ids), limit), times.astype(np.float32)), LIMIT)
    return out


def _against_lanes(p: dict[str, float], s: Sense, worst: Worst) -> list[Off]:
    """Compare with the middle of the lanes of the same module; three lanes at least say what is usual.

    Where the worst is near the best it is near the middle, so few modules are looked at.
    """
    value, every = worst
    if not s.lanes or len(every) < 3:
        return []
    best = _worst(every, -s.sign)[0]
    ids = np.flatnonzero((value - best) * s.sign > np.float32(p[s.lanes])).astype(np.int32)
    lanes = np.sort(every[:, ids], axis=0)  # NaN last
    known = np.isfinite(lanes).sum(axis=0)
    middle = np.take_along_axis(lanes, np.maximum(known - 1, 0)[None] // 2, axis=0)[0]
    times = ((value[ids] - middle) * s.sign / p[s.lanes]).astype(np.float32)
    hit = (known >= 3) & (times > 1)
    return _off(s, worst, ids[hit], (middle[hit], times[hit]), BESIDE)


def _against_peers(p: dict[str, float], part: View, s: Sense, worst: Worst, peers: tuple[Floats, Floats]) -> list[Off]:
    """Compare with the same end of like links."""
    if not s.peers:
        return []
    middle, group = peers[0], part.entities.group
    far = np.maximum(np.float32(p[s.peers]), np.float32(p["sigmas"]) * peers[1])
    limit = middle + far * s.sign
    ids = (above if s.sign > 0 else below)(worst[0], limit, group)
    want = middle[group[ids]]
    return _off(s, worst, ids, (want, (worst[0][ids] - want) * s.sign / far[group[ids]]), LIKE)


def _against_past(state: State, part: View, s: Sense, worst: Worst, middle: Floats) -> list[Off]:
    """Compare with own past; what the middle of the peers did as well (a warm day, a job that starts) is no drift."""
    if not s.past:
        return []
    past = _past(state, s).mine()
    rise = np.nan_to_num(middle - _past_of_peers(state, part, s).mean)[part.entities.group]
    change = worst[0] - past.mean - rise
    moved = np.abs(change) if s.sign == 0 else change * np.float32(s.sign)
    ids = above(moved, state.p[s.past])
    far = np.maximum(np.float32(state.p[s.past]), np.float32(state.p["sigmas"]) * past.spread[ids])
    hit = (moved[ids] > far) & (past.weight_s[ids] >= state.p["past_least_s"])
    ids, far = ids[hit], far[hit]
    return _off(s, worst, ids, (past.mean[ids], moved[ids] / far), OWN)


def _hot_lane(p: dict[str, float], part: View) -> list[Off]:
    """One lane with far more raw errors than the middle one of its module."""
    lanes = [x for name in part.parts(LANE_ERRORS) if (x := column(part, name)) is not None]
    if len(lanes) < 3:
        return []
    worst = _worst(np.array(lanes), 1)
    ids = above(worst[0], p["hot_lane_per_s"])
    middle = np.sort(worst[1][:, ids], axis=0)[len(lanes) // 2]
    times = worst[0][ids] / np.maximum(middle * np.float32(p["hot_lane_times"]), 1)
    hit = times > 1
    sense = Sense(LANE_ERRORS, "1/s", 1, "", "", "", "", "")
    return _off(sense, worst, ids[hit], (middle[hit], times[hit]), BESIDE)


def _say(view: View, pairs: list[tuple[Off, int]], port: int) -> Said:
    off, k = pairs[0]
    name = f"{off.sense.signal}[{off.lane[k]}]" if off.sense.signal not in WHOLE else off.sense.signal
    other = int(view.entities.other[port])
    return Said(
        name, float(off.value[k]), float(off.want[k]), off.sense.unit, off.against,
        float(min(0.95, 0.5 + 0.15 * len({p[0].against for p in pairs}) + 0.05 * min(off.times[k], 4))),
        (*(_line(o, j) for o, j in pairs), _where(view, off, k, port)),
        V_FAILED if off.sense.signal == "rx_power_dbm" and off.value[k] <= DARK_DBM else V_DEGRADED,
        () if other < 0 else (other,),
    )  # fmt: skip


def _line(off: Off, k: int) -> str:
    lane = "" if off.sense.signal in WHOLE else f" of lane {off.lane[k]}"
    return (
        f"{off.sense.signal}{lane}: {off.value[k]:.4g} {off.sense.unit}, {off.than} {off.want[k]:.4g} {off.sense.unit}"
    )


def _where(view: View, off: Off, k: int, port: int) -> str:
    """Say at which end to look: dim light may be sent dimly, lost on the way, or seen dimly."""
    if off.sense.signal not in {"rx_power_dbm", "snr_db", LANE_ERRORS}:
        return "this module: its laser, its cooling or its supply"
    other = view.entities.other[port : port + 1]
    if other[0] < 0:
        return "the other end is unknown"
    name = view.entities.name_of(int(other[0]))
    sent = at(view, f"tx_power_dbm[{off.lane[k]}]", other)[0]
    if not np.isfinite(sent):
        return f"{name} does not say what it sends: its laser, the fibre, a connector or this receiver"
    return (
        f"{name} sends {sent:.3g} dBm there: if that is good, clean the connectors, then the fibre, then this receiver"
    )
