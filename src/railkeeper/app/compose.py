"""Puts a keeper together: settings, world, journal, history, recording. The one place where they meet."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from railkeeper.app.feed import open_feed
from railkeeper.app.history import History
from railkeeper.app.keeper import Keeper
from railkeeper.app.lab_feed import LabFeed
from railkeeper.app.metrics import KeeperMetrics, serve
from railkeeper.app.past_levels import hour_record, past_levels
from railkeeper.app.pipeline import KeeperState, Outcome, Setup
from railkeeper.app.recording import Recorder, RecordingWorld, open_recording
from railkeeper.app.warm import warm_up
from railkeeper.app.world import Feed, HubWorld
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec, read_spec
from railkeeper.lab import client
from railkeeper.lab.capability import check_capability
from railkeeper.lab.client import LabClient
from railkeeper.lab.names import check_prefix
from railkeeper.lab.session import SessionOptions
from railkeeper.probe.link import Hub
from railkeeper.respond.journal import Journal
from railkeeper.respond.responder import REMEMBER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railkeeper.app.feed import SourceFeed
    from railkeeper.app.settings import Settings

__all__ = ["KeeperState", "LabKeeper", "LabWish", "Outcome", "Wish", "lab_keeper", "live_keeper", "recording_keeper"]

LAB_FOLDER = Path("/run/railkeeper")
UPKEEP_EVERY_S = 30.0


def _to_stderr(text: str) -> None:
    print(f"railkeeper: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Wish:
    """What the command line asks for. `where` is the settings file's name for errors; `say` is told what goes wrong.

    `dry_run` None leaves it to the settings file, and without one there to the world.
    """

    settings: Settings
    where: str = "settings"
    record: Path | None = None
    dry_run: bool | None = None
    say: Callable[[str], None] = _to_stderr


@dataclass(frozen=True)
class LabWish:
    """The lab that a keeper is to have: `traffic_pps` is packets a second of each NIC.

    `own`: it must be built now and for this keeper alone.
    """

    spec: Path
    prefix: str = "rk"
    traffic: bool = True
    traffic_pps: float = 350.0
    own: bool = False


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


def lab_options(wish: LabWish, tick_s: float) -> SessionOptions:
    """Return the options of a lab's session."""
    folder = LAB_FOLDER / wish.prefix
    return SessionOptions(
        spec=read_spec(wish.spec).model_dump(exclude_none=True), folder=str(folder), prefix=wish.prefix,
        keeper=f"ipc://{folder}/keeper.sock", tick_s=tick_s, traffic=wish.traffic, traffic_pps=wish.traffic_pps,
    )  # fmt: skip


@contextlib.contextmanager
def lab_keeper(wish: Wish, lab: LabWish | None, *, prefix: str = "rk") -> Iterator[LabKeeper]:
    """Give a keeper over the lab that runs already, or over one that is built now and goes with the keeper.

    Without `lab` one that runs is needed. Raises InputError where the one that runs is not the one that is wanted,
    CapabilityError where this machine or account can't have a lab.
    """
    _check_record(wish)
    with contextlib.ExitStack() as stack:
        found = _find_or_start(lab, prefix, wish.settings.keeper.tick_s)
        stack.callback(found.close)
        info = found.info()
        fabric = Fabric(check_spec(info["spec"]))
        setup = _setup(wish, fabric, "lab", dry_run=False, tick_s=info["tick_s"])
        stack.enter_context(_only_keeper(info["keeper"]))
        history = _history(wish, stack)
        asked = _feed(wish, setup, stack)
        warm_up()
        own = LabFeed(fabric, found.counters, frame_s=setup.frame_s, traffic=info["traffic"])
        world = _hub_world(wish, setup, info["keeper"], stack, history, lab=found, feed=asked or own)
        yield LabKeeper(_keeper(wish, setup, world, stack, history, feed=asked), found, fabric)


def _find_or_start(lab: LabWish | None, prefix: str, tick_s: float) -> LabClient:
    prefix = check_prefix(lab.prefix if lab else prefix)
    found = client.find(LAB_FOLDER / prefix)
    if found is None:
        if lab is None:
            raise InputError("--fabric", "is not given and no lab runs", "give a fabric spec, or `lab up` first")
        check_capability()
        return LabClient.start(lab_options(lab, tick_s))
    if lab is not None:
        try:
            _check_same(lab, found)
        except BaseException:
            found.close()
            raise
    return found


