"""The keeper's loop: take a tick, answer it, make the answer durable, act, tell whoever watches."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import msgpack

from railkeeper.app.closed import RUNNING, SETUP
from railkeeper.app.past_levels import hour_record
from railkeeper.app.pipeline import begin, step
from railkeeper.app.recording import Start, canonical, in_pieces, pack_start
from railkeeper.app.sight import Sight
from railkeeper.app.ticklog import LogRecord
from railkeeper.base.errors import OutsideError
from railkeeper.health.slo.keep import flush
from railkeeper.health.slo.series import HOUR_S, Series
from railkeeper.respond.responder import ResponseState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from railkeeper.app.history import History
    from railkeeper.app.inputs import TickInput
    from railkeeper.app.pipeline import KeeperState, Outcome, Setup
    from railkeeper.app.recording import Recorder
    from railkeeper.app.world import World
    from railkeeper.health.slo.keep import SliRow
    from railkeeper.respond.journal import Journal

    Watcher = Callable[[KeeperState, Outcome], bool]

HEARTBEAT_TICKS = 4
EVENTS_BYTES = 8_000_000
# A keeper that can't write its journal must not act: it tries as often as this, a while apart, before it gives up.
JOURNAL_TRIES, JOURNAL_PAUSE_S = 40, 0.5


class Keeper:
    """One keeper over one world. `journal` and `recorder` may be missing (a replay needs neither)."""

    def __init__(
        self,
        setup: Setup,
        world: World,
        *,
        response: ResponseState | None = None,
        journal: Journal | None = None,
        recorder: Recorder | None = None,
        history: History | None = None,
        series: Series | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.setup, self._world = setup, world
        self._journal, self.recorder, self._history = journal, recorder, history
        # Told of every answer, after it is durable and acted upon.
        self.observers: list[Callable[[KeeperState, Outcome], None]] = []
        start = Start(setup, response or ResponseState(), series or Series())
        self.state = begin(*start)
        self._sight, self._unseen = Sight(setup.fabric, setup.tick_s), 0
        for number, piece in enumerate(in_pieces(pack_start(start))):
            self._note(SETUP, clock(), number, piece)
        self._hour = -1

    def run(self, watch: Watcher, *, for_s: float | None = None) -> None:
        """Run until the world ends, `watch` returns False, or `for_s` seconds have passed."""
        until = None if for_s is None else time.monotonic() + for_s
        self._world.deny(self.state.response.version, self.state.response.denied)
        while until is None or time.monotonic() < until:
            given = self._world.next_tick()
            if given is None:
                return
            outcome = self.answer(given)
            if not watch(self.state, outcome):
                return

    def answer(self, given: TickInput) -> Outcome:
        """Answer one tick: durable first, then acted upon."""
        self.state, outcome = step(self.setup, self.state, given)
        self._unseen = self._sight.look(outcome.tick, outcome.stats)
        if self._journal is not None:
            self._write(self._journal, outcome)
        if outcome.step.denied_changed:
            self._world.deny(self.state.response.version, self.state.response.denied)
        for ask in outcome.asks:
            self._world.probe(ask)
        if self.recorder is not None:
            self.recorder.add(given, outcome.events, outcome.t_s)
        for lines in _bounded(map(canonical, outcome.events)):
            self._note("events", outcome.t_s, outcome.tick, "\n".join(lines).encode())
        self._note_levels(outcome.t_s, outcome.slis)
        self._note_hour(outcome.t_s)
        for tell in self.observers:
            tell(self.state, outcome)
        return outcome

    def close(self) -> None:
        """Keep what was seen of a minute that has not ended."""
        if self.state.ticks:
            t_s = (self.state.tick + 1) * self.setup.tick_s
            self._note_levels(t_s, flush(self.state.levels.slo, t_s))

    def _note_levels(self, t_s: float, rows: tuple[SliRow, ...]) -> None:
        if rows:
            self._note("slis", t_s, self.state.tick, bytes(msgpack.packb([tuple(r) for r in rows])))

    def _note_hour(self, t_s: float) -> None:
        """Each hour keep the sums of the one that has ended, and the settings again: a run's head may be removed."""
        before, self._hour = self._hour, int(t_s // HOUR_S)
        if self._hour == before or self._history is None:
            return
        sums = hour_record(self.state.levels.slo.series, before, self._name) if 0 <= before < self._hour else None
        if sums is not None:
            self._history.append(sums)
        settings = Start(self.setup, ResponseState(), Series())
        self._note(RUNNING, t_s, 0, pack_start(settings))

    @property
    def _name(self) -> str:
        return f"keeper/{self._history.run}" if self._history is not None else "keeper"

    def _note(self, kind: str, t: float, number: int, body: bytes) -> None:
        """Keep a record of the keeper's own in the history; it is durable with the next tick."""
        if self._history is not None:
            self._history.append(LogRecord(t, kind, self._name, number, body))

    def _write(self, journal: Journal, outcome: Outcome) -> None:
        for left in reversed(range(JOURNAL_TRIES)):
            try:
                journal.record_step(outcome.step)
                break
            except OutsideError as e:
                if not (e.retry and left):
                    raise
                time.sleep(JOURNAL_PAUSE_S)
        if self.state.ticks % HEARTBEAT_TICKS == 1:
            # A heartbeat that is missed says by itself that something is wrong; the next one may get through.
            with contextlib.suppress(OutsideError):
                journal.heartbeat(outcome.t_s, _heartbeat(self.setup, self.state, outcome, self._unseen))


def _bounded(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines of a tick in groups that a record has room for: a large failure has many."""
    group: list[str] = []
    size = 0
    for line in lines:
        if group and size + len(line) > EVENTS_BYTES:
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line) + 1
    yield group


def _heartbeat(setup: Setup, state: KeeperState, outcome: Outcome, unseen: int) -> dict[str, object]:
    f = setup.fabric
    return {
        "world": setup.world,
        "fabric": f.name,
        "tick": outcome.tick,
        "every_s": HEARTBEAT_TICKS * setup.tick_s,
        "agents": f.n_nodes - len(outcome.silent),
        "nodes": f.n_nodes,
        "paths": len(outcome.stats),
        "links": f.n_links,
        "links_unseen": unseen,
        "faults": sum(x.status != "cleared" for x in outcome.faults),
        "denied_links": len(state.response.denied),
        "dry_run": setup.limits.dry_run,
    }
