"""Web: one HTTP client for all targets of a process. Answers are bounded, secrets are read anew at each use."""

from __future__ import annotations

import os
import ssl
import tempfile
import zlib
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from railkeeper.adapters.secret import Secret, read_secret
from railkeeper.base.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_BODY_BYTES = 8 * 2**20
MAX_HELD_BYTES = 256 * 2**20
SHOWN_CHARACTERS = 200  # of an answer that is no success
KEEP_ALIVE_S = 75.0
AGENT = "railkeeper"
NO_SECRET = Secret("")


@dataclass(frozen=True)
class Access:
    """How a target lets us in. Files and variables are named here, never secrets, and read at each request.

    - ca_file: who signs the target's certificate, the machine's own list without; cert_file and key_file: who we are
    - bearer_file or bearer_env: a token; user with password_file or password_env: basic authentication
    - verify=False takes any certificate: for a lab only
    - ca_data, cert_data, key_data, bearer: the same where it is known as text and not by a file's name
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    verify: bool = True
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    bearer_file: str = ""
    bearer_env: str = ""
    ca_data: str = ""
    cert_data: Secret = NO_SECRET
    key_data: Secret = NO_SECRET
    bearer: Secret = NO_SECRET

    def check(self, where: str) -> None:
        """Raise InputError for what can't be meant; `where` is the setting that holds this."""
        bearer = bool(self.bearer_file or self.bearer_env or self.bearer)
        password = bool(self.password_file or self.password_env)
        if bearer and (self.user or password):
            raise InputError(where, "a token and a user are named", "name one way in")
        if bool(self.user) != password:
            raise InputError(where, "a user or a password is missing", "name user, and password_file or password_env")
        if bool(self.cert_file) != bool(self.key_file) or bool(self.cert_data) != bool(self.key_data):
            raise InputError(where, "a certificate or its key is missing", "name cert_file and key_file")
        self.headers(where)

    def headers(self, where: str) -> dict[str, str]:
        """Return the headers that let us in."""
        token = read_secret(f"{where}: bearer", file=self.bearer_file, env=self.bearer_env) or self.bearer
        if token:
            return {"Authorization": f"Bearer {_header_safe(where, token.reveal().strip())}"}
        password = read_secret(f"{where}: password", file=self.password_file, env=self.password_env)
        if password is not None:
            pair = f"{self.user}:{password.reveal()}".encode()
            return {"Authorization": f"Basic {b64encode(pair).decode()}"}
        return {}


@dataclass(frozen=True)
class Answer:
    """A whole answer, unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def check_url(where: str, url: str) -> str:
    """Return a URL that can be asked; raises InputError, also for one that has a secret in it."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise InputError(where, "the URL holds a user or a password", "name user and password_file instead")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(where, f"{url!r} is no URL", "http://host:port/path or https://…")
    return url


