"""Judges the past again: what the keeper knew at any time, from its history, by the code of today.

From the start of the keeper's run the answers are those that it gave, bit for bit. From later on they are what a
keeper would say that began then: it knows nothing of before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railkeeper.app import history
from railkeeper.app.pipeline import KeeperState, Setup, begin, step
from railkeeper.app.rebuild import rebuild_ticks
from railkeeper.app.recording import SETUP, Start, canonical, unpack_start
from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from railkeeper.app.pipeline import Outcome

# What is judged before the asked time when nothing else is said: low loss rates are found within it.
LOOK_BACK_S = 300.0


@dataclass(frozen=True)
class Rejudged:
    """What a second judgement found.

    - start_s, end_s: unix time of the first and last tick judged; whole: from the very start of the keeper's run
    - state: the keeper's, after the last tick; outcome: of the last tick
    - compared, differ: ticks whose answers were compared with those given then, and how many of them differ
    """

    setup: Setup
    start_s: float
    end_s: float
    ticks: int
    whole: bool
    state: KeeperState
    outcome: Outcome
    compared: int
    differ: int


def rejudge(
    folder: Path,
    at_s: float,
    *,
    from_s: float | None = None,
    whole: bool = False,
    progress: Callable[[float], None] = lambda _share: None,
) -> Rejudged:
    """Judge again up to the last tick that was closed by `at_s` (unix s).

    Begins at `from_s`, or LOOK_BACK_S before; with `whole` at the start of the keeper's run. Raises InputError where
    the history does not hold what is asked.
    """
    db = history.connect(folder)
    try:
        run_t, begun = _run_at(db, at_s, str(folder))
        start_s = run_t if whole else max(run_t, at_s - LOOK_BACK_S if from_s is None else from_s)
        run = _Run(db, begun.setup, run_t, start_s, at_s)
        return _judge(run, begun if start_s <= run_t else None, str(folder), progress)
    finally:
        db.close()


@dataclass(frozen=True)
class _Run:
    db: Any
    setup: Setup
    run_t: float
    start_s: float
    at_s: float

    @property
    def first_tick(self) -> int:
        # The keeper's first tick may have begun a little before its start.
        return int(self.start_s / self.setup.tick_s) - (4 if self.start_s <= self.run_t else 0)

    @property
    def last_tick(self) -> int:
        return int(self.at_s / self.setup.tick_s) - 1


def _run_at(db: Any, at_s: float, where: str) -> tuple[float, Start]:
    sql = "SELECT t, body FROM messages WHERE kind = ? AND t <= ? ORDER BY t DESC LIMIT 1"
    found = db.execute(sql, [SETUP, at_s]).fetchall()
    if not found:
        first = db.execute("SELECT min(t) FROM messages WHERE kind = ?", [SETUP]).fetchall()[0][0]
        right = "the history holds no run of a keeper" if first is None else f"a time after {first:.0f} (unix s)"
        raise InputError(f"{where}: time {at_s:.0f}", "is before what the history holds", right)
    return float(found[0][0]), unpack_start(found[0][1], where)


def _judge(run: _Run, begun: Start | None, where: str, progress: Callable[[float], None]) -> Rejudged:
    state = begin(run.setup) if begun is None else begin(*begun)
    outcome, ticks, differ, compared, first = None, 0, 0, 0, 0
    said = _said(run) if begun is not None else {}
    span = max(1, run.last_tick - run.first_tick)
    for given in rebuild_ticks(run.db, run.first_tick, run.last_tick, since_t=run.run_t, where=where):
        state, outcome = step(run.setup, state, given)
        first = first if ticks else given.tick
        ticks += 1
        if (then := said.get(given.tick)) is not None:
            compared += 1
            differ += then != sorted(map(canonical, outcome.events))
        progress((given.tick - run.first_tick) / span)
    if outcome is None:
        raise InputError(f"{where}: time {run.at_s:.0f}", "has no tick before it", "a time at which the keeper ran")
    tick_s = run.setup.tick_s
    return Rejudged(
        run.setup, first * tick_s, (outcome.tick + 1) * tick_s, ticks, begun is not None, state, outcome,
        compared, differ,
    )  # fmt: skip


def _said(run: _Run) -> dict[int, list[str]]:
    """Return the lines that the keeper told of each tick then."""
    tick_s = run.setup.tick_s
    sql = "SELECT t, body FROM events WHERE t > ? AND t <= ?"
    found: dict[int, list[str]] = {}
    for t, body in run.db.execute(
        sql, [run.first_tick * tick_s, (run.last_tick + 1) * tick_s + 0.25 * tick_s]
    ).fetchall():
        found.setdefault(round(t / tick_s) - 1, []).append(canonical(json.loads(body)))
    return {tick: sorted(lines) for tick, lines in found.items()}
