"""Rail balance: a NIC of a node that carries less than the node's others, which agree among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.families import families_of
from railkeeper.health.detect.finding import V_OK, V_SKIPPED, Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, needed, percent
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.planes import PlaneTable, to_the_mean_of_others
from railkeeper.health.detect.track import Tracker, follow
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]

# Two others can agree by chance; a node needs so many NICs.
_LEAST_NICS = 4


@dataclass
class State:
    """NICs by node, and which of them are odd."""

    p: dict[str, float]
    table: PlaneTable
    judged: npt.NDArray[np.uint8]
    tracker: Tracker


class RailBalance:
    """A job that works on all NICs of a node loads its rails alike.

    Jobs that use a part of a node do not: so a NIC is judged only while it is busy itself and all other NICs of its
    node are busy and agree closely.
    """

    about = About(
        name="rail-balance", text="a NIC that carries less than the others of its node, which agree", kinds=("nic",),
        needs=("tx_bytes",), uses=("oper_up",), against=("peers",),
        parameters={
            "low": (0.7, "of the others", "a NIC that carries less than this share of the mean of its node's others"),
            "agree": (0.1, "of their mean", "how far the others may lie apart: wider, they do not work on one job"),
            "busy_gbps": (1.0, "Gb/s", "a NIC that sends less is not judged"),
            "persist_s": (300.0, "s", "how long it must last: phases of a job take turns within minutes"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which all rails carry alike."""
        families = families_of(entities.owner.astype(np.int64))
        size = np.diff(families.start)
        rows = [families.in_family(int(f)) for f in np.flatnonzero(size >= _LEAST_NICS)]
        table = np.full((len(rows), int(size.max(initial=0))), -1, dtype=np.int32)
        for row, members in zip(table, rows, strict=True):
            row[: len(members)] = members
        judged = np.full(len(entities), V_SKIPPED, dtype=np.uint8)
        judged[table[table >= 0]] = V_OK
        nodes = PlaneTable(table, np.arange(len(rows), dtype=np.int32))
        return State(settled(self.about, parameters), nodes, judged, Tracker())

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare each NIC with the others of its node."""
        sent = _sent(view)
        if sent is None or not len(state.table.owner):
            return state, concluded([], first_verdicts([], state.judged), "nic")
        values = state.table.values(sent)
        ratio = to_the_mean_of_others(values)
        ratio[~_comparable(values, state.p)] = np.nan
        verdicts = first_verdicts([sent], state.judged)
        unsaid = state.table.ports[np.isnan(ratio) & (state.table.ports >= 0)]
        verdicts[unsaid[verdicts[unsaid] == V_OK]] = V_SKIPPED
        hit = np.sort(state.table.ports[ratio < state.p["low"]])
        need, of = needed(state.p["persist_s"], view.tick_s)
        dark = np.intersect1d(state.tracker.ids, unsaid)
        every = np.full(len(view.entities), np.nan, dtype=np.float32)
        every[state.table.ports[state.table.ports >= 0]] = ratio[state.table.ports >= 0]
        ids, since_s = follow(
            state.tracker, hit, view.now_s, need, state.p["hold_s"], every[hit], blind=dark, of=of
        )  # fmt: skip
        findings = [
            self._finding(view, int(n), float(v), float(s))
            for n, v, s in zip(ids, state.tracker.open_values, since_s, strict=True)
        ]
        return state, concluded(findings, verdicts, "nic")

    def _finding(self, view: View, nic: int, value: float, since_s: float) -> Finding:
        name = view.entities.name_of(nic)
        return Finding(
            detector=self.about.name, kind="nic", entity=nic, verdict="degraded", signal="tx_bytes", value=value,
            expected=1.0, unit="of the other rails", against="peers", since_s=since_s, confidence=0.6,
            evidence=(
                f"{name} sends {percent(value)} of what the other NICs of its node send, which agree among themselves",
            ),
        )  # fmt: skip


def _sent(view: View) -> Floats | None:
    """Return (n,) bytes per s that each NIC sends: its own column, else the sum over its ports."""
    own = column(view, "tx_bytes")
    ports = view.beside.get("port")
    sent = None if ports is None else column(ports, "tx_bytes")
    if own is not None or ports is None or sent is None:
        return own
    ends = np.flatnonzero(ports.entities.role == NIC_END)
    owner = ports.entities.owner[ends]
    values = sent[ends]
    up = column(ports, "oper_up")
    # A NIC with a port that is down or unread is not judged: what it lacks is told there.
    values = np.where(up[ends] == 0, np.nan, values) if up is not None else values
    total = np.bincount(owner, weights=values, minlength=len(view.entities))
    seen = np.bincount(owner, minlength=len(view.entities))
    return np.where(seen > 0, total, np.nan).astype(np.float32)


def _comparable(values: Floats, p: dict[str, float]) -> npt.NDArray[np.bool_]:
    """(N, P) whether all of a node are busy, and its others agree: their spread is small against their mean."""
    busy = (values * 8e-9 >= p["busy_gbps"]) | np.isnan(values)
    known = ~np.isnan(values)
    n = known.sum(axis=1, keepdims=True) - known
    x = np.nan_to_num(values.astype(np.float64))
    mean = (x.sum(axis=1, keepdims=True) - x) / np.maximum(n, 1)
    square = ((x**2).sum(axis=1, keepdims=True) - x**2) / np.maximum(n, 1)
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    alike: npt.NDArray[np.bool_] = (spread <= p["agree"] * mean) & (n >= _LEAST_NICS - 1)
    return alike & busy.all(axis=1, keepdims=True)
