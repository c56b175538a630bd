"""PCIe of NICs: narrower or slower than it can be, errors and replays, stalls, overflows."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    only,
)
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.health.detect.peers import quantiles
from railkeeper.health.detect.sparse import union

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Pairs = list[tuple[Suspects, int]]

TRAINED = (("pcie_width", "pcie_width_max", "lanes"), ("pcie_speed_gts", "pcie_speed_max_gts", "GT/s"))
COUNTED = (
    "pcie_fatal_errors",
    "pcie_nonfatal_errors",
    "pcie_correctable_errors",
    "pcie_replays",
    "pcie_stalled_seconds",
    "pcie_buffer_overflows",
)
# What comes and goes with the phases of a job.
PHASES = ("pcie_stalled_seconds", "pcie_buffer_overflows")
# Steps of width and speed are halves; below this share of what is usual is a step down.
STEP = 0.9
# More surprising than any count: a link that is a step down stands first.
DOWN_WEIGHT = 1000.0
WORDS = {
    "pcie_fatal_errors": "the NIC needs a reset; the host may have lost it",
    "pcie_nonfatal_errors": "transactions are lost: a bad slot, riser, retimer or card",
    "pcie_correctable_errors": "repaired so far: signal integrity of the slot, riser, retimer or card",
    "pcie_replays": "sent again by the link layer: signal integrity, and bandwidth lost",
    "pcie_stalled_seconds": "the NIC waits for the host: PCIe, memory or the IOMMU is the bottleneck, not the network",
    "pcie_buffer_overflows": "arrived and dropped, for PCIe was too slow: the host, not the network",
}


@dataclass
class Lasting:
    """Since when, and until when (unix s), something has gone on at each NIC (n,)."""

    since_s: npt.NDArray[np.float64]
    last_s: npt.NDArray[np.float64]


@dataclass
class State(CountedState):
    """Beside what all detectors of counts remember: how long a stall has lasted."""

    lasting: dict[str, Lasting] = field(default_factory=dict)


@dataclass(frozen=True)
class Down:
    """A NIC's link to its host is below what it should be: share of it, and what the peers say."""

    signal: str
    value: float
    want: float
    unit: str
    against: str


