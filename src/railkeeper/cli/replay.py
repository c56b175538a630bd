"""Replays a recording before people's eyes, and compares every answer with the recorded one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.app import compose
from railkeeper.app.recording import Digest
from railkeeper.cli.errors import NOT_OK, OK
from railkeeper.cli.output import shown

if TYPE_CHECKING:
    from pathlib import Path

MAX_NOTES = 8


@dataclass(frozen=True)
class Replayed:
    """What a replay found: how many ticks, and how many of their answers differ from the recorded ones."""

    ticks: int
    wrong: int

    @property
    def verdict(self) -> str:
        """The finding for people."""
        if self.wrong:
            return f"{self.wrong} answers differ from the recorded ones"
        return "all answers as recorded, bit for bit"

    @property
    def exit_code(self) -> int:
        """The finding for scripts."""
        return NOT_OK if self.wrong else OK


def replay(
    path: Path, *, for_s: float | None = None, speed: float | None = None, as_json: bool, title: str = ""
) -> Replayed:
    """Replay a recording, or its first `for_s` seconds: `speed` times as fast as it was, or as fast as it goes."""
    digest, ticks, wrong = Digest(), 0, 0
    with compose.recording_keeper(path) as (keeper, world), shown(keeper.setup, as_json=as_json, title=title) as show:
        pause_s = keeper.setup.tick_s / speed if speed else 0.0
        while (for_s is None or ticks * keeper.setup.tick_s < for_s) and (given := world.next_tick()) is not None:
            begin = time.monotonic()
            outcome = keeper.answer(given)
            ticks += 1
            wrong += world.expected not in {None, digest.add(outcome.events)}
            show(keeper.state, outcome, tuple(world.notes[-MAX_NOTES:]))
            time.sleep(max(0.0, pause_s - (time.monotonic() - begin)))
    return Replayed(ticks, wrong)
