"""Rail balance: a NIC of a node that carries less than the node's others, which agree among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.families import families_of
from railkeeper.health.detect.finding import V_OK, V_SKIPPED, Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, percent
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting, Open, last
from railkeeper.health.detect.past import Past, update
from railkeeper.health.detect.planes import PlaneTable, to_the_mean_of_others
from railkeeper.health.detect.screen import below
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
    """NICs by node, which of them are odd, their past (n,) shares, and when each node (N,) was last busy."""

    p: dict[str, float]
    table: PlaneTable
    judged: npt.NDArray[np.uint8]
    odd: Lasting
    past: Past
    busy_s: npt.NDArray[np.float64]


class RailBalance:
    """A job that works on all NICs of a node loads its rails alike.

    Jobs that use a part of a node do not, and some jobs load rails unevenly by design. So a NIC is judged only while it
    is busy and all other NICs of its node are busy and agree closely, and only if it was their like earlier in the job.
    """

    about = About(
        name="rail-balance", text="a NIC that carries less than the others of its node, which agree", kinds=("nic",),
        needs=("tx_bytes",), uses=("oper_up",), against=("peers", "past"),
        parameters={
            "low": (0.7, "of the others", "a NIC that carries less than this share of the mean of its node's others"),
            "agree": (0.1, "of their mean", "how far the others may lie apart: wider, they do not work on one job"),
            "busy_gbps": (1.0, "Gb/s", "a NIC that sends less is not judged"),
            "was": (0.9, "of the others", "what it must have carried before, in the same job, to be told now"),
            "half_life_s": (1800.0, "s", "past that lies so far back weighs half"),
            "least_past_s": (600.0, "s", "so much past is needed"),
            "idle_s": (120.0, "s", "a node that was idle for longer begins another job; checkpoints are shorter"),
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
        p = settled(self.about, parameters)
        odd, past = Lasting(p["persist_s"], p["hold_s"]), Past(len(entities), p["half_life_s"])
        return State(p, nodes, judged, odd, past, np.full(len(rows), -np.inf))

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
        found = _odd(state, view, values, ratio, unsaid)
        findings = [
            self._finding(view, int(n), float(v), float(s))
            for n, v, s in zip(found.ids, found.values, found.since_s, strict=True)
        ]
        return state, concluded(findings, verdicts, "nic")

    def _finding(self, view: View, nic: int, value: float, since_s: float) -> Finding:
        name = view.entities.name_of(nic)
        return Finding(
            detector=self.about.name, kind="nic", entity=nic, verdict="degraded", signal="tx_bytes", value=value,
            expected=1.0, unit="of the other rails", against="peers", since_s=since_s, confidence=0.6,
            evidence=(
                f"{name} sends {percent(value)} of what the other NICs of its node send, which agree among themselves",
                "earlier in the same job it was their like",
            ),
        )  # fmt: skip


def _odd(state: State, view: View, values: Floats, ratio: Floats, unsaid: npt.NDArray[np.int32]) -> Open:
    """Return the NICs that carry less than their mates and did not before; learn what the others carry."""
    p, there = state.p, state.table.ports >= 0
    share = np.full(len(view.entities), np.nan, dtype=np.float32)
    share[state.table.ports[there]] = ratio[there]
    _forget_idle(state, view, values)
    low = below(share, p["low"])
    past = state.past
    known = (past.mean[low] >= p["was"]) & (past.weight_s[low] >= p["least_past_s"])
    update(past, share, view.now_s, skip=low)
    hit = low[known]
    return last(state.odd, view, hit, share[hit], np.intersect1d(state.odd.ids, unsaid))


def _forget_idle(state: State, view: View, values: Floats) -> None:
    """Let nodes that were idle for long forget: what comes now is another job."""
    busy = (np.nan_to_num(values) * 8e-9 >= state.p["busy_gbps"]).any(axis=1)
    unread = np.isnan(values).all(axis=1)
    state.busy_s[busy | unread] = view.now_s
    idle = state.table.ports[view.now_s - state.busy_s > state.p["idle_s"]]
    idle = idle[idle >= 0]
    state.past.mean[idle], state.past.spread[idle], state.past.weight_s[idle] = np.nan, 0.0, 0.0


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
