"""Gathers what peers send into ticks; nothing is acknowledged before it is on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from railkeeper.app.inputs import Confirmation, TickInput
from railkeeper.app.ticklog import LogRecord
from railkeeper.base.errors import InputError
from railkeeper.lab.traffic.flowstats import decode_flows
from railkeeper.probe.pathstats import decode_report

if TYPE_CHECKING:
    from railkeeper.app.history import History
    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.traffic.flowstats import FlowReport
    from railkeeper.probe.link import Hub, Message
    from railkeeper.probe.pathstats import TickReport
    from railkeeper.telemetry.ports import PortStates

# An agent that has missed this many ticks in a row is not waited for.
PATIENCE_TICKS = 2
# Reports that claim to be from further ahead than this come from a clock that is wrong.
MAX_AHEAD_TICKS = 20


class Collector:
    """Messages in, ticks out. Without a history, messages are acknowledged when their tick is closed."""

    def __init__(self, fabric: Fabric, hub: Hub, history: History | None) -> None:
        self._fabric, self._hub, self._history = fabric, hub, history
        self._reports: dict[int, dict[int, TickReport]] = {}
        self._late: list[TickReport] = []
        self._flows: list[FlowReport] = []
        self._confirmations: dict[str, Confirmation] = {}
        self._unacked: list[Message] = []
        self._heard: dict[int, int] = {}
        self._closed = -1
        self.malformed = 0

    def poll(self, timeout_s: float) -> None:
        """Take in what has come, or comes within the time."""
        for message in self._hub.poll(timeout_s):
            if message.seq:
                self._keep(message)
            self._take(message)

    def complete(self, tick: int) -> bool:
        """Return whether every agent heard of lately has reported the tick."""
        expected = {n for n, last in self._heard.items() if last >= tick - PATIENCE_TICKS}
        return bool(expected) and expected <= self._reports.get(tick, {}).keys()

    def close(self, tick: int, ports: PortStates | None) -> TickInput:
        """Return the tick as it stands, after all that was received is safe and acknowledged."""
        self._sync()
        reports = self._reports.pop(tick, {})
        for old in [t for t in self._reports if t < tick]:
            self._late += self._reports.pop(old).values()
        given = TickInput(
            tick=tick,
            reports=tuple(reports[n] for n in sorted(reports)),
            late=tuple(sorted(self._late, key=lambda r: (r.tick, r.node))),
            ports=ports,
            flows=tuple(sorted(self._flows, key=lambda r: (r.tick, r.node))),
            confirmations=tuple(self._confirmations[s] for s in sorted(self._confirmations)),
        )
        self._late, self._flows, self._confirmations, self._closed = [], [], {}, tick
        return given

    def _keep(self, message: Message) -> None:
        self._unacked.append(message)
        if self._history is not None:
            self._history.append(LogRecord(time.time(), message.type, message.name, message.seq, message.body))

    def _sync(self) -> None:
        if self._history is not None:
            self._history.sync()
        for message in self._unacked:
            self._hub.ack(message)
        self._unacked = []

    def _take(self, message: Message) -> None:
        takers = {"tick": self._take_report, "flows": self._take_flows, "denied": self._take_confirmation}
        taker = takers.get(message.type)
        if taker is None:
            self.malformed += message.type != "hello"
            return
        try:
            taker(message)
        except (InputError, KeyError, TypeError, ValueError):
            # Kept in the history as it came; a peer of another release must not stop the keeper.
            self.malformed += 1

    def _take_report(self, message: Message) -> None:
        report = decode_report(message.body, where=message.name)
        if not 0 <= report.node < self._fabric.n_nodes or report.tick > self._closed + MAX_AHEAD_TICKS > 0:
            self.malformed += 1
            return
        self._heard[report.node] = max(report.tick, self._heard.get(report.node, report.tick))
        if report.tick <= self._closed:
            self._late.append(report)
        else:
            self._reports.setdefault(report.tick, {}).setdefault(report.node, report)

    def _take_flows(self, message: Message) -> None:
        self._flows.append(decode_flows(message.body, where=message.name))

    def _take_confirmation(self, message: Message) -> None:
        d = message.data
        said = Confirmation(message.name, int(d["version"]), int(d["paths"]), int(d["refused"]))
        self._confirmations[message.name] = said
