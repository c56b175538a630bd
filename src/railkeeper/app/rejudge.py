"""Judges the past again: what the keeper knew at any time, from its history, by the code of today.

From the start of the keeper's run the answers are those that it gave, bit for bit. From later on they are what a
keeper would say that began then: it knows nothing of before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from railkeeper.app import history
from railkeeper.app.closed import CLOSED, RUNNING, SETUP
from railkeeper.app.pipeline import KeeperState, Setup, begin, step
from railkeeper.app.rebuild import Run, rebuild_ticks
from railkeeper.app.recording import Start, canonical, unpack_start
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
    """Judge again up to the last tick that had ended by `at_s` (unix s).

    Begins at `from_s`, or LOOK_BACK_S before; with `whole` at the start of the keeper's run. Where the clock was set
    back, a time that came twice means the second one. Raises InputError where the history does not hold what is asked.
    """
    db = history.connect(folder, only=("messages", "events", "reports", "paths"))
    try:
        where = str(folder)
        name, begun, is_start = _run_at(db, at_s, where)
        run = Run(db, name, begun.setup.fabric, begun.setup.tick_s, where)
        span = _span(run, at_s, at_s - LOOK_BACK_S if from_s is None else from_s)
        if whole and not is_start:
            raise InputError(where, "no longer holds the start of this run", "leave out --whole")
        return _judge(run, begun, span._replace(first=0) if whole else span, progress)
    finally:
        db.close()


def _run_at(db: Any, at_s: float, where: str) -> tuple[str, Start, bool]:
    """Return the run that went on at a time: its name, how it began, and whether that is all known.

    If not, only its settings are.
    """
    sql = "SELECT name, body FROM messages WHERE kind IN (?, ?) AND t <= ? ORDER BY t DESC, kind DESC, seq LIMIT 1"
    found = db.execute(sql, [SETUP, RUNNING, at_s]).fetchall()
    if not found:
        first = db.execute("SELECT min(t) FROM messages WHERE kind IN (?, ?)", [SETUP, RUNNING]).fetchall()[0][0]
        right = "the history holds no run of a keeper" if first is None else f"a time after {first:.0f} (unix s)"
        raise InputError(f"{where}: time {at_s:.0f}", "is before what the history holds", right)
    name, body = found[0]
    pieces = db.execute("SELECT body FROM messages WHERE kind = ? AND name = ? ORDER BY seq", [SETUP, name]).fetchall()
    return name, unpack_start(b"".join(bytes(p[0]) for p in pieces) or bytes(body), where), bool(pieces)


class _Span(NamedTuple):
    first: int
    last: int


def _span(run: Run, at_s: float, from_s: float) -> _Span:
    """Return the numbers of the first tick that ends after `from_s`, and of the last one that has ended by `at_s`."""
    sql = "SELECT max(seq) FROM messages WHERE kind = ? AND name = ? AND t <= ?"
    last = run.db.execute(sql, [CLOSED, run.name, at_s - run.tick_s + 1e-6]).fetchall()[0][0]
    if last is None:
        raise InputError(f"{run.where}: time {at_s:.0f}", "has no tick before it", "a time at which the keeper ran")
    sql = "SELECT max(seq) FROM messages WHERE kind = ? AND name = ? AND seq <= ? AND t <= ?"
    before = run.db.execute(sql, [CLOSED, run.name, last, from_s - run.tick_s + 1e-6]).fetchall()[0][0]
    oldest = run.db.execute("SELECT min(seq) FROM messages WHERE kind = ? AND name = ?", [CLOSED, run.name]).fetchall()[
        0
    ][0]
    return _Span(min(int(oldest) if before is None else int(before) + 1, int(last)), int(last))


def _judge(run: Run, begun: Start, span: _Span, progress: Callable[[float], None]) -> Rejudged:
    first, last = span
    exact = first == 0
    state = begin(*begun) if exact else begin(begun.setup)
    said = _said(run, last) if exact else {}
    start_s, ticks, differ, compared = 0.0, 0, 0, 0
    outcome: Outcome | None = None
    for given in rebuild_ticks(run, first, last):
        state, outcome = step(begun.setup, state, given)
        start_s = start_s if ticks else given.tick * run.tick_s
        ticks += 1
        if (then := said.get(given.tick)) is not None:
            compared += 1
            differ += then != sorted(map(canonical, outcome.events))
        progress(ticks / (last - first + 1))
    assert outcome is not None, "a span has one tick at least"
    return Rejudged(
        begun.setup, start_s, (outcome.tick + 1) * run.tick_s, ticks, exact, state, outcome, compared, differ
    )


def _said(run: Run, last: int) -> dict[int, list[str]]:
    """Return the lines that the keeper told of each tick then; none of ticks that came twice."""
    found: dict[int, list[str]] = {}
    sql = "SELECT max(t) FROM messages WHERE kind = ? AND name = ? AND seq <= ?"
    until_s = run.db.execute(sql, [CLOSED, run.name, last]).fetchall()[0][0] + 1.25 * run.tick_s
    sql = "SELECT t, body FROM events WHERE run = ? AND t <= ?"
    for t, body in run.db.execute(sql, [run.name.partition("/")[2], until_s]).fetchall():
        found.setdefault(round(t / run.tick_s) - 1, []).append(canonical(json.loads(body)))
    once = {tick: lines for tick, lines in found.items() if sum('"type":"tick"' in line for line in lines) == 1}
    return {tick: sorted(lines) for tick, lines in once.items()}
