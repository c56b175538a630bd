"""Bounce-back worse: a link that came back with more wrong bits, more errors or less speed than before it fell.

A link that trains again may settle for worse; whoever reseats a cable wants to know within minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.ends import Carriers, changes
from railkeeper.health.detect.fec_arithmetic import pre_fec_ber, pre_fec_ber_at
from railkeeper.health.detect.finding import V_DEGRADED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.past import update
from railkeeper.health.detect.poisson import surprise
from railkeeper.health.detect.screen import above
from railkeeper.health.detect.slices import SlicedPast, Turns, part_of
from railkeeper.health.detect.sparse import Tally, union

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]

ERRORS = ("rx_crc_errors", "rx_errors", "rx_symbol_errors")
SPEED = "speed_gbps"
PAST_S = 3600.0
TINY = 1e-15


def _zeros() -> Doubles:
    return np.empty(0)


@dataclass
class Watched:
    """Ends of links that fell or came back of late; columns over `ids` (m,) ascending.

    back_s: when it last fell or came back; ber_, errors_, speed_before: decades, per second, Gb/s (NaN unknown);
    ber_sum, samples: decades since; errors, seconds: since
    """

    ids: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    back_s: Doubles = field(default_factory=_zeros)
    ber_before: Doubles = field(default_factory=_zeros)
    errors_before: Doubles = field(default_factory=_zeros)
    speed_before: Doubles = field(default_factory=_zeros)
    ber_sum: Doubles = field(default_factory=_zeros)
    samples: Doubles = field(default_factory=_zeros)
    errors: Doubles = field(default_factory=_zeros)
    seconds: Doubles = field(default_factory=_zeros)

    def keep(self, stays: npt.NDArray[np.bool_]) -> None:
        """Let go of the others."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name)[stays])


@dataclass
class State:
    """What every port was like, learnt in parts: decades of wrong bits, errors, speed; and who is watched."""

    p: dict[str, float]
    cases: Cases
    carriers: Carriers
    turns: Turns
    ber: SlicedPast
    errors: Tally
    speed: Floats
    watched: Watched = field(default_factory=Watched)


