"""CNPs not sent: receivers that see marks and tell nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, number, percent, roles_judged
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting, last
from railkeeper.health.detect.outlier import PeerSample
from railkeeper.health.detect.screen import above
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]


@dataclass
class State:
    """The peers' sample, and who is silent."""

    p: dict[str, float]
    sample: PeerSample
    judged: npt.NDArray[np.uint8]
    silent: Lasting


class CnpSilent:
    """Receivers that get marked packets and send far fewer notifications for them than their peers do.

    Where nobody sends any (transports with other means of congestion control), nobody stands out.
    """

    about = About(
        name="cnp-silent", text="receivers that get marked packets and send no congestion notifications",
        kinds=("port", "nic"), needs=("ecn_marked_rx", "cnp_tx"), uses=(), against=("peers",),
        parameters={
            "marked_per_s": (1000.0, "1/s", "marks below this say nothing: notifications are spaced in time"),
            "share": (0.01, "of peers", "notifications to the mark, against the median of peers"),
            "persist_s": (300.0, "s", "how long it must last"),
            "hold_s": (600.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which nobody is silent."""
        judged = roles_judged(entities.role, *((NIC_END, UNKNOWN_ROLE) if entities.kind == "port" else ()))
        p = settled(self.about, parameters)
        return State(p, PeerSample(entities), judged, Lasting(p["persist_s"], p["hold_s"]))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare notifications to the mark with the median of peers that are marked too."""
        marked, sent = column(view, "ecn_marked_rx"), column(view, "cnp_tx")
        if marked is None or sent is None:
            return state, concluded([], first_verdicts([], state.judged), view.entities.kind)
        near = above(marked, state.p["marked_per_s"])
        normal = self._normal(state, view, marked, sent, near)
        silent = near[sent[near] < state.p["share"] * normal * marked[near]]
        # Without marks there is nothing to tell: that neither heals nor harms.
        found = last(state.silent, view, silent, dark=np.setdiff1d(state.silent.ids, near, assume_unique=True))
        normal = self._normal(state, view, marked, sent, found.ids)
        findings = [
            self._finding(view, int(e), float(s), float(n), (marked, sent))
            for e, s, n in zip(found.ids, found.since_s, normal, strict=True)
        ]
        return state, concluded(findings, first_verdicts([marked], state.judged), view.entities.kind)

    @staticmethod
    def _normal(state: State, view: View, marked: Floats, sent: Floats, ids: npt.NDArray[np.int32]) -> Floats:
        if not len(ids):
            return np.zeros(0, dtype=np.float32)
        return state.sample.quantile(sent, marked, state.p["marked_per_s"], 0.5)[view.entities.group[ids]]

    def _finding(
        self, view: View, entity: int, since_s: float, normal: float, columns: tuple[Floats, Floats]
    ) -> Finding:
        marked, sent = (float(c[entity]) for c in columns)
        ratio = sent / marked if marked > 0 else 0.0
        return Finding(
            detector=self.about.name, kind=view.entities.kind, entity=entity, verdict="degraded", signal="cnp_tx",
            value=ratio, expected=normal, unit="of marks", against="peers", since_s=since_s, confidence=0.8,
            evidence=(
                f"{number(marked)}/s marked packets arrive, {number(sent)}/s notifications leave",
                f"{percent(ratio)} of marks, its peers {percent(normal)}: senders to it are never slowed down",
            ),
        )  # fmt: skip
