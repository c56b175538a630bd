"""Counted: whether errors or drops are beyond what chance, peers and a floor allow, in a tick or over an hour."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.health.detect.judging import number
from railkeeper.health.detect.known import at
from railkeeper.health.detect.poisson import surprise
from railkeeper.health.detect.screen import above
from railkeeper.health.detect.sparse import Tally, needed_surprise, peer_quantile, union

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.cases import Cases
    from railkeeper.health.detect.view import View

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]
    AnyFloats = npt.NDArray[np.floating[Any]]

# Past this there is nothing left to be surprised about; keeps numbers finite.
MOST_SURPRISE = 300.0
# The part of a count that one tick may add to the slow tally.
TALLY_MOST = 3.0
TALLY_HALF_LIFE_S = 1800.0

CHANCE = {
    "false_alarms_per_day": (
        0.1,
        "1/day",
        "how often chance alone may pass the surprise, over all entities and ticks; sets the surprise that is needed",
    ),
    "times_peers": (10, "ratio", "times the rate that `peer_quantile` of the peers stay under"),
    "peer_quantile": (
        0.5,
        "ratio",
        "share of peers that say what is usual; half, so that one bad switch of a few is not",
    ),
}


@dataclass(frozen=True)
class Rule:
    """One counter, and what of it is allowed anyway.

    - per: the counter that it is a share of ("" for none); floor_per_s, floor_ratio: what is allowed without any peer
    - least_per_s: under this rate it is never told, however surprising; unit: of one event
    """

    signal: str
    per: str
    floor_per_s: float
    floor_ratio: float
    least_per_s: float
    unit: str


@dataclass(frozen=True)
class Suspects:
    """What a rule says of the entities (m,) that counted: `hit` where it is beyond chance and floor.

    per_s, allowed_per_s, usual_per_s (of peers), ratio (to `per`; NaN unknown), surprise (-log10 p), slow: only over
    the hour beyond chance (then per_s is the hour's), by_peers: peers set what is allowed
    """

    rule: Rule
    ids: Ids
    per_s: Floats
    allowed_per_s: Floats
    usual_per_s: Floats
    ratio: Floats
    surprise: Floats
    slow: npt.NDArray[np.bool_]
    by_peers: npt.NDArray[np.bool_]
    hit: npt.NDArray[np.bool_]


def new_tally() -> Tally:
    """Return the hour's tally of one rule."""
    return Tally(TALLY_HALF_LIFE_S, TALLY_MOST)


@dataclass
class CountedState:
    """What a detector of counts remembers: its parameters, open cases, and the slow tally of each counter."""

    p: dict[str, float]
    cases: Cases
    tallies: dict[str, Tally] = field(default_factory=dict)

    def suspects(self, view: View, rule: Rule) -> Suspects | None:
        """Return who breaks a rule in this tick or over the last hour; None where the counter is not in the frame."""
        return suspects(view, rule, self.tallies.setdefault(rule.signal, new_tally()), self.p)


def suspects(view: View, rule: Rule, tally: Tally, p: dict[str, float]) -> Suspects | None:
    """Judge one counter; None where the frame lacks it."""
    rate = view.rate(rule.signal)
    if rate is None:
        return None
    # Whoever counts less than this is under the floor, and so are its peers: millions may, and are not looked at.
    counted = above(rate, rule.floor_per_s / p["times_peers"])
    few = counted if rule.floor_per_s * view.tick_s < tally.most else counted[:0]
    tally.add(few, np.rint(rate[few].astype(np.float64) * view.rates.dt_s[few]), view.now_s, view.tick_s)
    ids = union(counted, tally.ids[tally.counts >= 2 * tally.most])
    per_s, dt_s = np.nan_to_num(rate[ids]), np.nan_to_num(view.rates.dt_s[ids])
    per = np.nan_to_num(at(view, rule.per, ids)) if rule.per else np.zeros(len(ids), dtype=np.float32)
    usual = peer_quantile(view.entities, ids, per_s, p["peer_quantile"])[view.entities.group[ids]]
    by_peers = np.float32(p["times_peers"]) * usual
    floor = np.float32(rule.floor_per_s) + np.float32(rule.floor_ratio) * per
    allowed = np.maximum(floor, by_peers)
    now, hour = _surprise(per_s * dt_s, allowed * dt_s), _surprise(tally.of(ids), allowed * tally.window_s)
    need = needed_surprise(len(view.entities), view.tick_s, p["false_alarms_per_day"])
    slow = (hour >= need) & (now < need)
    per_s = np.where(slow, tally.of(ids) / tally.window_s, per_s).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(per > 0, per_s / per, np.nan).astype(np.float32)
    hit = ((now >= need) | slow) & (per_s >= rule.least_per_s)
    return Suspects(rule, ids, per_s, allowed, usual, ratio, np.maximum(now, hour), slow, by_peers > floor, hit)


def _surprise(counts: AnyFloats, expected: AnyFloats) -> Floats:
    """Few events where more were allowed are no surprise: only the others are worked out."""
    out = np.zeros(len(counts), dtype=np.float32)
    more = np.flatnonzero(counts > expected)
    out[more] = np.minimum(surprise(counts[more], np.maximum(expected[more], 1e-12)), MOST_SURPRISE)
    return out


def only(s: Suspects, keep: npt.NDArray[np.bool_]) -> Suspects:
    """Return the suspects with fewer hits: those in `keep` (m,)."""
    return replace(s, hit=s.hit & keep)


def against(s: Suspects, k: int) -> str:
    """Return what suspect k was compared with: its peers where they set what is allowed, else the floor."""
    return "peers" if s.by_peers[k] else "limit"


def confidence(s: Suspects, k: int) -> float:
    """Return 0.5 to 0.99: half for being at the edge of chance, more the further beyond."""
    return float(min(0.99, 0.5 + s.surprise[k] / 100))


def lines(s: Suspects, k: int) -> tuple[str, ...]:
    """Return in words what suspect k counted."""
    share = "" if np.isnan(s.ratio[k]) else f", {s.ratio[k]:.2g} of {s.rule.per}"
    over = " over the last hour, a few at a time" if s.slow[k] else ""
    allowed = f"allowed {s.allowed_per_s[k]:.2g}/s, chance 1 in 10^{s.surprise[k]:.0f}"
    return (
        f"{s.rule.signal}: {number(float(s.per_s[k]))} {s.rule.unit}/s{share}{over}; {allowed}",
        f"half of its peers: at most {s.usual_per_s[k]:.2g}/s",
    )


def merge(every: list[Suspects]) -> tuple[Ids, Floats, dict[int, list[tuple[Suspects, int]]]]:
    """Return ids (ascending) that any rule hits, the largest surprise of each, and (suspects, place) by id."""
    found: dict[int, list[tuple[Suspects, int]]] = {}
    for s in every:
        for k in np.flatnonzero(s.hit).tolist():
            found.setdefault(int(s.ids[k]), []).append((s, k))
    ids = np.array(sorted(found), dtype=np.int32)
    for held in found.values():
        held.sort(key=lambda pair: -float(pair[0].surprise[pair[1]]))
    worst = np.array([found[int(i)][0][0].surprise[found[int(i)][0][1]] for i in ids], dtype=np.float32)
    return ids, worst, found
