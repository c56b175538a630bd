"""Slow NIC: moves less than its mates while they are busy, and holds the network back or waits for its host.

Slow is not idle: who has nothing to send is not told. What tells them apart is the evidence that the host can't take
what comes: pause frames that the NIC sends, drops on arrival, PCIe stalls. Those few are looked at closely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases, tell
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.known import at, columns_of, settled, unread
from railkeeper.health.detect.screen import above
from railkeeper.health.detect.sparse import union
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

BYTES = ("tx_bytes", "rx_bytes")
US = 1e-6
LEAST_MATES = 4
# Of more mates than this a sample is enough for a median.
MOST_MATES = 64


@dataclass
class State:
    """Open cases, and who is mate of whom: ids in the order of their place, and where each place begins."""

    p: dict[str, float]
    cases: Cases
    place: npt.NDArray[np.int64]
    by_place: Ids
    starts: npt.NDArray[np.int64]


class SlowNic:
    """NICs that are slow for a reason of their host."""

    about = About(
        name="slow-nic",
        text="A NIC moves less than its busy mates, and its host does not take what comes.",
        kinds=("port", "nic"),
        needs=BYTES,
        uses=(
            *BYTES,
            "pfc_tx_paused_us",
            "pfc_tx_frames",
            "pause_tx_frames",
            "rx_discards",
            "pcie_stalled_seconds",
            "pcie_buffer_overflows",
        ),
        against=("peers", "limit"),
        parameters={
            "slow_share": (0.8, "ratio", "slower than this share of the middle of its mates is slow"),
            "idle_share": (0.02, "ratio", "slower than this share is idle, and not told"),
            "busy_bytes_per_s": (1e9, "bytes/s", "the middle of the mates has to move so much for them to be busy"),
            "paused_share": (
                0.02,
                "ratio",
                "share of the time in which the NIC holds its switch that tells of a slow host",
            ),
            "pause_per_s": (1000, "1/s", "pause frames sent that tell of a slow host where their time is not counted"),
            "drops_per_s": (100, "1/s", "drops on arrival, or overflows, that tell of a slow host"),
            "stalled_share": (0.05, "ratio", "share of the time in which the NIC waits for PCIe that tells of it"),
            **PERSISTENCE,
            "need_ticks": (8, "ticks", "hits that open a finding: phases of a job last seconds, a slow host lasts"),
            "persist_s": (240, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (10, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        place = _place(entities)
        ids = np.flatnonzero(place >= 0).astype(np.int32)
        by_place = ids[np.argsort(place[ids], kind="stable")]
        starts = np.searchsorted(place[by_place], np.arange(int(place.max(initial=-1)) + 2))
        return State(settled(self.about, parameters), cases(self.about, entities), place, by_place, starts)

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Look at those that hold the network or wait for their host, and compare them with their mates."""
        ids, why = _held_back(state, view)
        moved, middle = _compare(state, view, ids)
        p = state.p
        slow = (moved < p["slow_share"] * middle) & (moved > p["idle_share"] * middle)
        hit = slow & (middle >= p["busy_bytes_per_s"])
        found, rate, usual = ids[hit], moved[hit], middle[hit]
        hits = Hits(
            found,
            usual / rate,
            lambda i: _say(view, float(rate[i]), float(usual[i]), {n: v[hit][i] for n, v in why.items()}),
        )
        return state, tell(state.cases, view, hits, p, unread(view, BYTES))


def _place(entities: Entities) -> npt.NDArray[np.int64]:
    """Return (n,) where each one's mates are: NIC ends under one switch, NICs of one node; -1 for all others.

    Schedulers place jobs on neighbours, so mates most likely work for the same job.
    """
    n = len(entities)
    if entities.kind != "port":
        return entities.owner.astype(np.int64)
    out = np.full(n, -1, dtype=np.int64)
    ids = np.flatnonzero((entities.role == NIC_END) & (entities.other >= 0))
    out[ids] = entities.owner[entities.other[ids]]
    return out


def _held_back(state: State, view: View) -> tuple[Ids, dict[str, Floats]]:
    """Return ids (ascending) with evidence of a slow host, and by reason its size at all of them."""
    p, found = state.p, np.empty(0, dtype=np.int32)
    reasons = {
        **dict.fromkeys(columns_of(view, ("pfc_tx_paused_us",)), p["paused_share"] / US),
        **dict.fromkeys(columns_of(view, ("pfc_tx_frames", "pause_tx_frames")), p["pause_per_s"]),
        **dict.fromkeys(("rx_discards", "pcie_buffer_overflows"), p["drops_per_s"]),
        "pcie_stalled_seconds": p["stalled_share"],
    }
    for name, limit in reasons.items():
        rate = view.rate(name)
        if rate is not None:
            found = union(found, above(rate, limit))
    found = found[state.place[found] >= 0]
    return found, {name: at(view, name, found) for name in reasons}


def _moved(view: View, ids: Ids) -> Floats:
    both = np.array([at(view, name, ids) for name in BYTES])
    larger: Floats = np.fmax(both[0], both[1])
    return larger


def _compare(state: State, view: View, ids: Ids) -> tuple[Floats, Floats]:
    """Return (m,) bytes a second of each, the larger direction, and the middle of its busy mates; NaN with too few."""
    middle = np.full(len(ids), np.nan, dtype=np.float32)
    known: dict[int, float] = {}
    for j, i in enumerate(ids.tolist()):
        place = int(state.place[i])
        if place not in known:
            known[place] = _middle(state, view, place)
        middle[j] = known[place]
    return _moved(view, ids), middle


def _middle(state: State, view: View, place: int) -> float:
    mates = state.by_place[state.starts[place] : state.starts[place + 1]]
    rates = _moved(view, mates[:: max(1, len(mates) // MOST_MATES)])
    busy = rates[rates >= state.p["busy_bytes_per_s"]]
    return float(np.median(busy)) if len(busy) >= LEAST_MATES else float("nan")


def _say(view: View, moved: float, middle: float, why: dict[str, float]) -> Said:
    facts = {name: float(value) for name, value in why.items() if value > 0}
    mates = "NICs of its node" if view.entities.kind == "nic" else "ports under its switch"
    return Said(
        "rx_bytes", moved, middle, "bytes/s", "peers", 0.8,
        (
            f"moves {moved / 1e9:.3g} GB/s, the middle of the busy {mates} {middle / 1e9:.3g} GB/s",
            *(_fact(name, value) for name, value in sorted(facts.items())),
            "the host, its PCIe or its memory is slow; the network waits for it, not the other way round",
        ),
    )  # fmt: skip


def _fact(name: str, value: float) -> str:
    if name.startswith("pfc_tx_paused_us"):
        return f"holds its switch {value * US:.0%} of the time ({name})"
    if name == "pcie_stalled_seconds":
        return f"waits for PCIe {value:.0%} of the time"
    return f"{name}: {value:.3g}/s"