class Pcie:
    """NICs whose PCIe is a step down, errs, stalls or overflows."""

    about = About(
        name="pcie",
        text="PCIe of a NIC: narrow, slow, erring, stalled or overflowing.",
        kinds=("nic",),
        needs=(),
        uses=(*(name for a, b, _ in TRAINED for name in (a, b)), *COUNTED),
        against=("peers", "limit"),
        parameters={
            "failed_share": (0.25, "ratio", "share of width or speed from which down the link has failed"),
            "correctable_floor_per_s": (0.1, "1/s", "repaired errors, and replays, that every NIC may have"),
            "nonfatal_floor_per_s": (1e-5, "1/s", "errors that lost a transaction that every NIC may have: one a day"),
            "stalled_floor": (0.05, "ratio", "share of the time that every NIC may stall"),
            "stalled_s": (
                300,
                "s",
                "stalls and overflows have to go on so long: hosts that load data stall for a minute",
            ),
            "overflow_floor_per_s": (10, "1/s", "overflows that every NIC may have"),
            **CHANCE,
            **PERSISTENCE,
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge width and speed, then the counters."""
        down = _down(view)
        counted = [s for rule in _rules(state.p) if (s := _one(state, view, rule)) is not None]
        ids, worst, found = merge(counted)
        every = union(ids, np.array(sorted(down), dtype=np.int32))
        weights = np.full(len(every), DOWN_WEIGHT, dtype=np.float32)
        alone = ~np.isin(every, list(down))
        weights[alone] = worst[np.searchsorted(ids, every[alone])]
        hits = Hits(every, weights, lambda i: _say(state, view, down, found, int(every[i])))
        names = (*(a for a, _, _ in TRAINED), *COUNTED)
        return state, tell(state.cases, view, hits, state.p, unread(view, names))


def _down(view: View) -> dict[int, Down]:
    """Return the NICs that are a step down: of their own maximum where their peers are not, or of their peers."""
    found: dict[int, Down] = {}
    for now_name, max_name, unit in TRAINED:
        now, most = view.gauge(now_name), view.gauge(max_name)
        if now is None:
            continue
        middle = quantiles(view, now, (0.5,))[0][view.entities.group]
        can = np.full(len(now), np.nan, dtype=np.float32) if most is None else most
        under_own = now < STEP * can
        # A slot that is narrow by design is narrow at all peers: then their middle is under the maximum as well.
        designed = middle < STEP * can
        under_peers = now < STEP * middle
        for i in np.flatnonzero((under_own & ~designed) | under_peers).tolist():
            want, how = (middle[i], "peers") if under_peers[i] else (can[i], "limit")
            new = Down(now_name, float(now[i]), float(want), unit, how)
            if i not in found or new.value / new.want < found[i].value / found[i].want:
                found[i] = new
    return found


def _rules(p: dict[str, float]) -> tuple[Rule, ...]:
    repaired, lost = p["correctable_floor_per_s"], p["nonfatal_floor_per_s"]
    return (
        Rule("pcie_fatal_errors", "", lost / 10, 0, 0, "times"),
        Rule("pcie_nonfatal_errors", "", lost, 0, 0, "times"),
        Rule("pcie_correctable_errors", "", repaired, 0, 0, "times"),
        Rule("pcie_replays", "", repaired, 0, 0, "times"),
        Rule("pcie_stalled_seconds", "", p["stalled_floor"], 0, p["stalled_floor"], "s"),
        Rule("pcie_buffer_overflows", "", p["overflow_floor_per_s"], 0, p["overflow_floor_per_s"], "packets"),
    )


def _one(state: State, view: View, rule: Rule) -> Suspects | None:
    found = state.suspects(view, rule)
    if found is None or rule.signal not in PHASES:
        return found
    return only(found, _lasts(state, view, found))


def _lasts(state: State, view: View, s: Suspects) -> npt.NDArray[np.bool_]:
    """Return (m,) True where it has gone on for `stalled_s`, with pauses of a fifth of that at most."""
    never = np.full(len(view.entities), -np.inf)
    held = state.lasting.setdefault(s.rule.signal, Lasting(never, never.copy()))
    ids = s.ids[s.hit]
    anew = ids[view.now_s - held.last_s[ids] > max(state.p["stalled_s"] / 5, 2.5 * view.tick_s)]
    held.since_s[anew], held.last_s[ids] = view.now_s, view.now_s
    lasts: npt.NDArray[np.bool_] = view.now_s - held.since_s[s.ids] >= state.p["stalled_s"]
    return lasts


def _say(state: State, view: View, down: dict[int, Down], found: dict[int, Pairs], nic: int) -> Said:
    pairs = found.get(nic, [])
    more = tuple(line for s, k in pairs for line in (lines(s, k)[0], WORDS[s.rule.signal]))
    if nic in down:
        return _narrow(state, view, down[nic], nic, more)
    s, k = pairs[0]
    fatal = s.rule.signal == "pcie_fatal_errors"
    return Said(
        s.rule.signal, float(s.per_s[k]), float(s.allowed_per_s[k]), f"{s.rule.unit}/s", against(s, k),
        confidence(s, k), (*more, lines(s, k)[1]), V_FAILED if fatal else V_DEGRADED,
    )  # fmt: skip


def _narrow(state: State, view: View, d: Down, nic: int, more: tuple[str, ...]) -> Said:
    share = d.value / d.want
    can = at(view, f"{d.signal}_max" if d.signal == "pcie_width" else "pcie_speed_max_gts", np.array([nic]))[0]
    return Said(
        d.signal, d.value, d.want, d.unit, d.against, 0.9,
        (
            f"PCIe runs at {d.value:g} {d.unit}, its {'peers' if d.against == 'peers' else 'maximum'} at {d.want:.4g}",
            f"the NIC itself can do {can:g} {d.unit}" if np.isfinite(can) else "the NIC does not say what it can do",
            "a bad contact, riser, retimer or slot; network bandwidth of this NIC is limited to that share",
            *more,
        ),
        V_FAILED if share <= state.p["failed_share"] else V_DEGRADED,
    )  # fmt: skip
