"""The line between agents or senders and the keeper; either side may vanish and come back.

A peer says hello on each new connection, then sends again whatever the keeper has not acknowledged: nothing is lost
while the buffer has room, and a message can come twice (the hub tells repeats apart as long as it lives; whoever
stores reports tells them apart by their content). When the buffer is full the oldest goes, and is counted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack
import zmq
from zmq.utils.monitor import recv_monitor_message

from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Iterable

RESEND_AFTER_S = 5.0  # an acknowledgement that takes longer was lost, or the keeper is stuck: say it again
MAX_MESSAGE_BYTES = 16 << 20  # far above any report, and far below what a log can hold in one piece
_DONE_KEPT = 512  # acknowledged numbers of a peer: more than it can have waiting for an answer
_CLOSE_LINGER_MS = 200


@dataclass(frozen=True)
class Curve:
    """CURVE keys (40 characters, Z85) of one side; `server` is the keeper's public key, needed by peers only."""

    public: bytes
    secret: bytes = field(repr=False)
    server: bytes = b""


@dataclass
class _Waiting:
    """A message that the keeper has not acknowledged; `weight`: ticks that are forgotten if it has to go."""

    data: bytes
    weight: int
    sent_at: float = 0.0


class KeeperLink:
    """A peer's end: `send` what must arrive, `poll` for commands; never blocks longer than told.

    `name` is e.g. ``agent/n3``; at most `buffer` messages wait for an acknowledgement.
    """

    def __init__(self, endpoint: str, name: str, *, buffer: int = 240, curve: Curve | None = None) -> None:
        self.name, self._buffer = name, buffer
        self._session = secrets.randbits(62)
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._seq = 0
        self._forgotten = 0
        self.connected = False
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        _prepare(self._socket, curve)
        self._socket.set(zmq.IMMEDIATE, 1)  # what can't be sent now waits in our buffer, not in the socket's
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._socket.connect(endpoint)

    @property
    def waiting(self) -> int:
        """How many messages wait for the keeper's acknowledgement."""
        return len(self._waiting)

    def take_forgotten(self) -> int:
        """Return the weight of messages dropped since the last call: to be told in the next message."""
        forgotten, self._forgotten = self._forgotten, 0
        return forgotten

    def send(self, kind: str, body: bytes, *, weight: int = 1) -> None:
        """Send a message of type `kind` until it is acknowledged; the oldest goes when the buffer is full."""
        self._seq += 1
        data = self._pack({"type": kind, "seq": self._seq, "body": body})
        self._waiting[self._seq] = waiting = _Waiting(data, weight)
        while len(self._waiting) > self._buffer:
            _, oldest = self._waiting.popitem(last=False)
            self._forgotten += oldest.weight
        if self.connected:
            self._push(waiting)

    def tell(self, message: dict[str, Any]) -> bool:
        """Send a message once, if the keeper is there; it must not matter when it is lost."""
        return self.connected and self._put(self._pack(message))

    def poll(self, timeout_s: float = 0.0) -> list[dict[str, Any]]:
        """Do what the line needs and return the keeper's commands; waits at most `timeout_s` for the first."""
        if timeout_s > 0:
            self._socket.poll(int(timeout_s * 1000))
        self._watch()
        commands = [m for m in self._take() if not self._acknowledged(m)]
        self._resend_stale()
        return commands

    def close(self) -> None:
        """Close the line; what waits is given a moment to leave."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(_CLOSE_LINGER_MS)
        self._context.term()

    def _pack(self, message: dict[str, Any]) -> bytes:
        return bytes(msgpack.packb({**message, "name": self.name, "session": self._session}))

    def _watch(self) -> None:
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor, zmq.DONTWAIT)["event"]
            self.connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if self.connected:
                self._greet()

    def _greet(self) -> None:
        self._put(self._pack({"type": "hello", "pid": os.getpid()}))
        self._push_all()

    def _push_all(self) -> None:
        for waiting in self._waiting.values():
            if not self._push(waiting):
                return

    def _push(self, waiting: _Waiting) -> bool:
        waiting.sent_at = time.monotonic()
        return self._put(waiting.data)

    def _put(self, data: bytes) -> bool:
        try:
            self._socket.send(data, zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def _take(self) -> Iterable[dict[str, Any]]:
        while int(self._socket.get(zmq.EVENTS)) & zmq.POLLIN:  # cheaper than to try and catch, when asked so often
            message = _unpack(self._socket.recv(zmq.DONTWAIT))
            if message is not None:
                yield message

    def _acknowledged(self, message: dict[str, Any]) -> bool:
        if message["type"] != "ack":
            return False
        seq = message.get("seq")
        if isinstance(seq, int):
            self._waiting.pop(seq, None)
        return True

    def _resend_stale(self) -> None:
        oldest = next(iter(self._waiting.values()), None)
        if self.connected and oldest and time.monotonic() - oldest.sent_at > RESEND_AFTER_S:
            self._push_all()


@dataclass(frozen=True)
class Message:
    """One message of a peer; `seq` and `body` where it wants an answer, every field in `data`."""

    name: str
    type: str
    seq: int
    body: bytes
    data: dict[str, Any]
    session: int
    address: bytes


@dataclass
class Peer:
    """A peer as the hub knows it; `heard_at` is the monotonic time of its last message."""

    name: str
    session: int
    address: bytes
    pid: int = 0
    heard_at: float = 0.0
    done: set[int] = field(default_factory=set)


class Hub:
    """The keeper's end: `poll` for messages, `ack` each when it is safe, `deny` what paths must avoid.

    Raises OutsideError when `endpoint` (``ipc://...`` or ``tcp://...``) can't be had.
    """

    def __init__(self, endpoint: str, *, curve: Curve | None = None) -> None:
        self.peers: dict[str, Peer] = {}
        self.malformed = 0
        self._deny: dict[str, Any] = {"type": "deny", "version": 0, "links": []}
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        _prepare(self._socket, curve)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)  # a peer that is gone is an error we can see
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as e:
            self.close()
            raise OutsideError(f"{endpoint} can't be opened ({e})", retry=e.errno == zmq.EADDRINUSE) from e

    @property
    def endpoint(self) -> str:
        """The endpoint as bound; tells the port where ``tcp://...:*`` was asked."""
        return bytes(self._socket.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when something may have come; always poll after it."""
        return int(self._socket.get(zmq.FD))

    def poll(self, timeout_s: float = 0.0, *, limit: int = 10_000) -> list[Message]:
        """Return up to `limit` messages that have come; waits at most `timeout_s` for the first."""
        if timeout_s > 0:
            self._socket.poll(int(timeout_s * 1000))
        out: list[Message] = []
        while len(out) < limit:
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                break
            message = _read(frames)
            if message is None:
                self.malformed += 1
            elif self._fresh(message):
                out.append(message)
        return out

    def ack(self, message: Message) -> None:
        """Tell the peer that its message is safe."""
        peer = self.peers.get(message.name)
        if peer is not None and peer.session == message.session:
            peer.done.add(message.seq)
            self._put(peer.address, {"type": "ack", "seq": message.seq})

    def deny(self, version: int, links: Iterable[int]) -> int:
        """Set the whole set of denied directed links; returns how many peers it was sent to.

        Peers that come later get it with their hello.
        """
        self._deny = {"type": "deny", "version": version, "links": [int(x) for x in links]}
        return sum(self._put(p.address, self._deny) for p in self.peers.values())

    def tell(self, name: str, message: dict[str, Any]) -> bool:
        """Send a message to one peer, if it is there; it must not matter when it is lost."""
        peer = self.peers.get(name)
        return peer is not None and self._put(peer.address, message)

    def close(self) -> None:
        """Close the line."""
        self._socket.close(_CLOSE_LINGER_MS)
        self._context.term()

    def _fresh(self, m: Message) -> bool:
        """Note who speaks; a repeat of what was acknowledged is acknowledged again and goes no further."""
        peer = self.peers.get(m.name)
        if peer is None or peer.session != m.session:
            peer = self.peers[m.name] = Peer(m.name, m.session, m.address)
            self._put(m.address, self._deny)
        elif peer.address != m.address:
            peer.address = m.address
            self._put(m.address, self._deny)
        peer.heard_at = time.monotonic()
        if m.type == "hello":
            peer.pid = int(m.data.get("pid", 0))
        if m.seq and m.seq in peer.done:
            self._put(peer.address, {"type": "ack", "seq": m.seq})
            return False
        if len(peer.done) > 2 * _DONE_KEPT:
            peer.done = {s for s in peer.done if s > m.seq - _DONE_KEPT}
        return True

    def _put(self, address: bytes, message: dict[str, Any]) -> bool:
        try:
            self._socket.send_multipart([address, msgpack.packb(message)], zmq.DONTWAIT)
        except zmq.ZMQError:  # gone or stuck: it will say hello, or send again
            return False
        return True


def _prepare(s: zmq.Socket[bytes], curve: Curve | None) -> None:
    s.set(zmq.LINGER, 0)
    s.set(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    s.set(zmq.RECONNECT_IVL, 100)
    s.set(zmq.RECONNECT_IVL_MAX, 1000)
    s.set(zmq.SNDHWM, 10_000)
    s.set(zmq.RCVHWM, 100_000)
    s.set(zmq.HEARTBEAT_IVL, 2000)  # a peer whose machine died closes no connection
    s.set(zmq.HEARTBEAT_TIMEOUT, 10_000)
    if curve is not None:
        s.set(zmq.CURVE_PUBLICKEY, curve.public)
        s.set(zmq.CURVE_SECRETKEY, curve.secret)
        s.set(*((zmq.CURVE_SERVERKEY, curve.server) if curve.server else (zmq.CURVE_SERVER, 1)))


def _unpack(data: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(Exception):  # whatever a stranger's bytes can raise: not a message
        message = msgpack.unpackb(data, strict_map_key=True)
        if isinstance(message, dict) and isinstance(message.get("type"), str):
            return message
    return None


def _read(frames: list[bytes]) -> Message | None:
    data = _unpack(frames[-1]) if len(frames) == 2 else None
    if data is None:
        return None
    message = Message(
        name=data.get("name", ""), type=data["type"], seq=data.get("seq", 0), body=data.get("body", b""),
        data=data, session=data.get("session", 0), address=frames[0],
    )  # fmt: skip
    right = (
        isinstance(message.name, str) and message.name and isinstance(message.seq, int)
        and isinstance(message.body, bytes) and isinstance(message.session, int)
        and isinstance(data.get("pid", 0), int)
    )  # fmt: skip
    return message if right else None
