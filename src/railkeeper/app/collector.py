"""Gathers what peers send into ticks; nothing is acknowledged before it is on disk."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from railkeeper.app.closed import CLOSED, FRAME, WHOLE_PORTS_TICKS, encode_closed, same_ports
from railkeeper.app.inputs import Confirmation, TickInput
from railkeeper.app.sound import check_flows, check_report
from railkeeper.app.ticklog import LogRecord
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.lab.traffic.flowstats import decode_flows
from railkeeper.probe.pathstats import decode_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.app.history import History
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.slo.scopes import Job
    from railkeeper.lab.traffic.flowstats import FlowReport
    from railkeeper.probe.link import Hub, Message
    from railkeeper.probe.pathstats import TickReport
    from railkeeper.telemetry.ports import PortStates

# An agent that has missed this many ticks in a row is not waited for.
PATIENCE_TICKS = 2
# Reports that claim to be from further ahead of our clock than this come from a clock that is wrong.
MAX_AHEAD_TICKS = 20
# A history that can't be written is tried again for this long; meanwhile nothing is acknowledged, so nothing is lost.
HISTORY_PATIENCE_TICKS = 40
# An agent whose last so many reports all came too late is not catching up after an absence (it keeps 240 of them).
LATE_TOLD = 300
_NAME = re.compile(r"(agent|sender)/n[0-9]{1,9}")
_MAX_SEQ = 2**62


class Collector:
    """Messages in, ticks out. Without a history, messages are acknowledged when their tick is closed.

    `first_tick` is the one that will be closed first; `clock` gives unix seconds; `complain` is told, once for each
    peer, what of its words can't be used.
    """

    def __init__(
        self,
        fabric: Fabric,
        hub: Hub,
        history: History | None,
        *,
        first_tick: int,
        tick_s: float = 0.5,
        clock: Callable[[], float] = time.time,
        complain: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._fabric, self._hub, self._history = fabric, hub, history
        self._tick_s, self._clock, self._complain = tick_s, clock, complain
        self._unacked: list[Message] = []
        self._pending: set[tuple[str, int, int]] = set()
        self._blamed: set[str] = set()
        self._failed_syncs = 0
        self.malformed = 0
        self._ports: PortStates | None = None
        self._ports_age = WHOLE_PORTS_TICKS
        self._number = 0
        self.set_back(first_tick)

    def set_back(self, tick: int) -> None:
        """Begin anew with a tick, after the clock has jumped: what was gathered for others is forgotten."""
        self._reports: dict[int, dict[int, TickReport]] = {}
        self._late: list[TickReport] = []
        self._heard: dict[int, int] = {}
        self._lateness: dict[int, int] = {}
        self._flows: list[FlowReport] = []
        self._confirmations: dict[str, Confirmation] = {}
        self._closed = tick - 1

    def poll(self, timeout_s: float) -> None:
        """Take in what has come, or comes within the time."""
        for message in self._hub.poll(timeout_s):
            # A peer that has waited long for its acknowledgement says it again.
            key = (message.name, message.session, message.seq)
            if message.type == "hello" or key in self._pending:
                continue
            usable = self._take(message)
            if message.seq and _NAME.fullmatch(message.name) and 0 < message.seq < _MAX_SEQ:
                self._pending.add(key)
                self._keep(message, usable=usable)

    def complete(self, tick: int) -> bool:
        """Return whether every agent heard of lately has reported the tick."""
        expected = {n for n, last in self._heard.items() if last >= tick - PATIENCE_TICKS}
        return bool(expected) and expected <= self._reports.get(tick, {}).keys()

    def close(
        self,
        tick: int,
        ports: PortStates | None,
        *,
        frame: tuple[bytes, ...] = (),
        jobs: tuple[Job, ...] | None = None,
    ) -> TickInput:
        """Return the tick as it stands, after all that was received is safe and acknowledged."""
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
            frame=frame,
            jobs=jobs,
        )
        self._late, self._flows, self._confirmations, self._closed = [], [], {}, tick
        self._note_closed(given)
        self._sync()
        return given

    def _note_closed(self, given: TickInput) -> None:
        """Keep what the tick was made of, so that it can be judged again."""
        if self._history is None:
            return
        same = self._ports_age < WHOLE_PORTS_TICKS and same_ports(given.ports, self._ports)
        self._ports_age = self._ports_age + 1 if same else 0
        self._ports = given.ports
        # With the time of its reports, so that a tick is removed from the history as a whole.
        begin, name = given.tick * self._tick_s, f"keeper/{self._history.run}"
        for piece in given.frame:
            self._history.append(LogRecord(begin, FRAME, name, self._number, piece))
        self._history.append(LogRecord(begin, CLOSED, name, self._number, encode_closed(given, same_ports=same)))
        self._number += 1

    def _keep(self, message: Message, *, usable: bool) -> None:
        self._unacked.append(message)
        if self._history is not None:
            # What can't be read is kept as it came, under a name that no reader of ticks looks at.
            kind = message.type if usable else f"unusable {message.type[:32]}"
            self._history.append(LogRecord(self._clock(), kind, message.name, message.seq, message.body))

    def _sync(self) -> None:
        if self._history is not None:
            try:
                self._history.sync()
            except OutsideError as e:
                self._failed_syncs += 1
                if not e.retry or self._failed_syncs > HISTORY_PATIENCE_TICKS:
                    raise
                if self._failed_syncs == 1:
                    self._complain(f"{e}; nothing is acknowledged until it can")
                return
        self._failed_syncs = 0
        for message in self._unacked:
            self._hub.ack(message)
        self._unacked = []
        self._pending.clear()

    def _take(self, message: Message) -> bool:
        """Take in what a message says; returns whether it says anything that can be used."""
        takers = {"tick": self._take_report, "flows": self._take_flows, "denied": self._take_confirmation}
        try:
            takers.get(message.type, _refuse)(message)
        except (InputError, ArithmeticError, LookupError, TypeError, ValueError) as e:
            # A peer of another release must not stop the keeper.
            self.malformed += 1
            self._blame(message.name[:64], str(e) if isinstance(e, InputError) else f"{type(e).__name__}: {e}")
            return False
        return True

    def _blame(self, name: str, why: str) -> None:
        if name not in self._blamed and len(self._blamed) < 100:
            self._blamed.add(name)
            self._complain(f"a message can't be used: {why}")

    def _take_report(self, message: Message) -> None:
        report = decode_report(message.body, where=message.name)
        _check_speaker(message, f"agent/n{report.node}")
        check_report(self._fabric, self._tick_s, report, message.name)
        self._check_clock(report, message)
        self._heard[report.node] = max(report.tick, self._heard.get(report.node, report.tick))
        if report.tick <= self._closed:
            self._late.append(report)
            self._tell_late(report)
        else:
            self._lateness[report.node] = 0
            self._reports.setdefault(report.tick, {}).setdefault(report.node, report)

    def _tell_late(self, report: TickReport) -> None:
        n = self._lateness[report.node] = self._lateness.get(report.node, 0) + 1
        if n == LATE_TOLD:
            late_s = (self._closed + 1 - report.tick) * self._tick_s
            self._complain(
                f"agent/n{report.node}: its reports come {late_s:g} s too late to be used; is its clock behind?"
            )

    def _take_flows(self, message: Message) -> None:
        report = decode_flows(message.body, where=message.name)
        _check_speaker(message, f"sender/n{report.node}")
        check_flows(self._fabric, self._tick_s, report, message.name)
        self._check_clock(report, message)
        self._flows.append(report)

    def _take_confirmation(self, message: Message) -> None:
        role, _, node = message.name.partition("/n")
        if not (role == "sender" and _NAME.fullmatch(message.name) and int(node) < self._fabric.n_nodes):
            raise InputError(message.name[:64], "is no sender of this fabric", "e.g. sender/n3")
        d = message.data
        said = Confirmation(message.name, int(d["version"]), int(d["paths"]), int(d["refused"]))
        self._confirmations[message.name] = said

    def _check_clock(self, report: TickReport | FlowReport, message: Message) -> None:
        newest = max(self._closed, int(self._clock() / self._tick_s)) + MAX_AHEAD_TICKS
        if report.tick > newest:
            ahead_s = (report.tick - newest + MAX_AHEAD_TICKS) * self._tick_s
            raise InputError(message.name, f"is {ahead_s:g} s ahead of the keeper's clock", "set its clock")


def _refuse(message: Message) -> None:
    raise InputError(message.name[:64], f"sends {message.type[:32]!r}", "is it of another release?")


def _check_speaker(message: Message, name: str) -> None:
    if message.name != name:
        raise InputError(message.name[:64], f"speaks for {name}", "each peer speaks for itself")
