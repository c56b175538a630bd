"""MRC paths: NIC ports with few active paths, told from a plane that is short of paths as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_SKIPPED, Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, number, roles_judged, told_together
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting, last
from railkeeper.health.detect.outlier import PeerSample
from railkeeper.health.detect.planes import planes_of_rails
from railkeeper.health.detect.screen import below
from railkeeper.health.detect.together import Owners
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]
    Ids = npt.NDArray[np.int32]


@dataclass
class State:
    """The peers' sample, ports and planes that are short, and which plane is beside which."""

    p: dict[str, float]
    sample: PeerSample
    owners: Owners
    judged: npt.NDArray[np.uint8]
    ports: Lasting
    planes: Lasting
    planes_of: npt.NDArray[np.int64]


class MrcPaths:
    """Ports with fewer active paths than peers of the plane, and planes with fewer than the rail's other planes.

    Transports replace a path by one of the same plane, so all planes should have alike; NICs without connections have
    none and are not judged.
    """

    about = About(
        name="mrc-paths", text="NIC ports, and planes, with few active paths", kinds=("port",), needs=("ev_active",),
        uses=("tx_bytes",), against=("peers",),
        parameters={
            "low": (0.5, "of peers", "paths in use against the median of NICs of the plane"),
            "plane_low": (0.7, "of the others", "median of a plane against the mean of the rail's other planes"),
            "persist_s": (180.0, "s", "how long it must last; paths come back within minutes of a flap"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which all have paths."""
        p = settled(self.about, parameters)
        ports, planes = (Lasting(p["persist_s"], p["hold_s"]) for _ in range(2))
        return State(
            p, PeerSample(entities), Owners(entities), roles_judged(entities.role, NIC_END),
            ports, planes, planes_of_rails(entities, NIC_END),
        )  # fmt: skip

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare ports with their plane, and planes with each other."""
        active = column(view, "ev_active")
        if active is None:
            return state, concluded([], first_verdicts([], state.judged), "port")
        # A NIC with no connection has no paths: it says nothing.
        median = state.sample.quantile(active, None, 1.0, 0.5)
        verdicts = first_verdicts([active], state.judged)
        low = below(active, np.nan_to_num(median * state.p["low"], nan=-1.0), view.entities.group)
        idle = active[low] == 0
        verdicts[low[idle & (_sent(view, low) <= 0)]] = V_SKIPPED
        planes = self._planes(state, view, median)
        found = self._ports(state, view, active, low[~idle | (_sent(view, low) > 0)], median)
        judged = told_together(state.owners, found, verdicts, "port")
        return state, concluded([*judged.findings, *planes], judged.verdicts, "port")

    def _ports(self, state: State, view: View, active: Floats, low: Ids, median: Floats) -> list[Finding]:
        dark = state.ports.ids[np.isnan(active[state.ports.ids])]
        found = last(state.ports, view, low, active[low], dark)
        normal = median[view.entities.group[found.ids]]
        return [
            self._finding(int(e), float(v), float(n), float(s), f"{number(v)} paths in use, its peers {number(n)}")
            for e, v, n, s in zip(found.ids, found.values, normal, found.since_s, strict=True)
        ]

    def _planes(self, state: State, view: View, median: Floats) -> list[Finding]:
        """Return findings of groups of ports (a plane of a rail) whose median is below that of the rail's others."""
        others = np.full(len(median), np.nan)
        for group in np.flatnonzero(state.planes_of >= 0):
            mine = (state.planes_of == state.planes_of[group]) & ~np.isnan(median)
            mine[group] = False
            others[group] = median[mine].mean() if mine.any() else np.nan
        hit = np.flatnonzero(median < state.p["plane_low"] * others).astype(np.int32)
        dark = state.planes.ids[np.isnan(median[state.planes.ids])]
        found = last(state.planes, view, hit, median[hit], dark)
        return [
            self._plane(view, int(g), float(v), float(others[g]), float(s))
            for g, v, s in zip(found.ids, found.values, found.since_s, strict=True)
        ]

    def _plane(self, view: View, group: int, value: float, normal: float, since_s: float) -> Finding:
        port = int(np.flatnonzero(view.entities.group == group)[0])
        words = (
            f"the plane of {view.entities.name_of(port)} as a whole: "
            f"its NICs have {number(value)} paths in use, those of the rail's other planes {number(normal)}"
        )
        return self._finding(port, value, normal, since_s, words)

    def _finding(self, port: int, value: float, normal: float, since_s: float, words: str) -> Finding:
        return Finding(
            detector=self.about.name, kind="port", entity=port, verdict="degraded", signal="ev_active", value=value,
            expected=normal, unit="paths", against="peers", since_s=since_s, confidence=0.8, evidence=(words,),
        )  # fmt: skip


def _sent(view: View, ids: Ids) -> Floats:
    """Return (m,) bytes per s that ports send; 0 where unknown."""
    sent = column(view, "tx_bytes")
    return np.zeros(len(ids), dtype=np.float32) if sent is None else np.nan_to_num(sent[ids])
