"""`railkeeper demo`: the loop on real packets where the machine allows it, and from a recording where not."""

from __future__ import annotations

import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from railkeeper.app import compose, demo
from railkeeper.app.compose import LabWish, Wish
from railkeeper.app.drill import Drill, all_right, group_faults
from railkeeper.app.settings import KeeperSettings, Settings
from railkeeper.base.errors import CapabilityError
from railkeeper.cli.drill_table import drill_table
from railkeeper.cli.errors import NOT_OK
from railkeeper.cli.output import shown
from railkeeper.cli.replay import MAX_NOTES
from railkeeper.cli.replay import replay as play
from railkeeper.cli.screen import screen
from railkeeper.lab.capability import check_capability

PREFIX = "rkdemo"


def show_demo(
    *,
    replay: Annotated[bool, typer.Option("--replay", help="Show the recording that comes with Railkeeper.")] = False,
    speed: Annotated[float, typer.Option(help="Of the recording: 1 is as it was.", min=0.1)] = 4.0,
    record: Annotated[
        Path | None, typer.Option(help="Write a recording of the demonstration to this new file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines of all events.")] = False,
) -> None:
    """Show the whole loop in about a minute: three faults are injected, located, avoided, and heal."""
    if not replay:
        try:
            check_capability()
        except CapabilityError as e:
            _say(f"real packets are not possible here: {e}")
            replay = True
    if replay:
        _say(f"showing the recording that comes with Railkeeper, {speed:g} times as fast as it was")
        raise typer.Exit(_replay(speed, as_json=as_json))
    _say("building a fabric of 16 switches and 16 nodes in network namespaces: real SRv6 packets")
    raise typer.Exit(_on_packets(record, as_json=as_json))


def _say(text: str) -> None:
    print(f"railkeeper: {text}", file=sys.stderr, flush=True)


def _on_packets(record: Path | None, *, as_json: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="railkeeper-demo-") as folder:
        spec = Path(folder) / "demo.toml"
        spec.write_text(demo.SPEC, encoding="utf-8")
        settings = Settings(keeper=KeeperSettings(state=folder))
        run = _run(Wish(settings, record=record), LabWish(spec, PREFIX, own=True), as_json=as_json)
    if not as_json:
        screen().print(drill_table(run))
        _say("that was real traffic. Next: docs/first-steps.md, or `railkeeper lab --help`")
    return 0 if all_right(run) else NOT_OK


def _run(wish: Wish, lab: LabWish, *, as_json: bool) -> Drill:
    notes: list[str] = []
    with compose.lab_keeper(wish, lab) as found:

        def say(text: str) -> None:
            notes.append(text)
            found.note(text)

        units = group_faults(demo.scenario(found.fabric))
        run = Drill(found.fabric, found.lab, units, 4.0, 30.0, found.keeper.setup.tick_s, say=say)
        with shown(found.keeper.setup, as_json=as_json, title="Railkeeper demo") as show:

            def watch(state: compose.KeeperState, outcome: compose.Outcome) -> bool:
                goes_on = run.watch(state, outcome)
                show(state, outcome, tuple(notes[-MAX_NOTES:]))
                return goes_on

            found.keeper.run(watch)
    return run


def _replay(speed: float, *, as_json: bool) -> int:
    with resources.as_file(resources.files("railkeeper.data") / "demo.rkrec") as path:
        found = play(path, speed=speed, as_json=as_json, title="Railkeeper demo (recording)")
    _say(f"{found.ticks} ticks replayed; {found.verdict}. On real packets: run it as root on Linux with SRv6")
    return found.exit_code
