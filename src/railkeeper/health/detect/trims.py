"""Trims: packets cut at full queues, on which path, in which plane, and whether in the fabric or at the last hop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.equal_paths import BUSY_PER_S, follow_hot, hot_findings
from railkeeper.health.detect.families import Families, equal_paths
from railkeeper.health.detect.finding import Finding
from railkeeper.health.detect.judging import (
    concluded,
    first_verdicts,
    percent,
    roles_judged,
    summed,
    told_together,
)
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting, last
from railkeeper.health.detect.outlier import PeerSample
from railkeeper.health.detect.planes import planes_of_rails
from railkeeper.health.detect.screen import above
from railkeeper.health.detect.together import Owners
from railkeeper.telemetry.entities import T0_HOST, T0_UPLINK, T1_DOWN

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]

_BY_LIMIT = 0.5
_FABRIC = "trimmed in the fabric: this path is more loaded than those equal to it, or slower"


@dataclass
class State:
    """Families of equal paths, hot ports, last hops and planes."""

    p: dict[str, float]
    families: Families
    owners: Owners
    judged: npt.NDArray[np.uint8]
    hot: Lasting
    last_hop: Lasting
    planes: Lasting
    beside: npt.NDArray[np.int64]
    sample: PeerSample


class Trims:
    """Trims against equal paths, by plane, and at the last hop.

    At the last hop (T0 to host) trims are incast, the job's own doing: told only where they last long. In the fabric
    they mean a path or a plane that is short of capacity.
    """

    about = About(
        name="trims", text="trimmed packets by path, by plane and at the last hop", kinds=("port",),
        needs=("trim_packets", "tx_packets"), uses=("tx_bytes",), against=("peers", "limit"),
        parameters={
            "floor_ratio": (1e-3, "of packets", "trims of a fabric port below this are how transports find their rate"),
            "factor": (4.0, "", "times the mean of equal paths, or of the rail's other planes"),
            "plane_ratio": (1e-4, "of packets", "trims of a whole plane below this are not looked at"),
            "last_hop": (0.05, "of packets", "incast from here on keeps a receiver's senders waiting"),
            "last_hop_s": (900.0, "s", "how long that must last: incast of a job is over sooner, or is its nature"),
            "persist_s": (300.0, "s", "how long the others must last"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which nothing is trimmed."""
        p = settled(self.about, parameters)
        hot, last_hop, wide = (Lasting(p[s], p["hold_s"]) for s in ("persist_s", "last_hop_s", "persist_s"))
        return State(
            p, equal_paths(entities), Owners(entities),
            roles_judged(entities.role, T0_HOST, T0_UPLINK, T1_DOWN), hot, last_hop, wide,
            planes_of_rails(entities, T0_UPLINK, T1_DOWN), PeerSample(entities),
        )  # fmt: skip

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Look at paths, last hops and planes."""
        trims, packets = summed(view, "trim_packets"), column(view, "tx_packets")
        if trims is None or packets is None:
            return state, concluded([], first_verdicts([], state.judged), "port")
        verdicts = first_verdicts([trims], state.judged)
        hot = follow_hot(state.hot, state.families, view, (trims, packets), state.p)
        found = hot_findings(view, hot, self.about.name, "trim_packets", _FABRIC)
        judged = told_together(state.owners, found, verdicts, "port")
        wide = self._planes(state, view, trims, packets)
        return state, concluded(
            [*judged.findings, *self._last_hops(state, view, trims, packets), *wide], judged.verdicts, "port"
        )

    def _last_hops(self, state: State, view: View, trims: Floats, packets: Floats) -> list[Finding]:
        near = above(trims, state.p["last_hop"] * BUSY_PER_S)
        ratio = trims[near] / np.maximum(packets[near], np.float32(BUSY_PER_S))
        long = (view.entities.role[near] == T0_HOST) & (ratio > state.p["last_hop"])
        dark = state.last_hop.ids[np.isnan(trims[state.last_hop.ids])]
        found = last(state.last_hop, view, near[long], ratio[long], dark)
        words = (
            "of packets trimmed at the last hop for long: incast onto this host, or a host that is slow; not the fabric"
        )
        return [
            _finding(int(e), (float(v), state.p["last_hop"], float(s)), (f"{percent(float(v))} {words}",), _BY_LIMIT)
            for e, v, s in zip(found.ids, found.values, found.since_s, strict=True)
        ]

    def _planes(self, state: State, view: View, trims: Floats, packets: Floats) -> list[Finding]:
        """Return a finding for each plane, by tier of ports, that trims far more than the rail's other planes."""
        # The middle of its ports: one hot path does not make a plane.
        ratio = np.where(state.beside >= 0, state.sample.quantile(trims, packets, BUSY_PER_S, 0.5), np.float32(np.nan))
        others = _others(ratio, state.beside)
        hit = np.flatnonzero((ratio > state.p["plane_ratio"]) & (ratio > state.p["factor"] * others)).astype(np.int32)
        dark = state.planes.ids[np.isnan(ratio[state.planes.ids])]
        found = last(state.planes, view, hit, ratio[hit], dark)
        return [
            self._plane(view, trims, (int(g), float(v), float(others[g]), float(s)))
            for g, v, s in zip(found.ids, found.values, found.since_s, strict=True)
        ]

    def _plane(self, view: View, trims: Floats, said: tuple[int, float, float, float]) -> Finding:
        group, value, normal, since_s = said
        mine = np.flatnonzero(view.entities.group == group)
        worst = int(mine[np.argmax(np.nan_to_num(trims[mine]))])
        name = view.entities.name_of(worst)
        words = (
            f"the plane of {name} as a whole trims {percent(value)} of packets in the middle, the rail's other planes "
            f"{percent(normal)}: it is short of capacity, or more is sent into it"
        )
        return _finding(worst, (value, normal, since_s), (words, f"most of them at {name}"), 0.8)


def _finding(port: int, said: tuple[float, float, float], lines: tuple[str, ...], confidence: float) -> Finding:
    """Return a finding; `said` is value, normal and onset."""
    value, normal, since_s = said
    return Finding(
        detector="trims", kind="port", entity=port, verdict="degraded", signal="trim_packets", value=value,
        expected=normal, unit="of packets", against="limit" if confidence <= _BY_LIMIT else "peers", since_s=since_s,
        confidence=confidence, evidence=lines,
    )  # fmt: skip


def _others(ratio: Floats, beside: npt.NDArray[np.int64]) -> Floats:
    """Return (G,) the mean over the other planes of the same rail and tier."""
    known = ~np.isnan(ratio) & (beside >= 0)
    total = np.bincount(beside[known], weights=ratio[known], minlength=len(ratio))
    count = np.bincount(beside[known], minlength=len(ratio))
    place = np.maximum(beside, 0)
    rest = (count[place] - 1) * known
    return np.where(rest > 0, (total[place] - np.nan_to_num(ratio)) / np.maximum(rest, 1), np.nan).astype(np.float32)
