"""gNMI: a switch that tells its telemetry by itself, by Subscribe in STREAM mode, over TLS.

Silence is legal there: a path that does not exist is no error, and one that does not change says nothing. So each
subscription's age is told by ourselves (`gnmi.reader`), and a stream whose samples stop is ended and run again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import grpc
from gnmi_pb import gnmi_pb2

from railkeeper.adapters.gnmi_errors import outside
from railkeeper.adapters.gnmi_paths import Path, begins_with, read_path, text_of
from railkeeper.adapters.gnmi_readings import PathCache, Reader
from railkeeper.adapters.gnmi_values import leaves_of
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railkeeper.adapters.secret import Secret

    Emit = Callable[[Sequence[Reading]], None]

MOST_MESSAGE_BYTES = 128_000_000
ACCOUNT_EVERY_S = 10.0
# A stream is stuck when samples that came before have not come for so many intervals, and at least so long.
SILENT_INTERVALS = 5
SILENT_LEAST_S = 10.0
# Servers in Go end a connection that is pinged more often than every five minutes.
KEEPALIVE_MS = 310_000
UPDATES_AT_A_TIME = 5_000
_DAY_NS = 86_400 * 1_000_000_000
_YEAR_2000_NS = 946_684_800 * 1_000_000_000
_ENCODINGS = {"json": "JSON", "json_ietf": "JSON_IETF", "proto": "PROTO"}


@dataclass(frozen=True)
class GnmiSubscription:
    """One path: mode "sample", "on_change" or "target_defined"; intervals in s, 0 for the target's own choice."""

    path: str
    mode: str = "sample"
    sample_s: float = 10.0
    heartbeat_s: float = 0.0
    suppress_redundant: bool = False


@dataclass(frozen=True)
class GnmiSettings:
    """One gNMI target.

    - address: HOST:PORT; tls: with TLS, else in clear text, and then without a password
    - ca_file, cert_file, key_file: PEM; server_name: the name in its certificate, if it is not that of the address
    - database: target of the prefix, as COUNTERS_DB on SONiC; origin: origin of the prefix
    """

    source: str
    switch: str
    address: str
    subscriptions: tuple[GnmiSubscription, ...]
    tls: bool = True
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    username: str = ""
    password: Secret | None = None
    database: str = ""
    origin: str = ""
    encoding: str = "json_ietf"


