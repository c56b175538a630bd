"""FEC codewords: those that could not be repaired, and a histogram whose last bins foretell that some will not be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, tell
from railkeeper.health.detect.counted import (
    CHANCE,
    Rule,
    Suspects,
    against,
    confidence,
    lines,
    merge,
    new_tally,
    only,
    suspects,
)
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.fec_arithmetic import BINS, by_chance, foretold
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.poisson import surprise
from railkeeper.health.detect.screen import above
from railkeeper.health.detect.sparse import Tally, needed_surprise, peer_quantile, union

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Doubles = npt.NDArray[np.float64]

LOST = "fec_uncorrected_codewords"
BIN = "fec_bin_codewords"
Pairs = list[tuple[Suspects, int]]


@dataclass
class State:
    """Open cases, and the slow tally of lost codewords."""

    p: dict[str, float]
    cases: Cases
    tally: Tally = field(default_factory=new_tally)


@dataclass(frozen=True)
class Tails:
    """Ports (m,) with codewords in the last bins: rate there, slope (decades a symbol), foretold losses a second."""

    ids: Ids
    per_s: Doubles
    chance_per_s: Doubles
    slope: Doubles
    lost_per_s: Doubles
    usual_per_s: npt.NDArray[np.floating[Any]]
    hit: npt.NDArray[np.bool_]


class FecCodewords:
    """Codewords beyond repair, now or foretold."""

    about = About(
        name="fec-codewords",
        text="Codewords that FEC could not repair, and last bins of the histogram that foretell them.",
        kinds=("port",),
        needs=(),
        uses=(LOST, BIN, "link_downs", "oper_up"),
        against=("peers", "limit"),
        parameters={
            "lost_floor_per_s": (
                1e-4,
                "1/s",
                "lost codewords that a port may have; the standard's limit is about that",
            ),
            "failed_per_s": (100, "1/s", "lost codewords from which the link has failed: some packets in 10 000"),
            "tail_bin": (10, "symbols", "the first of the last bins; the first bins fill on every good link"),
            "tail_floor_per_s": (1e-2, "1/s", "codewords in the last bins that a port may have"),
            "foretold_per_s": (3e-4, "1/s", "losses foretold by the last bins that are told: one an hour"),
            **CHANCE,
            **PERSISTENCE,
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge lost codewords, then the histogram of those that lose none."""
        lost = suspects(view, Rule(LOST, "", state.p["lost_floor_per_s"], 0, 0, "codewords"), state.tally, state.p)
        ids, worst, found = merge([] if lost is None else [only(lost, ~_training(view, lost.ids))])
        tails = _tails(state, view)
        extra = tails.ids[tails.hit & ~np.isin(tails.ids, ids)] if tails else np.empty(0, dtype=np.int32)
        every = np.concatenate([ids, extra])
        weights = np.concatenate([worst, np.zeros(len(extra), dtype=np.float32)])
        hits = Hits(every, weights, lambda i: _say(state, view, found.get(int(every[i])), tails, int(every[i])))
        return state, tell(state.cases, view, hits, state.p, unread(view, (LOST, f"{BIN}[15]", f"{BIN}[14]")))


def _training(view: View, ids: Ids) -> npt.NDArray[np.bool_]:
    """Return (m,) True where the link is down or has fallen: then it trains, and counts nonsense."""
    return (at(view, "oper_up", ids) < 0.5) | (at(view, "link_downs", ids) > 0)


def _tails(state: State, view: View) -> Tails | None:
    first = int(state.p["tail_bin"])
    last = [rate for k in range(first, BINS) if (rate := view.rate(f"{BIN}[{k}]")) is not None]
    if not last:
        return None
    ids = np.empty(0, dtype=np.int32)
    for rate in last:
        ids = union(ids, above(rate, 0.0))
    ids = ids[~_training(view, ids)]
    bins = np.array([at(view, f"{BIN}[{k}]", ids) for k in range(BINS)], dtype=np.float64).reshape(BINS, len(ids))
    return _judge_tails(state, view, ids, np.nan_to_num(bins))


def _judge_tails(state: State, view: View, ids: Ids, bins: Doubles) -> Tails:
    """Told: more than lone errors, peers and the floor give, and losses foretold."""
    p, first, k = state.p, int(state.p["tail_bin"]), np.arange(BINS)[:, None]
    per_s, every = bins[first:].sum(axis=0), bins.sum(axis=0)
    mean = (bins * k).sum(axis=0) / np.maximum(every, 1e-30)
    slope, lost = foretold(bins, first - 2)
    usual = peer_quantile(view.entities, ids, per_s, p["peer_quantile"])[view.entities.group[ids]]
    chance = np.maximum(every * by_chance(mean, first), p["tail_floor_per_s"])
    dt_s = view.rates.dt_s[ids].astype(np.float64)
    allowed = np.maximum(chance, p["times_peers"] * usual)
    need = needed_surprise(len(view.entities), view.tick_s, p["false_alarms_per_day"])
    hit = (surprise(per_s * dt_s, allowed * dt_s) >= need) & (lost >= p["foretold_per_s"])
    return Tails(ids, per_s, chance, slope, lost, usual, hit)


def _say(state: State, view: View, pairs: Pairs | None, tails: Tails | None, port: int) -> Said:
    other = int(view.entities.other[port])
    tail = _tail_line(state, tails, port)
    far = _far_line(view, other)
    others = () if other < 0 else (other,)
    if not pairs:
        assert tails is not None
        j = int(np.searchsorted(tails.ids, port))
        return Said(
            f"{BIN}[{BINS - 1}]", float(tails.per_s[j]), float(tails.chance_per_s[j]), "codewords/s", "limit", 0.7,
            (tail, "none is lost yet: the link is going, replace or clean it before it loses", far), V_DEGRADED, others,
        )  # fmt: skip
    s, k = pairs[0]
    return Said(
        LOST, float(s.per_s[k]), float(s.allowed_per_s[k]), "codewords/s", against(s, k), confidence(s, k),
        (*lines(s, k)[:1], "each loses the packets in it", *((tail,) if tail else ()), far, *lines(s, k)[1:]),
        V_FAILED if s.per_s[k] >= state.p["failed_per_s"] else V_DEGRADED, others,
    )  # fmt: skip


def _tail_line(state: State, tails: Tails | None, port: int) -> str:
    if tails is None or port not in tails.ids:
        return ""
    j, first = int(np.searchsorted(tails.ids, port)), int(state.p["tail_bin"])
    return (
        f"{tails.per_s[j]:.3g} codewords/s with {first} or more wrong symbols (errors that fall alone: "
        f"{tails.chance_per_s[j]:.2g}/s); "
        f"{tails.slope[j]:+.2f} decades a symbol foretell {tails.lost_per_s[j]:.2g} lost/s"
    )


def _far_line(view: View, other: int) -> str:
    if other < 0:
        return "the other end is unknown"
    there = at(view, LOST, np.array([other], dtype=np.int32))[0]
    name = view.entities.name_of(other)
    if not np.isfinite(there):
        return f"{name} says nothing of the other direction"
    if there > 0:
        return f"the other direction, at {name}, loses {there:.2g}/s too: the cable or both modules"
    return f"the other direction, at {name}, loses none: its transmitter, one fibre, or this receiver"