def _check_same(lab: LabWish, found: LabClient) -> None:
    if lab.own:
        raise InputError("--prefix", f"{lab.prefix!r} belongs to a lab that runs already", "give another one")
    if read_spec(lab.spec) != check_spec(found.info()["spec"]):
        right = "leave out --fabric to attach to it, or give another --prefix"
        raise InputError("--fabric", f"is not the fabric of the lab {lab.prefix!r} that runs already", right)


@contextlib.contextmanager
def live_keeper(wish: Wish, spec: Path) -> Iterator[tuple[Keeper, str]]:
    """Give a keeper that listens for agents of a fabric of its own, and the endpoint that it listens on."""
    _check_record(wish)
    fabric = Fabric(read_spec(spec))
    setup = _setup(wish, fabric, "live", dry_run=True, tick_s=wish.settings.keeper.tick_s)
    with contextlib.ExitStack() as stack:
        state = state_folder(wish.settings)
        endpoint = wish.settings.keeper.listen or f"ipc://{state.resolve()}/keeper.sock"
        stack.enter_context(_only_keeper(endpoint))
        history = _history(wish, stack)
        feed = _feed(wish, setup, stack)
        world = _hub_world(wish, setup, endpoint, stack, history, feed=feed)
        yield _keeper(wish, setup, world, stack, history, feed=feed), endpoint


@contextlib.contextmanager
def recording_keeper(path: Path) -> Iterator[tuple[Keeper, RecordingWorld]]:
    """Give a keeper over a recording; nothing is written."""
    recording = open_recording(path)
    world = RecordingWorld(recording)
    yield Keeper(recording.setup, world, response=recording.response, series=recording.series), world


def state_folder(settings: Settings) -> Path:
    """Return the state folder, made if need be."""
    folder = Path(settings.keeper.state)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"keeper.state: {folder}", f"can't be made ({e.strerror})", "give a folder to write to") from e
    return folder


def _check_record(wish: Wish) -> None:
    """Fail at once, not after a lab has been built."""
    if wish.record is not None and os.path.lexists(wish.record):
        raise InputError(str(wish.record), "is there already", "give the recording a new name")
    if wish.record is not None and not wish.record.absolute().parent.is_dir():
        raise InputError(str(wish.record), "can't be written", "give a path in a folder that exists")


def _setup(wish: Wish, fabric: Fabric, world: str, *, dry_run: bool, tick_s: float) -> Setup:
    settings = wish.settings.model_copy(update={"keeper": wish.settings.keeper.model_copy(update={"tick_s": tick_s})})
    return Setup(
        fabric=fabric, world=world, tick_s=tick_s,
        # With sources there is something to see before the first agent is set up.
        locator=settings.locator_config(
            wish.where, common_clock=world == "lab", expect_agents=world == "lab" or not settings.source
        ),
        limits=settings.limits_config(wish.where, dry_run=dry_run, wanted=wish.dry_run),
        frame_s=settings.telemetry.frame_s, detectors=settings.detector_parameters(wish.where),
        levels=settings.level_config(wish.where),
    )  # fmt: skip


def _hub_world(
    wish: Wish,
    setup: Setup,
    endpoint: str,
    stack: contextlib.ExitStack,
    history: History,
    *,
    lab: LabClient | None = None,
    feed: Feed | None = None,
) -> HubWorld:
    hub = Hub(endpoint)
    if (socket := _socket_file(endpoint)) is not None:
        socket.chmod(0o660)
    read_ports = lab.ports if lab is not None else None
    world = HubWorld(
        setup.fabric, hub, history, tick_s=setup.tick_s, read_ports=read_ports, feed=feed, complain=wish.say
    )
    stack.callback(world.close)
    return world


def _history(wish: Wish, stack: contextlib.ExitStack) -> History:
    k = wish.settings.keeper
    history = History(
        state_folder(wish.settings) / "history", keep_s=k.history_days * 86400, max_bytes=round(k.history_gb * 1e9)
    )
    stack.callback(history.close)
    stack.enter_context(_upkeep(history, wish.say))
    return history


