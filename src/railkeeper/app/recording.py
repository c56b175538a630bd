"""Recordings: the inputs of every tick and a digest of the answers, so that a replay can prove itself.

A recording is one file in the frames of the tick log: a `header` (spec, settings, what was open at its start), then
for each tick an `input` and a `digest` (a running SHA-256 over the event lines). A `note` between them is for people.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from railkeeper.app.inputs import decode_input, encode_input
from railkeeper.app.levels import LevelConfig
from railkeeper.app.pipeline import Setup, begin
from railkeeper.app.settings import KeeperSettings, locator_config
from railkeeper.app.sound import check_input
from railkeeper.app.ticklog import MAGIC, Damage, LogRecord, frame, read_segment
from railkeeper.app.typed import build
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.slo.objectives import BurnAlert, Slo
from railkeeper.health.slo.series import Series, dump, load
from railkeeper.health.slo.slis import SliConfig
from railkeeper.respond.actions import Action
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import Incident
from railkeeper.respond.responder import ResponseState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from railkeeper.app.inputs import TickInput
    from railkeeper.probe.extra import Ask

SCHEMA = 1
# Of what a keeper begins with, a record holds at most so many bytes.
PIECE_BYTES = 16 << 20


def canonical(event: dict[str, Any]) -> str:
    """Return the one JSON text of an event line."""
    return json.dumps(event, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Digest:
    """A running SHA-256 over event lines in their canonical JSON form."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, events: Iterable[dict[str, Any]]) -> bytes:
        """Add the lines of a tick and return the digest of all so far."""
        for event in events:
            self._hash.update(canonical(event).encode())
        return self._hash.digest()


class Recorder:
    """Writes a recording as a keeper runs."""

    def __init__(self, path: Path, setup: Setup, response: ResponseState, series: Series | None = None) -> None:
        try:
            self._file = path.open("xb")
        except FileExistsError as e:
            raise InputError(str(path), "is there already", "give the recording a new name") from e
        except OSError as e:
            raise InputError(
                str(path), f"can't be written ({e.strerror})", "give a path in a folder that exists"
            ) from e
        self._digest = Digest()
        self._file.write(MAGIC)
        for piece in in_pieces(pack_start(Start(setup, response, series or Series()))):
            self._put("header", 0.0, piece)

    def add(self, given: TickInput, events: Sequence[dict[str, Any]], t_s: float) -> None:
        """Append a tick and the digest of the answers up to it."""
        self._put("input", t_s, encode_input(given))
        self._put("digest", t_s, self._digest.add(events), flush=True)

    def note(self, text: str, t_s: float) -> None:
        """Append a line for people: what somebody did while it was recorded."""
        self._put("note", t_s, text.encode())

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as e:
            raise OutsideError(f"{self._file.name} can't be written: {e.strerror}") from e

    def _put(self, kind: str, t_s: float, body: bytes, *, flush: bool = False) -> None:
        try:
            self._file.write(frame(LogRecord(t_s, kind, "keeper", 0, bytes(body))))
            if flush:
                self._file.flush()
        except OSError as e:
            raise OutsideError(f"{self._file.name} can't be written: {e.strerror}") from e


class Start(NamedTuple):
    """What a keeper begins with: settings, what is open, error budgets so far."""

    setup: Setup
    response: ResponseState
    series: Series


def pack_start(start: Start) -> bytes:
    """Return all that a keeper begins with, as bytes."""
    return bytes(msgpack.packb(_header(start.setup, start.response) | {"series": dump(start.series)}))


def in_pieces(data: bytes) -> list[bytes]:
    """Return bytes as pieces that a record has room for; one at least."""
    return [data[k : k + PIECE_BYTES] for k in range(0, max(len(data), 1), PIECE_BYTES)]


def _header(setup: Setup, response: ResponseState) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "world": setup.world,
        "spec": setup.fabric.spec.model_dump(exclude_none=True),
        "tick_s": setup.tick_s,
        "locator": asdict(setup.locator),
        "limits": asdict(setup.limits),
        "frame_s": setup.frame_s,
        "detectors": setup.detectors,
        "levels": asdict(setup.levels),
        "incidents": [i.to_dict() for i in response.incidents.values()],
        "actions": [a.to_dict() for a in response.actions.values()],
        "next_incident": response.next_incident,
        "version": response.version,
    }


