"""How a running keeper talks: JSON Lines for scripts, the live view for people, plain lines without a screen."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live

from railkeeper.app.view import snapshot
from railkeeper.console.live import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railkeeper.app.pipeline import KeeperState, Outcome, Setup

    Show = Callable[[KeeperState, Outcome, tuple[str, ...]], None]


SUMMARY_EVERY_S = 10.0


@contextmanager
def shown(setup: Setup, *, as_json: bool, title: str = "") -> Iterator[Show]:
    """Give a function that shows each tick."""
    if as_json:
        yield lambda _state, outcome, _notes: print_lines(outcome.events)
        return
    screen = console()
    if not screen.is_terminal:
        yield _plain(setup)
        return
    with Live(console=screen, refresh_per_second=4, screen=False, vertical_overflow="crop") as live:
        yield lambda state, outcome, notes: live.update(
            render(setup.fabric, snapshot(setup, state, outcome, notes), title=title)
        )


def console() -> Console:
    """Return where people read."""
    return Console()


def print_lines(events: tuple[dict[str, Any], ...]) -> None:
    """Print events as JSON Lines."""
    for event in events:
        sys.stdout.write(json.dumps(event, allow_nan=False) + "\n")
    sys.stdout.flush()


def _plain(setup: Setup) -> Show:
    told: set[str] = set()
    summary_ticks = max(1, round(SUMMARY_EVERY_S / setup.tick_s))

    def show(state: KeeperState, outcome: Outcome, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in told:
                told.add(note)
                print(f"▶ {note}", flush=True)
        for event in outcome.events:
            text = sentence(event)
            if text:
                print(text, flush=True)
        if (state.ticks - 1) % summary_ticks == 0:
            print(_summary(outcome.events[0]), flush=True)

    return show


def _summary(tick: dict[str, Any]) -> str:
    traffic = tick["traffic"] or {}
    words = (
        f"{tick['agents']} agents, {tick['paths']} paths, {tick['probes_lost']} of {tick['probes_sent']} probes lost"
    )
    if traffic.get("goodput_bps") is not None:
        words += (
            f", traffic {traffic['goodput_bps'] / 1e6:.1f} Mbit/s, {traffic['lost']} of {traffic['sent']} packets lost"
        )
    return f"{clock(tick['t'])} {words}"


def sentence(event: dict[str, Any]) -> str:
    """Return an incident or action event as one line for people; empty for other events."""
    if event["type"] == "incident":
        return f"{clock(event['t'])} {event['id']} [{event['severity']}] {event['status']}: {event['note']}"
    if event["type"] == "action":
        why = "; ".join(event["refusals"]) or event["note"] or event["reason"]
        if event["verification"] and event["status"] == "applied":
            why = f"{event['verification']['outcome']}: {event['verification']['reason']}"
        who = f" ({event['confirmed']}/{event['asked']} senders)" if event["asked"] else ""
        return f"{clock(event['t'])} {event['key']} {event['status']}{who}: {why}"
    return ""


def clock(t: float) -> str:
    """Return the time of day in UTC."""
    s = t % 86400
    return f"{int(s // 3600):02d}:{int(s % 3600 // 60):02d}:{s % 60:04.1f}"
