"""ECN balance: a path that is marked more than the paths equal to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.equal_paths import follow_hot, hot_findings
from railkeeper.health.detect.families import Families, equal_paths
from railkeeper.health.detect.judging import first_verdicts, roles_judged, summed, told_together
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting
from railkeeper.health.detect.together import Owners
from railkeeper.telemetry.entities import T0_UPLINK, T1_DOWN

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities


@dataclass
class State:
    """Families of equal paths, and which ports are hot."""

    p: dict[str, float]
    families: Families
    owners: Owners
    judged: npt.NDArray[np.uint8]
    hot: Lasting


class EcnBalance:
    """Uplinks of a T0, and ports down to a T0, that mark far more of their packets than their siblings."""

    about = About(
        name="ecn-balance", text="paths that are marked more than the paths equal to them", kinds=("port",),
        needs=("ecn_marked_packets", "tx_packets"), uses=("tx_bytes",), against=("peers",),
        parameters={
            "floor_ratio": (0.02, "of packets", "marks below this are how congestion control works"),
            "factor": (3.0, "", "times the mean of the siblings"),
            "persist_s": (300.0, "s", "how long it must last; transports move away from a hot path within seconds"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which nothing is hot."""
        judged = roles_judged(entities.role, T0_UPLINK, T1_DOWN)
        p = settled(self.about, parameters)
        hot = Lasting(p["persist_s"], p["hold_s"])
        return State(p, equal_paths(entities), Owners(entities), judged, hot)

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare each port that marks with its siblings."""
        marks, packets = summed(view, "ecn_marked_packets"), column(view, "tx_packets")
        if marks is None or packets is None:
            return state, told_together(state.owners, [], first_verdicts([], state.judged), "port")
        hot = follow_hot(state.hot, state.families, view, (marks, packets), state.p)
        means = "this path is more loaded than those equal to it, or slower"
        findings = hot_findings(view, hot, self.about.name, "ecn_marked_packets", means)
        return state, told_together(state.owners, findings, first_verdicts([marks], state.judged), "port")
