"""Connections to a SONiC switch's Redis that can only read: any other command is refused before a byte leaves.

The databases are small numbers of one server (COUNTERS_DB is 2, and so on).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import Connection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from railkeeper.base.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from railkeeper.adapters.secret import Secret

APPL_DB, COUNTERS_DB, CONFIG_DB, STATE_DB = 0, 2, 4, 6

# An allow list, since a deny list forgets. AUTH and SELECT change nothing but our own connection.
ALLOWED_COMMANDS = frozenset({"HGETALL", "SCAN", "AUTH", "SELECT", "PING"})

# Replies of a whole switch are read in pieces, so that neither memory nor the loop is held by one of them.
HASHES_AT_A_TIME = 256


@dataclass(frozen=True)
class Address:
    """Where a Redis listens: a socket's path, or a host and port."""

    path: str = ""
    host: str = ""
    port: int = 6379

    def __str__(self) -> str:
        return self.path or (f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}")


def read_address(where: str, text: str) -> Address:
    """Return the address of `unix:///var/run/redis/redis.sock` or `redis://HOST[:PORT]`. Raises InputError."""
    right = "write unix:///PATH or redis://HOST[:PORT]"
    try:
        url = urlsplit(text)
        port = url.port or 6379
    except ValueError:
        raise InputError(where, f"{text!r} is no address", right) from None
    if url.username or url.password:
        raise InputError(where, "a password does not stand in an address", "use password_file or password_env")
    if url.scheme == "unix" and url.path.startswith("/") and not url.netloc:
        return Address(path=url.path)
    if url.scheme == "redis" and url.hostname and url.path in {"", "/"}:
        return Address(host=url.hostname, port=port)
    raise InputError(where, f"{text!r} is no address", right)


class _ReadOnly:
    """Refuses whatever is not on the list, at the last place before the wire."""

    def pack_command(self, *args: Any) -> list[bytes]:
        check_command(args[0])
        packed: list[bytes] = super().pack_command(*args)  # type: ignore[misc]
        return packed


class _TcpConnection(_ReadOnly, Connection):
    pass


class _SocketConnection(_ReadOnly, UnixDomainSocketConnection):
    pass


def check_command(command: str | bytes) -> None:
    """Raise OutsideError unless the command is one that only reads."""
    name = command.decode("latin-1") if isinstance(command, bytes) else str(command)
    if name.upper() not in ALLOWED_COMMANDS:
        raise OutsideError(f"command {name.split(' ')[0]} is not sent to a switch: only reading is allowed")


class Link:
    """All databases of one switch (or one ASIC of it). Inert until the first question."""

    def __init__(self, address: Address, *, username: str, password: Secret | None, timeout_s: float) -> None:
        self.address = address
        self._username = username
        self._password = password
        self._timeout_s = timeout_s
        self._client: Redis | None = None

    def __repr__(self) -> str:
        return f"Link({self.address})"

    async def hashes(self, db: int, keys: Sequence[str]) -> AsyncIterator[tuple[str, Mapping[bytes, bytes] | None]]:
        """Give each key with its hash; empty if there is none, None if the key holds something else."""
        for at in range(0, len(keys), HASHES_AT_A_TIME):
            some = keys[at : at + HASHES_AT_A_TIME]
            answers = await self._ask(db, [("HGETALL", key) for key in some])
            for key, answer in zip(some, answers, strict=True):
                yield key, _hash_or_none(self.address, key, answer)

    async def one(self, db: int, key: str) -> Mapping[bytes, bytes] | None:
        """Return one hash, as `hashes`."""
        (answer,) = await self._ask(db, [("HGETALL", key)])
        return _hash_or_none(self.address, key, answer)

    async def keys(self, db: int, pattern: str, most: int) -> list[str]:
        """Return the keys that match, sorted. Raises OutsideError if there are more than `most`."""
        found: set[str] = set()
        cursor = 0
        while True:
            (answer,) = await self._ask(db, [("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)])
            if isinstance(answer, RedisError):
                raise _outside(self.address, answer)
            cursor, some = int(answer[0]), answer[1]
            found |= {key.decode("utf-8", "backslashreplace") for key in some}
            if len(found) > most:
                raise OutsideError(f"redis {self.address}: more than {most} keys match {pattern}")
            if not cursor:
                return sorted(found)

    async def _ask(self, db: int, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask in one go. Each go says its database first: one connection serves all of them."""
        pipeline = self._connected().pipeline(transaction=False)
        for command in (("SELECT", db), *commands):
            pipeline.execute_command(*command)
        try:
            selected, *answers = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            raise _outside(self.address, error) from error
        if isinstance(selected, RedisError):
            raise _outside(self.address, selected)
        return answers

    def _connected(self) -> Redis:
        if self._client is None:
            # On a cut connection redis-py would try again by itself; waiting before the next try is the runner's.
            shared = {
                "username": self._username or None,
                "password": self._password.reveal() if self._password else None,
                "socket_timeout": self._timeout_s,
                "socket_connect_timeout": self._timeout_s,
                "retry": Retry(NoBackoff(), 0),
                "protocol": 2,  # Redis before 6 knows no other
                "driver_info": None,  # no CLIENT SETINFO
                "max_connections": 1,
            }
            self._client = Redis(connection_pool=self._pool(shared))
        return self._client

    def _pool(self, shared: dict[str, Any]) -> ConnectionPool:
        if self.address.path:
            return ConnectionPool(connection_class=_SocketConnection, path=self.address.path, **shared)
        return ConnectionPool(connection_class=_TcpConnection, host=self.address.host, port=self.address.port, **shared)

    async def close(self) -> None:
        """Let go of the connection; the next question connects again."""
        client, self._client = self._client, None
        if client is not None:
            # One that is gone already is what we want.
            with contextlib.suppress(RedisError, OSError):
                await client.connection_pool.disconnect(inuse_connections=True)


def _hash_or_none(address: Address, key: str, answer: object) -> Mapping[bytes, bytes] | None:
    if isinstance(answer, dict):
        return answer
    if isinstance(answer, list) and len(answer) % 2 == 0:
        return dict(zip(answer[::2], answer[1::2], strict=True))
    if isinstance(answer, ResponseError) and str(answer).startswith("WRONGTYPE"):
        return None
    if isinstance(answer, RedisError):
        raise _outside(address, answer)
    raise OutsideError(f"redis {address}: {key}: the answer is no hash", retry=True)


def _outside(address: Address, error: Exception) -> OutsideError:
    """Return the error in our words; the server's own words never hold what we sent as password."""
    text = str(error).lower()
    if isinstance(error, AuthenticationError) or "wrongpass" in text or "noauth" in text or "invalid password" in text:
        return OutsideError(f"redis {address} refuses the password", retry=True)
    if isinstance(error, NoPermissionError) or "noperm" in text:
        return OutsideError(f"redis {address}: this account may not read there", retry=True)
    return OutsideError(f"redis {address}: {error or type(error).__name__}", retry=True)
