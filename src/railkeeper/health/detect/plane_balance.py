"""Plane balance: planes of a NIC that do not carry alike, told from a plane that is short as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_DEGRADED, V_OK, V_SKIPPED, Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, number, percent, roles_judged
from railkeeper.health.detect.known import column, settled
from railkeeper.health.detect.lasting import Lasting, Open, last
from railkeeper.health.detect.plane_excuses import Excuses, no_excuses, without_excuse
from railkeeper.health.detect.plane_kernels import compare_planes
from railkeeper.health.detect.planes import PlaneTable, plane_table, to_the_mean_of_others
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

# A plane, or a T0, is short as a whole when more than half of the NICs that send through it are.
_MOST = 0.5
_LEAST = 4
_NAMED = 5


@dataclass
class State:
    """Ports by NIC and plane; which of them are odd; which planes are short in total."""

    p: dict[str, float]
    table: PlaneTable
    rails: list[npt.NDArray[np.int64]]
    judged: npt.NDArray[np.uint8]
    odd: Lasting
    short: Lasting
    excuses: Excuses


@dataclass(frozen=True)
class _Tick:
    """What the planes carry.

    - ratio: (N, P) each port's bytes to the mean of its NIC's others; NaN: not judged
    - total: (D,) bytes by domain over busy NICs with all ports; down: (D,) ports out of service
      of busy NICs
    """

    ratio: Floats
    total: npt.NDArray[np.float64]
    down: npt.NDArray[np.int64]


class PlaneBalance:
    """A transport that sprays evenly loads all planes of a NIC alike, whatever the job does: what differs is a fault.

    Only what a NIC sends is judged: what it receives is the choice of others.
    """

    about = About(
        name="plane-balance", text="planes of a NIC that do not carry alike, and planes that are short as a whole",
        kinds=("port",), needs=("tx_bytes",), uses=("oper_up", "admin_up", "speed_gbps"), against=("peers",),
        parameters={
            "low": (0.8, "of the others", "a plane that carries less than this share of the mean of its NIC's others"),
            "plane_low": (0.93, "of the others", "the same of all NICs of a rail together: averages are far steadier"),
            "busy_gbps": (1.0, "Gb/s", "a NIC that sends less in all says nothing: few packets spread unevenly"),
            "persist_s": (180.0, "s", "how long it must last; planes are taken out and back within seconds"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which all planes carry alike."""
        table = plane_table(entities)
        judged = np.full(len(entities), V_SKIPPED, dtype=np.uint8)
        judged[table.ports[table.ports >= 0]] = V_OK
        if not len(table.owner):
            judged = roles_judged(entities.role, NIC_END)
        p = settled(self.about, parameters)
        odd, short = (Lasting(p["persist_s"], p["hold_s"]) for _ in range(2))
        excuses = no_excuses(int(entities.domain.max(initial=-1)) + 1)
        return State(p, table, _rails(entities, table), judged, odd, short, excuses)

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Compare the planes of each NIC, then those of all NICs together."""
        sent = column(view, "tx_bytes")
        if sent is None or not len(state.table.owner):
            return state, concluded([], first_verdicts([], state.judged), "port")
        tick = _look(state, view, sent)
        verdicts = first_verdicts([sent], state.judged)
        idle = state.table.ports[np.isnan(tick.ratio) & (state.table.ports >= 0)]
        verdicts[idle[verdicts[idle] == V_OK]] = V_SKIPPED
        odd = _odd(state, view, tick)
        verdicts[odd.ids] = V_DEGRADED
        findings = [*_of_ports(state, view, tick, odd), *_of_planes(state, view, tick, odd.ids)]
        return state, concluded(findings, verdicts, "port")


def _rails(entities: Entities, table: PlaneTable) -> list[npt.NDArray[np.int64]]:
    """Return the domains of each rail: those in which a NIC has its ports."""
    if not len(table.owner):
        return []
    first = np.sort(np.where(table.ports >= 0, entities.domain[np.maximum(table.ports, 0)], -1), axis=1)
    return [row[row >= 0].astype(np.int64) for row in np.unique(first, axis=0)]


def _look(state: State, view: View, sent: Floats) -> _Tick:
    entities, ports = view.entities, state.table.ports
    names = view.block.gauge_names
    states = np.array([names.index(name) for name in ("oper_up", "admin_up") if name in names], dtype=np.int64)
    n_domains = int(entities.domain.max(initial=-1)) + 1
    tick = _Tick(np.empty(ports.shape, np.float32), np.zeros(n_domains), np.zeros(n_domains, dtype=np.int64))
    least = state.p["busy_gbps"] * 1e9 / 8
    compare_planes(
        ports, entities.other, entities.domain, sent, view.block.gauges, states, least,
        tick.ratio, tick.total, tick.down,
    )  # fmt: skip
    return tick


def _odd(state: State, view: View, tick: _Tick) -> Open:
    ports = state.table.ports
    mask = tick.ratio < state.p["low"]
    low, ratio = ports[mask], tick.ratio[mask]
    order = np.argsort(low)
    hit = without_excuse(state.excuses, low[order], view.entities.domain, tick.down, (view.now_s, view.tick_s))
    dark = np.intersect1d(state.odd.ids, ports[np.isnan(tick.ratio)]) if len(state.odd.ids) else None
    return last(state.odd, view, hit, ratio[order][np.searchsorted(low[order], hit)], dark)


def _of_ports(state: State, view: View, tick: _Tick, odd: Open) -> list[Finding]:
    """Return findings of odd ports: one for a plane or a T0 where most NICs are odd, else one a port."""
    if not len(odd.ids):
        return []
    judged = state.table.ports[~np.isnan(tick.ratio)]
    found = []
    for members, words in _grouped(view, odd.ids, judged):
        worst = members[np.argmin(odd.values[members])]
        port, value = int(odd.ids[worst]), float(odd.values[worst])
        lines: tuple[str, ...] = (
            f"{view.entities.name_of(port)} sends {percent(value)} of what its NIC's other planes send",
        )
        down = int(tick.down[view.entities.domain[port]])
        if down and not words:
            lines += (f"{down} ports of its plane are down on NICs that work: who sends to those avoids the plane too",)
        since_s = float(odd.since_s[members].min())
        found.append(_finding(port, value, since_s, (*words, *lines), odd.ids[members]))
    return found


def _grouped(view: View, odd: Ids, judged: Ids) -> list[tuple[npt.NDArray[np.int64], tuple[str, ...]]]:
    """Return (positions in odd, words): by plane where most of it is odd, then by T0, else one by one."""
    entities, left = view.entities, np.ones(len(odd), dtype=np.bool_)
    other = entities.other
    t0 = np.where(other >= 0, entities.owner[np.maximum(other, 0)], -1)
    found: list[tuple[npt.NDArray[np.int64], tuple[str, ...]]] = []
    for key, what in ((entities.domain, "plane"), (t0, "T0")):
        struck = np.bincount(key[odd[left]] + 1, minlength=int(key.max(initial=0)) + 2)
        every = np.bincount(key[judged] + 1, minlength=len(struck))
        for k in np.flatnonzero((struck >= _LEAST) & (struck > _MOST * every)):
            mine = np.flatnonzero(left & (key[odd] + 1 == k))
            left[mine] = False
            where = _where(view, int(odd[mine[0]]), what)
            found.append((mine, (f"{where} as a whole: {struck[k]} of {every[k]} busy NICs send less through it",)))
    found += [(np.array([i]), ()) for i in np.flatnonzero(left)]
    return found


def _where(view: View, port: int, what: str) -> str:
    if what == "plane":
        return f"the plane of {view.entities.name_of(port)}"
    return f"the T0 of {view.entities.name_of(port)}"


def _of_planes(state: State, view: View, tick: _Tick, odd: Ids) -> list[Finding]:
    """Return a finding for each plane that is short in total although hardly any NIC of it is odd."""
    p = state.p
    ratio = np.full(len(tick.total), np.nan, dtype=np.float32)
    for rail in state.rails:
        ratio[rail] = to_the_mean_of_others(tick.total[rail][None, :].astype(np.float32))[0]
    hit = np.flatnonzero(ratio < p["plane_low"]).astype(np.int32)
    dark = state.short.ids[np.isnan(ratio[state.short.ids])]
    short = last(state.short, view, hit, ratio[hit], dark)
    told = set(view.entities.domain[odd].tolist())
    return [
        _short(view, state.table, d, float(v), float(s))
        for d, v, s in zip(short.ids.tolist(), short.values, short.since_s, strict=True) if d not in told
    ]  # fmt: skip


def _short(view: View, table: PlaneTable, domain: int, value: float, since_s: float) -> Finding:
    every = table.ports[table.ports >= 0]
    ports = np.sort(every[view.entities.domain[every] == domain])
    where = _where(view, int(ports[0]), "plane")
    words = f"{where} as a whole carries {percent(value)} of what the other planes of the rail carry"
    return _finding(int(ports[0]), value, since_s, (words, f"{number(len(ports))} NICs send through it"), ports)


def _finding(port: int, value: float, since_s: float, lines: tuple[str, ...], others: Ids) -> Finding:
    """Return a finding; what many NICs say is surer than what one does."""
    return Finding(
        detector="plane-balance", kind="port", entity=port, verdict="degraded", signal="tx_bytes", value=value,
        expected=1.0, unit="of the other planes", against="peers", since_s=since_s,
        confidence=0.9 if len(others) > 1 else 0.8, evidence=lines, others=tuple(int(o) for o in others if o != port),
    )  # fmt: skip