@dataclass(frozen=True)
class Recording:
    """An open recording: how the keeper began, and the ticks with their digests (None where one is missing)."""

    setup: Setup
    response: ResponseState
    series: Series
    path: Path

    def ticks(self, note: Callable[[str], None] = lambda _text: None) -> Iterator[tuple[TickInput, bytes | None]]:
        """Yield each tick with the digest recorded after it; a torn last tick comes without one.

        Notes go to `note` as they are passed. Raises InputError for a tick that is broken, or of another fabric.
        """
        waiting: TickInput | None = None
        for record in _records(self.path):
            if record.kind == "note":
                note(record.body.decode(errors="replace"))
            elif record.kind == "input":
                if waiting is not None:
                    yield waiting, None
                waiting = decode_input(record.body, where=str(self.path))
                check_input(self.setup.fabric, self.setup.tick_s, waiting, str(self.path))
            elif record.kind == "digest" and waiting is not None:
                yield waiting, record.body
                waiting = None
        if waiting is not None:
            yield waiting, None


def open_recording(path: Path) -> Recording:
    """Open a recording; raises InputError when it is none, or of a release that this one can't read."""
    header = [r.body for r in itertools.takewhile(lambda r: r.kind == "header", _records(path))]
    if not header:
        raise InputError(str(path), "is not a recording", "give a file that `railkeeper run --record` has written")
    return Recording(*unpack_start(b"".join(header), str(path)), path)


def unpack_start(data: bytes, where: str) -> Start:
    """Return what a keeper began with; raises InputError for bytes that are no such, or of another release."""
    try:
        return _unpack(msgpack.unpackb(data), where)
    except InputError as e:
        if e.where.startswith(where):
            raise
        raise InputError(f"{where}: {e.where}", e.problem, e.right) from e
    except Exception as e:  # whatever a stranger's bytes can raise, the answer is the same
        raise InputError(where, f"has a broken header ({type(e).__name__}: {e})", "record it again") from e


def _unpack(header: dict[str, Any], path: str) -> Start:
    if header["schema"] != SCHEMA:
        raise InputError(f"{path}: schema", f"is {header['schema']!r}", f"this release reads schema {SCHEMA}")
    tick_s = KeeperSettings(tick_s=header["tick_s"]).tick_s
    setup = Setup(
        fabric=Fabric(check_spec(header["spec"], where=path)),
        world=str(header["world"]),
        tick_s=tick_s,
        locator=locator_config(header["locator"], f"{path}: locator"),
        limits=build(Limits, header["limits"], f"{path}: limits"),
        **_telemetry(header),
    )
    incidents = {i.id: i for i in map(Incident.from_dict, header["incidents"])}
    actions = {a.key: a for a in map(Action.from_dict, header["actions"])}
    response = ResponseState(incidents, actions, int(header["next_incident"]), int(header["version"]))
    begin(setup, response)  # names and links must be of this fabric
    if response.denied and not 0 <= response.denied[0] <= response.denied[-1] < 2 * setup.fabric.n_links:
        raise InputError(f"{path}: actions", "deny links that the fabric does not have", "record it again")
    return Start(setup, response, load(header.get("series", {})))


def _telemetry(header: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that recordings of before do not have."""
    if "levels" not in header:
        return {}
    levels = header["levels"]
    slos = tuple(Slo(**{**s, "alerts": tuple(BurnAlert(**a) for a in s["alerts"])}) for s in levels["slos"])
    return {
        "frame_s": float(header["frame_s"]),
        "detectors": {str(k): dict(v) for k, v in header["detectors"].items()},
        "levels": LevelConfig(slos, SliConfig(**levels["slis"])),
    }


def _records(path: Path) -> Iterator[LogRecord]:
    damage = Damage()
    try:
        yield from read_segment(path, damage)
    except OSError as e:
        raise InputError(str(path), f"can't be read ({e.strerror})", "give the path of a recording") from e
    if damage.frames:
        raise InputError(str(path), f"has {damage.frames} damaged frames", "record it again, or restore the file")


class RecordingWorld:
    """A recording as a world: ticks as fast as they can be judged; denials were answered when it was recorded."""

    def __init__(self, recording: Recording) -> None:
        self.notes: list[str] = []
        self._ticks = recording.ticks(self.notes.append)
        self.expected: bytes | None = None

    def next_tick(self) -> TickInput | None:
        """Return the next recorded tick; its digest is then in `expected`."""
        given, self.expected = next(self._ticks, (None, None))
        return given

    def deny(self, version: int, links: Sequence[int]) -> None:
        """Do nothing: the recording holds what the senders answered."""

    def probe(self, ask: Ask) -> None:
        """Do nothing: the recording holds what the agents found."""

    def close(self) -> None:
        """Nothing is open between ticks."""
