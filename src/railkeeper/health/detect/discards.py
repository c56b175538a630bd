"""Discards by reason: on arrival at a host or at a switch, on the way out, wrong lengths, unknown protocols."""

from __future__ import annotations

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
from railkeeper.health.detect.ends import HALF, switched_off
from railkeeper.health.detect.finding import V_DEGRADED, V_FAILED, Judged
from railkeeper.health.detect.known import at, settled, unread
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

SIGNALS = ("rx_discards", "tx_discards", "rx_length_errors", "rx_unknown_protocol")


class Discards:
    """Good packets that were dropped, and frames that do not fit, with the reason."""

    about = About(
        name="discards",
        text="Packets dropped by a port, by reason: host, buffer, congestion, MTU, protocol.",
        kinds=("port",),
        needs=(),
        uses=(
            *SIGNALS,
            "rx_packets",
            "tx_packets",
            "oper_up",
            "admin_up",
            "pcie_stalled_seconds",
            "pcie_buffer_overflows",
        ),
        against=("peers", "limit"),
        parameters={
            "floor_per_s": (100, "1/s", "drops that every port may have in bursts; others warn from 100/s"),
            "floor_ratio": (1e-5, "ratio", "drops per packet that every port may have"),
            "rare_floor_per_s": (1, "1/s", "wrong lengths and unknown protocols that every port may have"),
            "failed_ratio": (0.01, "ratio", "share of dropped packets from which a port has failed"),
            **CHANCE,
            **PERSISTENCE,
            "need_ticks": (4, "ticks", "hits that open a finding: congestion comes in bursts"),
            "persist_s": (60, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (5, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> CountedState:
        """Return the state before the first tick."""
        return CountedState(settled(self.about, parameters), cases(self.about, entities))

    def judge(self, state: CountedState, view: View) -> tuple[CountedState, Judged]:
        """Judge each reason that the frame has."""
        every = [s for rule in _rules(state.p) if (s := _one(state, view, rule)) is not None]
        ids, worst, found = merge(every)
        hits = Hits(ids, worst, lambda i: _say(state, view, found[int(ids[i])]))
        return state, tell(state.cases, view, hits, state.p, unread(view, SIGNALS))


def _rules(p: dict[str, float]) -> tuple[Rule, ...]:
    """Return the rules; a leak that is slower than the floor is no reason to call anyone."""
    often, ratio, rare = p["floor_per_s"], p["floor_ratio"], p["rare_floor_per_s"]
    return (
        Rule("rx_discards", "rx_packets", often, ratio, often, "packets"),
        Rule("tx_discards", "tx_packets", often, ratio, often, "packets"),
        Rule("rx_length_errors", "rx_packets", rare, 0, rare, "frames"),
        Rule("rx_unknown_protocol", "rx_packets", rare, 0, rare, "packets"),
    )


def _one(state: CountedState, view: View, rule: Rule) -> Suspects | None:
    found = state.suspects(view, rule)
    if found is None or rule.signal != "tx_discards":
        return found
    # Packets for a port that somebody switched off have nowhere to go: that is meant.
    return only(found, ~switched_off(view, found.ids))


def _say(state: CountedState, view: View, pairs: list[tuple[Suspects, int]]) -> Said:
    s, k = pairs[0]
    failed = bool(s.ratio[k] >= state.p["failed_ratio"])
    rest = tuple(line for other, j in pairs[1:] for line in lines(other, j)[:1])
    return Said(
        s.rule.signal, float(s.per_s[k]), float(s.allowed_per_s[k]), f"{s.rule.unit}/s", against(s, k),
        confidence(s, k), (*lines(s, k)[:1], _reason(view, s.rule.signal, int(s.ids[k])), *lines(s, k)[1:], *rest),
        V_FAILED if failed else V_DEGRADED,
    )  # fmt: skip


def _reason(view: View, signal: str, port: int) -> str:
    e = view.entities
    other = int(e.other[port])
    there = e.name_of(other) if other >= 0 else "the other end"
    if signal == "rx_length_errors":
        return f"frames too long, too short or cut: the MTU here differs from that of {there}, or it sends garbage"
    if signal == "rx_unknown_protocol":
        return f"{there} sends what this port does not know: a wrong configuration at one of the two, not the cable"
    if signal == "rx_discards":
        return (
            _host(view, port) if e.role[port] == NIC_END else "the switch had no buffer or no way on for what came in"
        )
    if at(view, "oper_up", np.array([port], dtype=np.int32))[0] < HALF:
        return "the port is down, and packets are still sent to it"
    return f"more is sent to {there} than the link takes: congestion, or {there} holds this port; not damage"


def _host(view: View, port: int) -> str:
    """Say why a NIC drops: its host does not take it; the NIC's own view of PCIe says more."""
    text = "the host or its PCIe does not take what arrives; the network delivered it"
    nic = view.beside.get("nic")
    owner = view.entities.owner[port : port + 1]
    if nic is None or owner[0] < 0 or owner[0] >= len(nic.entities):
        return text
    stalled, over = at(nic, "pcie_stalled_seconds", owner)[0], at(nic, "pcie_buffer_overflows", owner)[0]
    if stalled > 0 or over > 0:
        return f"{text}: PCIe stalled {np.nan_to_num(stalled):.0%} of the time, {np.nan_to_num(over):.3g} overflows/s"
    return text