def _feed(wish: Wish, setup: Setup, stack: contextlib.ExitStack) -> SourceFeed | None:
    """Begin to ask the sources of the settings, if there are any."""
    settings = wish.settings
    if not settings.source:
        return None
    warm_up()
    feed = open_feed(
        settings, settings.source, setup.fabric, frame_s=setup.frame_s, where=wish.where, complain=wish.say
    )
    feed.start()
    stack.callback(feed.close)
    return feed


def _socket_file(endpoint: str) -> Path | None:
    path = endpoint.removeprefix("ipc://")
    return None if path == endpoint or path.startswith("@") else Path(path)


@contextlib.contextmanager
def _only_keeper(endpoint: str) -> Iterator[None]:
    """Hold the endpoint's lock: binding to a socket's file would take it from a keeper that lives, without a word."""
    socket = _socket_file(endpoint)
    if socket is None:
        yield
        return
    lock = socket.with_name(f"{socket.name}.lock")
    try:
        file = lock.open("a")
    except OSError as e:
        raise InputError(str(socket), f"can't be opened ({e.strerror})", "give a socket in a folder to write to") from e
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise OutsideError(f"another keeper listens on {endpoint}") from e
        yield


def _keeper(
    wish: Wish,
    setup: Setup,
    world: HubWorld,
    stack: contextlib.ExitStack,
    history: History,
    *,
    feed: SourceFeed | None = None,
) -> Keeper:
    now = time.time()
    journal = stack.enter_context(Journal.open(wish.settings.journal_url(state_folder(wish.settings))))
    _check_fabric(journal, setup.fabric, wish.settings.keeper.state)
    response = journal.restore(now, remember_s=max(REMEMBER_S, setup.limits.cooldown_s, setup.limits.retry_s))
    # Senders may hold a set of an earlier keeper whose journal is lost: our versions are higher than any it can have.
    response = replace(response, version=max(response.version, int(now)))
    series, loose, _ = past_levels(history.folder, now)
    for number in loose:
        if (sums := hour_record(series, number, f"keeper/{history.run}")) is not None:
            history.append(sums)
    recorder = None
    if wish.record is not None:
        recorder = Recorder(wish.record, setup, response, series)
        stack.callback(recorder.close)
    keeper = Keeper(setup, world, response=response, journal=journal, recorder=recorder, history=history, series=series)
    stack.callback(keeper.close)
    if wish.settings.telemetry.metrics:
        metrics = KeeperMetrics(setup, feed.statuses if feed else lambda: ())
        stack.callback(serve(metrics, wish.settings.telemetry.metrics))
        keeper.observers.append(metrics.update)
    return keeper


def _check_fabric(journal: Journal, fabric: Fabric, state: str) -> None:
    """Refuse to go on with faults and denials of another fabric: names and link numbers would mean other parts."""
    spec = json.loads(json.dumps(fabric.spec.model_dump(exclude_none=True)))
    known = journal.note("fabric_spec")
    if known == spec:
        return
    if known is not None and (journal.incidents(only_open=True) or journal.actions(only_standing=True)):
        right = f"give another keeper.state (is {state!r}), or run the old fabric until they are closed"
        raise InputError("fabric", "is another one than that of the open incidents in the journal", right)
    journal.record(notes={"fabric_spec": spec})


@contextlib.contextmanager
def _upkeep(history: History, say: Callable[[str], None]) -> Iterator[None]:
    """Compact and retain in a thread, so that a tick never waits for it."""
    stop = threading.Event()

    def work() -> None:
        failed = ""
        while not stop.wait(UPKEEP_EVERY_S):
            try:
                done = history.upkeep(time.time())
                if done.damaged_frames:
                    say(f"{done.damaged_frames} damaged frames in the tick log: set aside as history/log/*.damaged")
                failed = ""
            except Exception as e:  # noqa: BLE001  whatever it is, the next round may do better, and people must know
                if str(e) != failed:
                    say(f"the history can't be compacted: {type(e).__name__}: {e}")
                failed = str(e)

    thread = threading.Thread(target=work, name="history-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
