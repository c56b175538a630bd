"""Puts a keeper together: settings, world, journal, history, recording. The one place where they meet."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from railkeeper.app.history import History
from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import KeeperState, Outcome, Setup
from railkeeper.app.recording import Recorder, RecordingWorld, open_recording
from railkeeper.app.world import HubWorld
from railkeeper.base.errors import InputError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec, read_spec
from railkeeper.lab import client
from railkeeper.lab.client import LabClient
from railkeeper.lab.session import SessionOptions
from railkeeper.probe.link import Hub
from railkeeper.respond.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railkeeper.app.settings import Settings
    from railkeeper.probe.link import Curve

__all__ = ["KeeperState", "LabKeeper", "LabWish", "Outcome", "Wish", "lab_keeper", "live_keeper", "recording_keeper"]

LAB_FOLDER = Path("/run/railkeeper")
UPKEEP_EVERY_S = 30.0


@dataclass(frozen=True)
class Wish:
    """What the command line asks for. `where` is the settings file's name for errors."""

    settings: Settings
    where: str = "settings"
    record: Path | None = None
    dry_run: bool | None = None


@dataclass(frozen=True)
class LabWish:
    """The lab that a keeper is to have: `traffic_pps` is packets a second of each NIC."""

    spec: Path
    prefix: str = "rk"
    traffic: bool = True
    traffic_pps: float = 350.0


@dataclass(frozen=True)
class LabKeeper:
    """A keeper over a lab, and the line to that lab."""

    keeper: Keeper
    lab: LabClient
    fabric: Fabric

    def note(self, text: str) -> None:
        """Put a line for people into the recording, if there is one."""
        if self.keeper.recorder is not None:
            self.keeper.recorder.note(text, time.time())


def lab_options(wish: LabWish, tick_s: float, *, dies_with_parent: bool = True) -> SessionOptions:
    """Return the options of a lab's session."""
    folder = LAB_FOLDER / wish.prefix
    return SessionOptions(
        spec=read_spec(wish.spec).model_dump(exclude_none=True), folder=str(folder), prefix=wish.prefix,
        keeper=f"ipc://{folder}/keeper.sock", tick_s=tick_s, traffic=wish.traffic, traffic_pps=wish.traffic_pps,
        dies_with_parent=dies_with_parent,
    )  # fmt: skip


@contextlib.contextmanager
def lab_keeper(wish: Wish, lab: LabWish | None, *, prefix: str = "rk") -> Iterator[LabKeeper]:
    """Give a keeper over the lab that runs already, or over one that is built now and goes with the keeper.

    Without `lab` one that runs is needed.
    """
    prefix = lab.prefix if lab else prefix
    with contextlib.ExitStack() as stack:
        found = client.find(LAB_FOLDER / prefix)
        if found is None:
            if lab is None:
                raise InputError("--fabric", "is not given and no lab runs", "give a fabric spec, or `lab up` first")
            found = LabClient.start(lab_options(lab, wish.settings.keeper.tick_s))
        stack.callback(found.close)
        info = found.info()
        fabric = Fabric(check_spec(info["spec"]))
        setup = _setup(wish, fabric, "lab", dry_run=False, tick_s=info["tick_s"])
        world = _hub_world(wish, setup, info["keeper"], stack, lab=found)
        yield LabKeeper(_keeper(wish, setup, world, stack), found, fabric)


@contextlib.contextmanager
def live_keeper(wish: Wish, spec: Path, curve: Curve | None = None) -> Iterator[tuple[Keeper, Fabric, str]]:
    """Give a keeper that listens for agents of a fabric of its own, and the endpoint that it listens on."""
    fabric = Fabric(read_spec(spec))
    setup = _setup(wish, fabric, "live", dry_run=True, tick_s=wish.settings.keeper.tick_s)
    with contextlib.ExitStack() as stack:
        state = state_folder(wish.settings)
        endpoint = wish.settings.keeper.listen or f"ipc://{state.resolve()}/keeper.sock"
        world = _hub_world(wish, setup, endpoint, stack, curve=curve)
        yield _keeper(wish, setup, world, stack), fabric, endpoint


@contextlib.contextmanager
def recording_keeper(path: Path) -> Iterator[tuple[Keeper, RecordingWorld]]:
    """Give a keeper over a recording; nothing is written."""
    recording = open_recording(path)
    world = RecordingWorld(recording)
    yield Keeper(recording.setup, world, response=recording.response), world


def state_folder(settings: Settings) -> Path:
    """Return the state folder, made if need be."""
    folder = Path(settings.keeper.state)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"keeper.state: {folder}", f"can't be made ({e.strerror})", "give a folder to write to") from e
    return folder


def _setup(wish: Wish, fabric: Fabric, world: str, *, dry_run: bool, tick_s: float) -> Setup:
    dry = dry_run if wish.dry_run is None else wish.dry_run
    settings = wish.settings.model_copy(update={"keeper": wish.settings.keeper.model_copy(update={"tick_s": tick_s})})
    return Setup(
        fabric=fabric, world=world, tick_s=tick_s, locator=settings.locator_config(wish.where),
        limits=settings.limits_config(wish.where, dry_run=dry),
    )  # fmt: skip


def _hub_world(
    wish: Wish,
    setup: Setup,
    endpoint: str,
    stack: contextlib.ExitStack,
    *,
    lab: LabClient | None = None,
    curve: Curve | None = None,
) -> HubWorld:
    history = History(state_folder(wish.settings) / "history", keep_s=wish.settings.keeper.history_days * 86400)
    stack.callback(history.close)
    stack.enter_context(_upkeep(history))
    hub = Hub(endpoint, curve=curve)
    if endpoint.startswith("ipc://"):
        os.chmod(endpoint.removeprefix("ipc://"), 0o660)  # noqa: PTH101 (a socket, not a path to keep)
    read_ports = lab.ports if lab is not None else None
    world = HubWorld(setup.fabric, hub, history, tick_s=setup.tick_s, read_ports=read_ports)
    stack.callback(world.close)
    return world


def _keeper(wish: Wish, setup: Setup, world: HubWorld, stack: contextlib.ExitStack) -> Keeper:
    journal = stack.enter_context(Journal.open(wish.settings.journal_url(state_folder(wish.settings))))
    response = journal.restore(time.time())
    recorder = None
    if wish.record is not None:
        recorder = Recorder(wish.record, setup, response)
        stack.callback(recorder.close)
    return Keeper(setup, world, response=response, journal=journal, recorder=recorder)


@contextlib.contextmanager
def _upkeep(history: History) -> Iterator[None]:
    """Compact and retain in a thread, so that a tick never waits for it."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(UPKEEP_EVERY_S):
            history.upkeep(time.time())

    thread = threading.Thread(target=work, name="history-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