class GnmiStream:
    """A `Stream`: subscribes and tells what comes until it breaks. Inert until `run`."""

    def __init__(self, settings: GnmiSettings) -> None:
        """Raise InputError if a setting is wrong or a file of TLS can't be read."""
        _check(settings)
        self.settings = settings
        self.source = settings.source
        self.name = settings.switch
        self._request = subscribe_request(settings)
        self._paths = [read_path(s.path) for s in settings.subscriptions]
        self._credentials = _credentials(settings)

    def __repr__(self) -> str:
        return f"GnmiStream({self.name}, {self.settings.address})"

    async def run(self, emit: Emit) -> None:
        """Subscribe and emit readings. Raises OutsideError when it ends, with what the target said of it."""
        try:
            async with self._channel() as channel:
                await self._follow(channel, emit)
        except grpc.RpcError as error:
            raise outside(self.settings.address, error, ca_file=self.settings.ca_file) from None
        raise OutsideError(f"gNMI {self.settings.address}: the target ended the stream", retry=True)

    async def close(self) -> None:
        """Nothing is held open between runs."""

    def _channel(self) -> Any:
        s = self.settings
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.use_local_subchannel_pool", 1),  # else it would wait by a backoff of its own before the next try
        ]
        if s.server_name:
            options.append(("grpc.ssl_target_name_override", s.server_name))
        if self._credentials is None:
            return grpc.aio.insecure_channel(s.address, options=options)
        return grpc.aio.secure_channel(s.address, self._credentials, options=options)

    async def _follow(self, channel: Any, emit: Emit) -> None:
        subscribe = channel.stream_stream(
            "/gnmi.gNMI/Subscribe",
            request_serializer=gnmi_pb2.SubscribeRequest.SerializeToString,
            response_deserializer=gnmi_pb2.SubscribeResponse.FromString,
        )
        call = subscribe(metadata=self._metadata())
        # Our side stays open: there are targets that take its end for the end of the subscription.
        await call.write(self._request)
        watch = _Watch(self.settings, self._paths)
        reader = Reader(self.source, self.name, self.settings.database)
        ticks = asyncio.create_task(_told_ages(watch, emit, self))
        coming = asyncio.create_task(self._receive(call, reader, watch, emit))
        try:
            await asyncio.wait({ticks, coming}, return_when=asyncio.FIRST_COMPLETED)
            for task in (coming, ticks):
                if task.done():
                    task.result()
        finally:
            ticks.cancel()
            coming.cancel()
            await asyncio.gather(ticks, coming, return_exceptions=True)
            call.cancel()

    async def _receive(self, call: Any, reader: Reader, watch: _Watch, emit: Emit) -> None:
        async for response in call:
            what = response.WhichOneof("response")
            if what == "sync_response":
                watch.synced = True
            elif what == "update":
                await self._notified(response.update, reader, watch, emit)

    async def _notified(self, told: Any, reader: Reader, watch: _Watch, emit: Emit) -> None:
        t_ns = watch.stamp(told.timestamp)
        paths = watch.wire_paths
        paths.below(told.prefix)
        if told.delete:
            emit(reader.deletes([paths.path(path) for path in told.delete], t_ns))
        for at in range(0, len(told.update), UPDATES_AT_A_TIME):
            leaves = []
            for update in told.update[at : at + UPDATES_AT_A_TIME]:
                path = paths.path(update.path)
                watch.heard(path)
                leaves += _leaves(path, update, watch)
            emit(reader.updates(leaves, t_ns))
            await asyncio.sleep(0)  # a bundle of a whole switch does not hold up the others

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        s = self.settings
        if not s.username:
            return ()
        return (("username", s.username), ("password", s.password.reveal() if s.password else ""))


def _leaves(path: Path, update: Any, watch: _Watch) -> list[tuple[Path, int | float | str | None]]:
    """Return an update's leaves; what can't be read is told as there but unread, and the others go on."""
    try:
        return list(leaves_of(path, update.val))
    except InputError:
        watch.unreadable += 1
        return [(path, None)]


class _Watch:
    """When each subscription was last heard."""

    def __init__(self, settings: GnmiSettings, paths: Sequence[Path]) -> None:
        self._subscriptions = settings.subscriptions
        self._paths = paths
        self.wire_paths = PathCache()
        self._cache: dict[Path, tuple[int, ...]] = {}
        self.heard_s: list[float | None] = [None] * len(paths)
        self.began_s = time.monotonic()
        self.synced = False
        self.odd_stamps = self.unreadable = 0

    def heard(self, path: Path) -> None:
        mine = self._cache.get(path)
        if mine is None:
            mine = tuple(at for at, one in enumerate(self._paths) if begins_with(path, one) or begins_with(one, path))
            if len(self._cache) < 100_000:
                self._cache[path] = mine
        for at in mine:
            self.heard_s[at] = time.monotonic()

    def stamp(self, t_ns: int) -> int:
        """Return a notification's time; ours if its own is none that a clock can show."""
        now_ns = time.time_ns()
        if _YEAR_2000_NS < t_ns < now_ns + _DAY_NS:
            return int(t_ns)
        self.odd_stamps += 1
        return now_ns

    def counts(self) -> dict[str, int]:
        """Return what was odd since the stream began."""
        return {"synced": int(self.synced), "odd_stamps": self.odd_stamps, "unreadable": self.unreadable}

    def check(self) -> None:
        """Raise OutsideError if every sampled path that spoke before is silent."""
        now_s = time.monotonic()
        sampled = [
            (heard_s, one)
            for heard_s, one in zip(self.heard_s, self._subscriptions, strict=True)
            if one.mode == "sample" and not one.suppress_redundant and heard_s is not None
        ]
        if sampled and all(now_s - s > max(SILENT_INTERVALS * one.sample_s, SILENT_LEAST_S) for s, one in sampled):
            raise OutsideError("its samples have stopped, though the connection stands", retry=True)

    def ages(self) -> list[tuple[str, float, bool]]:
        """Return (path, seconds since it was heard, whether it was heard at all)."""
        now_s = time.monotonic()
        return [
            (text_of(path), now_s - (self.began_s if heard_s is None else heard_s), heard_s is not None)
            for path, heard_s in zip(self._paths, self.heard_s, strict=True)
        ]


