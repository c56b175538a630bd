"""`railkeeper lab`: a real fabric in network namespaces on this machine; needs root."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from railkeeper.app import compose
from railkeeper.app.compose import LAB_FOLDER, LabWish, Wish
from railkeeper.app.drill import Drill, all_right, answer, group_faults
from railkeeper.app.settings import Settings, read_settings
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.cli.drill_table import drill_table
from railkeeper.cli.errors import NOT_OK, print_json
from railkeeper.cli.screen import screen
from railkeeper.fabric.faults import read_faults
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import read_spec
from railkeeper.lab import client, faultlist
from railkeeper.lab.build import clean_stale
from railkeeper.lab.capability import check_capability
from railkeeper.lab.client import LabClient
from railkeeper.lab.names import check_prefix

app = typer.Typer(help="A real fabric in network namespaces on this machine; needs root.", no_args_is_help=True)

Prefix = Annotated[str, typer.Option(help="Prefix of the lab's namespaces.")]
Spec = Annotated[Path, typer.Option("--fabric", help="Fabric spec.")]


@app.command()
def drill(
    *,
    fabric: Spec,
    faults: Annotated[Path, typer.Option(help="Fault file (JSON Lines).")],
    patience: Annotated[float, typer.Option(help="Seconds to wait for a fault to be located.", min=1)] = 60.0,
    quiet: Annotated[float, typer.Option(help="Seconds without fault at the start.", min=0)] = 30.0,
    config: Annotated[Path | None, typer.Option(help="Settings file (TOML).")] = None,
    prefix: Prefix = "rkdrill",
    traffic_pps: Annotated[float, typer.Option(help="Traffic packets a second of each NIC.", min=1)] = 350.0,
    record: Annotated[Path | None, typer.Option(help="Write a recording of the drill to this new file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Break a lab as a fault file says; measure how each fault is found, avoided and forgotten."""
    injected = read_faults(Fabric(read_spec(fabric)), faults)
    if not injected:
        raise InputError(str(faults), "holds no fault", "one JSON object a line")
    lab = LabWish(fabric, prefix, traffic_pps=traffic_pps, own=True)
    with (
        tempfile.TemporaryDirectory(prefix="railkeeper-drill-") as state,
        compose.lab_keeper(Wish(_with_state(config, state), str(config or "settings"), record), lab) as found,
    ):
        run = Drill(
            found.fabric, found.lab, group_faults(injected), quiet, patience, found.keeper.setup.tick_s, say=_say
        )
        found.keeper.run(run.watch)
    _tell(run, as_json=as_json)
    raise typer.Exit(0 if all_right(run) else NOT_OK)


def _with_state(config: Path | None, state: str) -> Settings:
    """Return the settings with a state folder of the drill's own: it begins without memory, and leaves none."""
    settings = read_settings(config)
    keeper = settings.keeper.model_copy(update={"state": state, "journal": ""})
    return settings.model_copy(update={"keeper": keeper})


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tell(run: Drill, *, as_json: bool) -> None:
    if as_json:
        print_json(answer(run))
        return
    screen().print(drill_table(run))


@app.command()
def faults(
    *,
    fabric: Spec,
    seed: Annotated[int, typer.Option(help="The same seed gives the same list.")] = 1,
    groups: Annotated[int, typer.Option(help="Groups of two or three faults at a time.", min=0)] = 6,
    random: Annotated[int, typer.Option(help="So many single faults drawn at random instead.", min=0)] = 0,
) -> None:
    """Print a fault list for drills: every kind, target and direction, in random order."""
    f = Fabric(read_spec(fabric))
    lines = (
        faultlist.random_faults(f, seed=seed, count=random)
        if random
        else faultlist.make_faults(f, seed=seed, groups=groups)
    )
    sys.stdout.write(faultlist.to_text(lines))


@app.command()
def up(
    *,
    fabric: Spec,
    prefix: Prefix = "rk",
    tick_s: Annotated[float, typer.Option(help="Length of a tick.", min=0.1, max=60)] = 0.5,
    traffic_pps: Annotated[float, typer.Option(help="Packets a second of each NIC; 0 for none.", min=0)] = 350.0,
) -> None:
    """Build a lab with its agents and traffic, and keep it until Ctrl-C; a keeper finds it by its prefix."""
    wish = LabWish(fabric, check_prefix(prefix), traffic=traffic_pps > 0, traffic_pps=traffic_pps or 1)
    options = compose.lab_options(wish, tick_s)
    check_capability()
    if (running := client.find(LAB_FOLDER / prefix)) is not None:
        running.close()
        raise InputError("--prefix", f"{prefix!r} belongs to a lab that runs already", "give another one")
    begin = time.monotonic()
    with LabClient.start(options) as lab:
        _say(f"railkeeper: lab {prefix!r} is up after {time.monotonic() - begin:.1f} s; Ctrl-C takes it down")
        try:
            while lab.alive():
                time.sleep(0.5)
        except KeyboardInterrupt:
            _say("railkeeper: taking the lab down")
            return
    raise OutsideError(f"the lab {prefix!r} has ended by itself; {LAB_FOLDER / prefix}/crew.log may say why")


@app.command()
def inject(
    fault: Annotated[
        str, typer.Argument(help='A line of a fault file, e.g. {"id":"f1","kind":"down","target":"p0/t1-0"}')
    ],
    *,
    prefix: Prefix = "rk",
) -> None:
    """Break something in a running lab."""
    with _running(prefix) as lab:
        lab.ask("inject", fault=_fault(fault))


def _fault(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as e:
        raise InputError("FAULT", f"is not JSON ({e})", "one line of a fault file") from e
    if not isinstance(value, dict):
        raise InputError("FAULT", f"is a {type(value).__name__}", "a JSON object")
    return value


@app.command()
def clear(
    fault: Annotated[str | None, typer.Argument(help="Id of a fault; without it all are cleared.")] = None,
    *,
    prefix: Prefix = "rk",
) -> None:
    """Mend what a fault broke in a running lab."""
    with _running(prefix) as lab:
        if fault is None:
            lab.ask("clear_all")
            return
        active = [line["id"] for line in lab.ask("active")]
        if fault not in active:
            raise InputError("FAULT", f"{fault!r} is not active", f"active: {', '.join(active) or 'none'}")
        lab.ask("clear", fault=fault)


@app.command()
def status(
    *, prefix: Prefix = "rk", as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False
) -> None:
    """Tell what a running lab is made of, and what is broken in it."""
    with _running(prefix) as lab:
        info, active, processes = lab.info(), lab.ask("active"), lab.ask("processes")
    if as_json:
        print_json({"spec": info["spec"], "keeper": info["keeper"], "faults": active, "processes": len(processes)})
        return
    shape = info["spec"]["fabric"]
    print(f"lab {prefix!r}: fabric {shape['name']}, {len(processes)} processes, keeper line {info['keeper']}")
    for line in active:
        print(f"  {json.dumps(line)}")


@app.command()
def clean() -> None:
    """Remove what killed labs have left on this machine, and only that."""
    check_capability()
    removed = clean_stale()
    print(f"{len(removed)} namespaces of killed labs removed" if removed else "nothing was left by killed labs")


def _running(prefix: str) -> LabClient:
    found = client.find(LAB_FOLDER / check_prefix(prefix))
    if found is None:
        raise InputError("--prefix", f"no lab {prefix!r} runs", "start one with `railkeeper lab up`")
    return found
