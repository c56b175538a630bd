"""PFC pause: who holds the fabric. Ports held for long, storms, and the tree of holders down to its root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.families import Families, by_switch
from railkeeper.health.detect.finding import V_DEGRADED, V_OK, Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, part_columns, roles_judged
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting, Open, last
from railkeeper.health.detect.outlier import PeerSample
from railkeeper.health.detect.pause_share import LINK, columns_of_priority, held_ports, priorities, shares
from railkeeper.health.detect.pause_tree import RING, PauseTree, pause_trees
from railkeeper.health.detect.pause_words import words

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]

_SIGNALS = (
    "pfc_rx_paused_us", "pfc_tx_paused_us", "pfc_rx_frames", "pfc_tx_frames", "pause_rx_frames", "pause_tx_frames",
)  # fmt: skip


@dataclass
class _Followed:
    """Open holds of one priority: long ones, storms, and those that a switch's watchdog has found."""

    long: Lasting
    storm: Lasting
    watchdog: Lasting


@dataclass
class State:
    """Open holds by priority; the watchdog's; ports by switch."""

    p: dict[str, float]
    sample: PeerSample
    switches: Families
    judged: npt.NDArray[np.uint8]
    followed: dict[str, _Followed]


@dataclass(frozen=True)
class _Open:
    """Ports held now (m,), ascending; since when, and which of them by a storm."""

    ids: Ids
    since_s: npt.NDArray[np.float64]
    storm: npt.NDArray[np.bool_]