class Room:
    """Bytes of all answers that are not whole yet. When they are too many, those beyond their fair share must go."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.answers = 0

    def take(self, more: int, own: int) -> bool:
        """Hold more bytes of an answer that has `own` of them; return whether it may go on."""
        self.held += more
        return self.held <= self.most or own <= self.most // max(self.answers, 1)


class WebClient:
    """Connections of all targets. Made anywhere, used in one event loop; closed when its last user has let go."""

    def __init__(self, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self.room = Room(max_held_bytes)
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[Access, ssl.SSLContext] = {}
        self._users = 0

    def join(self) -> None:
        """Say that one more target uses it."""
        self._users += 1

    async def leave(self) -> None:
        """Say that one target less uses it."""
        self._users -= 1
        if self._users <= 0 and self._session is not None:
            await self._session.close()
            self._session = None

    async def get(
        self,
        url: str,
        access: Access,
        *,
        headers: Mapping[str, str] | None = None,
        params: Sequence[tuple[str, str]] | None = None,
        form: Sequence[tuple[str, str]] | None = None,
        max_bytes: int = MAX_BODY_BYTES,
        any_status: bool = False,
    ) -> Answer:
        """Ask and return the whole answer. Raises OutsideError; the caller sets the time limit.

        A `form` is sent by POST: for questions that are too long for a URL.
        """
        try:
            # Redirects are not followed: they would take what lets us in to another place.
            async with self._open().request(
                "GET" if form is None else "POST",
                url,
                headers={"Accept-Encoding": "gzip", **access.headers(url), **(headers or {})},
                params=params,
                data=form,
                ssl=self._tls(access) if url.startswith("https:") else True,
                server_hostname=access.server_name or None,
                allow_redirects=False,
            ) as response:
                body = await _body(response, max_bytes, url, self.room)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _outside(url, error) from None
        if response.status != 200 and not any_status:
            raise OutsideError(_refusal(url, response, body), retry=response.status >= 429)
        return Answer(response.status, response.headers, body)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # The lanes of the runner bound how many are under way.
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=KEEP_ALIVE_S),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": AGENT},
                auto_decompress=False,
            )
        return self._session

    def _tls(self, access: Access) -> ssl.SSLContext:
        if access not in self._contexts:
            self._contexts[access] = _context(access)
        return self._contexts[access]


def _context(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None, cadata=access.ca_data or None)
        if access.cert_file:
            context.load_cert_chain(access.cert_file, access.key_file)
        elif access.cert_data:
            _load_texts(context, access.cert_data, access.key_data)
    except (OSError, ValueError) as error:
        named = ", ".join(filter(None, (access.ca_file, access.cert_file, access.key_file)))
        raise OutsideError(f"certificates ({named or 'of the settings'}) can't be loaded: {_reason(error)}") from None
    if not access.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _load_texts(context: ssl.SSLContext, certificate: Secret, key: Secret) -> None:
    """Load what OpenSSL takes from files only, by way of a folder that only we can read and that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="railkeeper-") as folder:
        files = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        for file, text in zip(files, (certificate, key), strict=True):
            file.write_text(text.reveal(), encoding="ascii")
        context.load_cert_chain(*files)


def _reason(error: BaseException) -> str:
    # asyncio puts words of its own in the place of the system's.
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _body(response: aiohttp.ClientResponse, max_bytes: int, url: str, room: Room) -> bytes:
    """Read a body to its end, or until it is too long; bytes are counted as they are when unpacked."""
    packing = response.headers.get("Content-Encoding", "identity").lower()
    if packing not in ("identity", "gzip", ""):
        raise OutsideError(f"{url}: answers in {packing}; gzip or nothing was asked for")
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if packing == "gzip" else None
    parts, own = [], 0
    room.answers += 1
    try:
        async for raw in response.content.iter_any():
            part = _unpacked(unpack, raw, max_bytes - own + 1, url) if unpack else raw
            own += len(part)
            if own > max_bytes:
                own -= len(part)
                raise OutsideError(f"{url}: the answer is longer than {max_bytes} bytes")
            if not room.take(len(part), own):
                raise OutsideError(
                    f"{url}: no room for {own} bytes beside other answers that are under way", retry=True
                )
            parts.append(part)
    finally:
        room.held -= own
        room.answers -= 1
    if unpack and not unpack.eof and response.status == 200:
        raise OutsideError(f"{url}: the answer ends within its gzip data", retry=True)
    return b"".join(parts)


def _unpacked(unpack: zlib._Decompress, raw: bytes, most: int, url: str) -> bytes:
    try:
        part = unpack.decompress(raw, most)
    except zlib.error as error:
        raise OutsideError(f"{url}: bad gzip data ({error})") from None
    if unpack.unused_data:
        raise OutsideError(f"{url}: data after the end of its gzip data")
    return part


def _refusal(url: str, response: aiohttp.ClientResponse, body: bytes) -> str:
    said = " ".join(body[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace").split())[:SHOWN_CHARACTERS]
    to = f" to {response.headers['Location']}" if "Location" in response.headers else ""
    reason = f" {response.reason}" if response.reason else ""
    return f"{url}: HTTP {response.status}{reason}{to}" + (f": {said}" if said else "")


def _outside(url: str, error: BaseException) -> OutsideError:
    if isinstance(error, OutsideError):
        return error
    if isinstance(error, InputError):  # a secret's file that is gone
        return OutsideError(str(error))
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return OutsideError(f"{url}: its certificate is not trusted: {error.certificate_error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        return OutsideError(f"{url}: no connection ({_reason(error.os_error)})", retry=True)
    return OutsideError(f"{url}: {type(error).__name__}: {error}" if str(error) else f"{url}: {type(error).__name__}")


def _header_safe(where: str, text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise InputError(f"{where}: bearer", "the token holds what no header may hold", "one line of plain characters")
    return text