class BounceBack:
    """Links that are worse after they came back than before they fell."""

    about = About(
        name="bounce-back",
        text="A link came back with more wrong bits, more errors or less speed than before.",
        kinds=("port",),
        needs=(),
        uses=("link_downs", "oper_up", "fec_corrected_bits", "rx_bits", "pre_fec_ber", *ERRORS, SPEED),
        against=("past",),
        parameters={
            "settle_s": (60, "s", "a link that has just come back is let alone so long"),
            "watch_s": (3600, "s", "it is watched so long after it came back"),
            "samples": (4, "samples", "so many samples after it came back are compared"),
            "ber_decades": (0.7, "decades", "rise of the ratio before FEC that is worse: 5 times"),
            "ber_floor": (1e-8, "ratio", "under this more wrong bits are of no consequence"),
            "errors_surprise": (
                10,
                "-log10 p",
                "how unlikely the errors since have to be at ten times the rate before",
            ),
            "errors_floor_per_s": (1e-2, "1/s", "errors that are no reason to call anyone"),
            **PERSISTENCE,
            "hold_s": (900, "s", PERSISTENCE["hold_s"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        n = len(entities)
        turns = Turns(n)
        return State(
            settled(self.about, parameters), cases(self.about, entities), Carriers(), turns,
            SlicedPast(turns, PAST_S), Tally(PAST_S / 2, np.inf), np.full(n, np.nan, dtype=np.float32),
        )  # fmt: skip

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Watch who has come back, compare those with enough samples, and learn from all others."""
        _meet(state, view)
        _sample(state, view)
        worse = _worse(state, view)
        _learn(state, view)
        ids = state.watched.ids[worse.any(axis=0)]
        hits = Hits(ids, _weights(state, ids), lambda i: _say(state, view, int(ids[i]), worse))
        return state, tell(state.cases, view, hits, state.p, unread(view, ("link_downs", "oper_up")))


def _meet(state: State, view: View) -> None:
    """Add both ends of links that fell or came back; who is watched keeps what it was before the first fall."""
    now, w = changes(state.carriers, view), state.watched
    moved = union(union(now.rose, now.fell), np.setdiff1d(state.carriers.down, w.ids))
    other = view.entities.other[moved]
    both = union(moved, other[other >= 0])
    again = np.isin(w.ids, both)
    w.back_s[again] = view.now_s
    for name in ("ber_sum", "samples", "errors", "seconds"):
        getattr(w, name)[again] = 0
    fresh = np.setdiff1d(both, w.ids)
    if not len(fresh):
        return
    mean, _ = state.ber.of(fresh)
    zeros, rate = np.zeros(len(fresh)), state.errors.of(fresh) / max(state.errors.window_s, 1.0)
    new = Watched(fresh, zeros + view.now_s, mean.astype(float), rate, state.speed[fresh].astype(float), *(zeros,) * 4)
    order = np.argsort(np.concatenate([w.ids, fresh]), kind="stable")
    for f in fields(w):
        setattr(w, f.name, np.concatenate([getattr(w, f.name), getattr(new, f.name)])[order])


def _sample(state: State, view: View) -> None:
    w = state.watched
    w.keep(w.back_s > view.now_s - state.p["watch_s"])
    calm = w.back_s <= view.now_s - state.p["settle_s"]
    ber = np.log10(np.maximum(pre_fec_ber_at(view, w.ids), TINY))
    known = calm & np.isfinite(ber) & ~(at(view, "oper_up", w.ids) < 0.5)
    w.ber_sum[known] += ber[known]
    w.samples[known] += 1
    errors, dt_s = _errors_at(view, w.ids), view.rates.dt_s[w.ids]
    counted = calm & np.isfinite(errors) & np.isfinite(dt_s)
    w.errors[counted] += (errors * dt_s)[counted]
    w.seconds[counted] += dt_s[counted]


def _errors_at(view: View, ids: Ids) -> Floats:
    """Return (m,) errors a second: of the first of the signals that the frame has."""
    name = next((n for n in ERRORS if view.rate(n) is not None), ERRORS[0])
    return at(view, name, ids)


def _worse(state: State, view: View) -> npt.NDArray[np.bool_]:
    """Return (3, m): more wrong bits, more errors, less speed."""
    w, p = state.watched, state.p
    enough = w.samples >= p["samples"]
    ber = w.ber_sum / np.maximum(w.samples, 1)
    bits = enough & (ber - w.ber_before >= p["ber_decades"]) & (ber >= np.log10(p["ber_floor"]))
    allowed = np.maximum(10 * w.errors_before, p["errors_floor_per_s"]) * w.seconds
    more = np.flatnonzero(w.errors > allowed)
    errors = np.zeros(len(w.ids), dtype=np.bool_)
    errors[more] = surprise(w.errors[more], allowed[more]) >= p["errors_surprise"]
    calm = w.back_s <= view.now_s - p["settle_s"]
    slow = calm & (at(view, SPEED, w.ids) < 0.97 * w.speed_before) & ~(at(view, "oper_up", w.ids) < 0.5)
    return np.array([bits, errors, slow])


def _learn(state: State, view: View) -> None:
    """Learn what is usual from those that are not watched."""
    turns, watched = state.turns, state.watched.ids
    start, end = turns.bounds()
    mine = watched[(watched >= start) & (watched < end)] - start
    ber = pre_fec_ber(part_of(view, turns))
    if ber is not None:
        decades = np.log10(np.maximum(ber, np.float32(TINY)))
        update(state.ber.mine(), decades, view.now_s, skip=mine.astype(np.int32))
    speed = view.gauge(SPEED)
    if speed is not None:
        held = state.speed[watched]
        state.speed[start:end] = np.where(np.isnan(speed[start:end]), state.speed[start:end], speed[start:end])
        state.speed[watched] = held
    turns.turn += 1
    name = next((n for n in ERRORS if view.rate(n) is not None), None)
    rate = None if name is None else view.rate(name)
    if rate is not None:
        ids = np.setdiff1d(above(rate, 0.0), watched).astype(np.int32)
        state.errors.add(ids, rate[ids].astype(np.float64) * view.rates.dt_s[ids], view.now_s, view.tick_s)


def _weights(state: State, ids: Ids) -> Floats:
    w = state.watched
    mine = np.isin(w.ids, ids)
    rise = np.nan_to_num(w.ber_sum / np.maximum(w.samples, 1) - w.ber_before)
    return (rise + np.log1p(w.errors))[mine].astype(np.float32)


def _say(state: State, view: View, port: int, worse: npt.NDArray[np.bool_]) -> Said:
    w, j = state.watched, int(np.searchsorted(state.watched.ids, port))
    bits, errors, slow = (bool(x) for x in worse[:, j])
    ago = view.now_s - float(w.back_s[j])
    speed = float(at(view, SPEED, np.array([port], dtype=np.int32))[0])
    ber = 10 ** float(w.ber_sum[j] / max(w.samples[j], 1))
    rate = float(w.errors[j] / max(w.seconds[j], 1))
    facts = [
        (bits, "fec_corrected_bits", ber, float(10 ** w.ber_before[j]), "ratio", "wrong bits before FEC"),
        (errors, ERRORS[0], rate, float(w.errors_before[j]), "1/s", "errors on arrival"),
        (slow, SPEED, speed, float(w.speed_before[j]), "Gb/s", "speed"),
    ]
    true = [f for f in facts if f[0]]
    lines = tuple(f"{what}: {now:.3g} {unit}, before {before:.3g}" for _, _, now, before, unit, what in true)
    _, signal, value, before, unit, _ = true[0]
    other = int(view.entities.other[port])
    return Said(
        signal, value, before, unit, "past", min(0.95, 0.7 + 0.1 * len(true)),
        (f"came back {ago:.0f} s ago, and is worse than before it went down", *lines,
         "seated badly, dirty, or trained to worse settings: clean and reseat, then train again"),
        V_DEGRADED, () if other < 0 else (other,),
    )  # fmt: skip
