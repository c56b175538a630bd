"""`railkeeper run`: the keeper, over any world."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from railkeeper.app import compose
from railkeeper.app.compose import LabWish, Wish
from railkeeper.app.settings import read_settings, spec_of
from railkeeper.base.errors import InputError
from railkeeper.cli.output import shown
from railkeeper.cli.replay import replay


class WorldName(enum.StrEnum):
    """The worlds of this release."""

    LIVE = "live"
    LAB = "lab"
    TWIN = "twin"
    RECORDING = "recording"


def run(
    *,
    world: Annotated[WorldName, typer.Option(help="What moves the packets.")] = WorldName.LAB,
    config: Annotated[Path | None, typer.Option(help="Settings file (TOML).")] = None,
    fabric: Annotated[Path | None, typer.Option(help="Fabric spec; overrides the settings file.")] = None,
    for_s: Annotated[float | None, typer.Option("--for", help="Stop after this many seconds.", min=0)] = None,
    record: Annotated[Path | None, typer.Option(help="Write a recording of all inputs to this new file.")] = None,
    recording: Annotated[Path | None, typer.Option(help="The recording to replay (world recording).")] = None,
    dry_run: Annotated[bool | None, typer.Option("--dry-run/--act", help="Default: on in live, off in lab.")] = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the lab's namespaces.")] = "rk",
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines of all events.")] = False,
) -> None:
    """Run the keeper: observe, locate, avoid, verify, record."""
    _check_recording(world, record, recording)
    settings = read_settings(config)
    wish = Wish(settings, str(config or "settings"), record, dry_run)
    spec = fabric or spec_of(config, settings)
    if world is WorldName.RECORDING:
        raise typer.Exit(_replay(_need(recording, "--recording"), for_s, as_json=as_json))
    if world is WorldName.TWIN:
        raise InputError("--world", "'twin' is not part of this release", "live, lab or recording")
    if world is WorldName.LIVE:
        _run_live(wish, _need(spec, "--fabric"), for_s, as_json=as_json)
    else:
        _run_lab(wish, spec, prefix, for_s, as_json=as_json)


def _check_recording(world: WorldName, record: Path | None, recording: Path | None) -> None:
    if world is WorldName.RECORDING and record is not None:
        raise InputError("--record", "makes no sense with --world recording", "copy the recording instead")
    if world is not WorldName.RECORDING and recording is not None:
        raise InputError("--recording", f"makes no sense with --world {world}", "give --world recording")


def _need(value: Path | None, option: str) -> Path:
    if value is None:
        raise InputError(option, "is missing", "give the path of a file")
    return value


def _run_live(wish: Wish, spec: Path, for_s: float | None, *, as_json: bool) -> None:
    with compose.live_keeper(wish, spec) as (keeper, endpoint):
        print(f"railkeeper: listening on {endpoint}", file=sys.stderr)
        with shown(keeper.setup, as_json=as_json) as show:
            keeper.run(lambda state, outcome: show(state, outcome, ()) or True, for_s=for_s)


def _run_lab(wish: Wish, spec: Path | None, prefix: str, for_s: float | None, *, as_json: bool) -> None:
    lab = LabWish(spec, prefix) if spec else None
    with (
        compose.lab_keeper(wish, lab, prefix=prefix) as found,
        shown(found.keeper.setup, as_json=as_json) as show,
    ):
        found.keeper.run(lambda state, outcome: show(state, outcome, ()) or True, for_s=for_s)


def _replay(path: Path, for_s: float | None, *, as_json: bool) -> int:
    found = replay(path, for_s=for_s, as_json=as_json)
    print(f"railkeeper: {found.ticks} ticks replayed: {found.verdict}", file=sys.stderr)
    return found.exit_code