class PfcPause:
    """Ports that are held for long, told as one finding for each root that holds them."""

    about = About(
        name="pfc-pause",
        text="ports held by pause for long, storms and deadlocks, traced to the device that holds them all",
        kinds=("port",), needs=_SIGNALS,
        uses=("pfc_storms", "speed_gbps", "rx_discards", "tx_bytes", "queue_watermark_bytes", "ecn_marked_packets"),
        against=("peers", "limit"),
        parameters={
            "held_share": (0.05, "of time", "a port held for less is none of ours; short pauses are how PFC works"),
            "factor": (4.0, "", "times the peers' 90% quantile of the share"),
            "persist_s": (180.0, "s", "how long it must last; holds by hosts that are busy for a moment end sooner"),
            "storm_share": (0.5, "of time", "from here it is a storm, whatever peers do"),
            "storm_s": (40.0, "s", "how long a storm must last; 100 times what PFC watchdogs wait at most (0.4 s)"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
            "link_gbps": (100.0, "Gb/s", "speed of ports whose speed is not read: how long a pause frame holds"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which nothing is held."""
        p = settled(self.about, parameters)
        return State(p, PeerSample(entities), by_switch(entities), roles_judged(entities.role), {})

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Follow holds of each priority, and trace the open ones to their roots."""
        verdicts = first_verdicts([c for s in _SIGNALS for _, c in part_columns(view, s)], state.judged)
        findings: list[Finding] = []
        for priority in sorted({*priorities(view), *state.followed}):
            followed = state.followed.setdefault(priority, _new(state.p))
            held = _follow(state, view, priority, followed)
            verdicts[held.ids[verdicts[held.ids] == V_OK]] = V_DEGRADED
            for tree in pause_trees(view.entities, held.ids):
                findings.append(self._finding(state, view, priority, tree, held))
        return state, concluded(findings, verdicts, view.entities.kind)

    def _finding(self, state: State, view: View, priority: str, tree: PauseTree, held: _Open) -> Finding:
        now = shares(view, priority, _held_by(view, tree), state.p["link_gbps"])
        worst = int(np.argmax(np.nan_to_num(now.share)))
        mine = np.searchsorted(held.ids, now.ids)
        storm = bool(held.storm[np.isin(held.ids, tree.victims)].any())
        other = int(view.entities.other[now.ids[worst]])
        entity = other if other >= 0 else int(now.ids[worst])
        return Finding(
            detector=self.about.name, kind="port", entity=entity,
            verdict="failed" if storm or tree.kind == RING else "degraded",
            signal=_column(view, priority, measured=bool(now.measured[worst])),
            value=float(now.share[worst]), expected=_limit(state, view, priority, now.ids[worst : worst + 1]),
            unit="share of time", against="limit" if storm else "peers", since_s=float(held.since_s[mine].min()),
            confidence=_confidence(now.measured[worst], now.said_here[worst], now.said_there[worst]),
            evidence=words(view, priority, tree, now, state.switches),
            others=tuple(v for v in tree.victims if v != entity),
        )  # fmt: skip


def _held_by(view: View, tree: PauseTree) -> Ids:
    """Return the ports that the root holds itself, ascending."""
    holders = np.array(tree.holders, dtype=np.int32)
    other = view.entities.other[holders]
    return np.sort(np.where(other >= 0, other, holders))


def _follow(state: State, view: View, priority: str, followed: _Followed) -> _Open:
    """Take in one tick of one priority."""
    p = state.p
    held = held_ports(view, priority, p["held_share"], p["link_gbps"])
    long = held.ids[held.share > _limits(state, view, priority, held.ids)]
    # Frames alone can't tell a storm: many short pauses look the same.
    storm = held.ids[(held.share > p["storm_share"]) & held.measured]
    dark = _dark(view, priority, np.union1d(followed.long.ids, followed.storm.ids), p["link_gbps"])
    return _joined(
        last(followed.long, view, long, dark=dark),
        last(followed.storm, view, storm, dark=dark),
        last(followed.watchdog, view, _watchdog(view, priority)),
    )


def _new(p: dict[str, float]) -> _Followed:
    long, storm, watchdog = (Lasting(s, p["hold_s"]) for s in (p["persist_s"], p["storm_s"], 0.0))
    return _Followed(long, storm, watchdog)


def _joined(long: Open, *storms: Open) -> _Open:
    """Return all that is held, with the earliest onset of each."""
    every = np.unique(np.concatenate([long.ids, *(s.ids for s in storms)])).astype(np.int32)
    onset = np.full(len(every), np.inf)
    for some in (long, *storms):
        place = np.searchsorted(every, some.ids)
        onset[place] = np.minimum(onset[place], some.since_s)
    return _Open(every, onset, np.isin(every, np.concatenate([s.ids for s in storms])))


def _dark(view: View, priority: str, ids: npt.NDArray[np.int32], link_gbps: float) -> Ids:
    """Return those of the ids of which neither end says anything in this tick."""
    return ids[np.isnan(shares(view, priority, ids.astype(np.int32), link_gbps).share)].astype(np.int32)


def _limits(state: State, view: View, priority: str, ids: Ids) -> npt.NDArray[np.float32]:
    """Return (m,) the share of time above which a port is held for long: by its peers, in bounds."""
    low, high = state.p["held_share"], state.p["storm_share"]
    peers = column(view, columns_of_priority(priority)[0])
    if peers is None or not len(ids):
        return np.full(len(ids), low, dtype=np.float32)
    normal = state.sample.quantile(peers, None, 0.0)[view.entities.group[ids]] / 1e6
    limits: npt.NDArray[np.float32] = np.clip(np.fmax(normal * state.p["factor"], low), low, high).astype(np.float32)
    return limits


def _limit(state: State, view: View, priority: str, ids: Ids) -> float:
    return float(_limits(state, view, priority, ids)[0])


def _watchdog(view: View, priority: str) -> Ids:
    """Return the ports whose PFC watchdog has found a storm in this tick."""
    values = column(view, f"pfc_storms[{priority}]")
    return np.empty(0, dtype=np.int32) if values is None else np.flatnonzero(values > 0).astype(np.int32)


def _column(view: View, priority: str, *, measured: bool) -> str:
    rx_us, tx_us, rx_frames, tx_frames = columns_of_priority(priority)
    order = (tx_us, rx_us) if measured and priority != LINK else (tx_frames, rx_frames)
    return next((name for name in order if column(view, name) is not None), order[0])


def _confidence(measured: np.bool_, here: np.float32, there: np.float32) -> float:
    """Two witnesses that agree say more than one; frames only bound the time."""
    agree = bool(abs(here - there) < 0.2)
    return (0.95 if agree else 0.8) if measured else (0.6 if agree else 0.5)