async def _told_ages(watch: _Watch, emit: Emit, stream: GnmiStream) -> None:
    while True:
        await asyncio.sleep(ACCOUNT_EVERY_S)
        try:
            watch.check()
        except OutsideError as error:
            raise OutsideError(f"gNMI {stream.settings.address}: {error}", retry=True) from None
        t_ns = time.time_ns()
        emit(
            [
                Reading(
                    stream.source,
                    stream.name,
                    "gnmi.reader",
                    {"switch": stream.name, "path": path},
                    t_ns,
                    {"age_s": age_s, "heard": int(heard), **watch.counts()},
                )
                for path, age_s, heard in watch.ages()
            ]
        )


def subscribe_request(settings: GnmiSettings) -> Any:
    """Return the SubscribeRequest of the settings."""
    modes = {"sample": gnmi_pb2.SAMPLE, "on_change": gnmi_pb2.ON_CHANGE, "target_defined": gnmi_pb2.TARGET_DEFINED}
    subscriptions = [
        gnmi_pb2.Subscription(
            path=_wire_path(read_path(one.path)),
            mode=modes[one.mode],
            sample_interval=round(one.sample_s * 1e9) if one.mode == "sample" else 0,
            heartbeat_interval=round(one.heartbeat_s * 1e9),
            suppress_redundant=one.suppress_redundant,
        )
        for one in settings.subscriptions
    ]
    wanted = gnmi_pb2.SubscriptionList(
        prefix=gnmi_pb2.Path(target=settings.database, origin=settings.origin),
        subscription=subscriptions,
        mode=gnmi_pb2.SubscriptionList.STREAM,
        encoding=getattr(gnmi_pb2, _ENCODINGS[settings.encoding]),
    )
    return gnmi_pb2.SubscribeRequest(subscribe=wanted)


def _wire_path(path: Path) -> Any:
    return gnmi_pb2.Path(elem=[gnmi_pb2.PathElem(name=elem.name, key=dict(elem.keys)) for elem in path])


def _check(settings: GnmiSettings) -> None:
    where = f"gNMI target {settings.switch}"
    if not settings.subscriptions:
        raise InputError(where, "no path is subscribed", "name at least one")
    if settings.encoding not in _ENCODINGS:
        raise InputError(where, f"encoding {settings.encoding!r}", f"one of {', '.join(_ENCODINGS)}")
    if not settings.tls and settings.password:
        raise InputError(where, "a password would go over the wire as clear text", "switch tls on")
    for one in settings.subscriptions:
        if one.mode not in {"sample", "on_change", "target_defined"}:
            raise InputError(where, f"mode {one.mode!r} of {one.path}", "sample, on_change or target_defined")
        if not read_path(one.path, where):
            raise InputError(where, f"path {one.path!r} is empty", "name what is to be told")


def _credentials(settings: GnmiSettings) -> Any:
    if not settings.tls:
        return None
    ca, key, cert = (_pem(settings, name) for name in ("ca_file", "key_file", "cert_file"))
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)


def _pem(settings: GnmiSettings, name: str) -> bytes | None:
    file = getattr(settings, name)
    if not file:
        return None
    try:
        raw = File(file).read_bytes()
    except OSError as error:
        raise InputError(name, f"{file} can't be read ({error.strerror})", "give a PEM file") from None
    if b"-----BEGIN " not in raw:
        raise InputError(name, f"{file} is no PEM", "give a file that has -----BEGIN in it")
    return raw
