"""Secrets of sources: read from a file or the environment, and never printed."""

from __future__ import annotations

import os
from pathlib import Path

from railkeeper.base.errors import InputError

MAX_SECRET_BYTES = 65536


class Secret:
    """A text that shows itself only to who asks by `reveal`: `repr`, `str` and formats give stars."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str:
        # A secret that is pickled would lie in some file or on some wire as it is.
        msg = "a secret is not pickled"
        raise TypeError(msg)


def read_secret(where: str, *, file: str = "", env: str = "") -> Secret | None:
    """Return the secret of a file (without the line's end) or of an environment variable; None if neither is named.

    `where` is the setting that names it, for the error's text. Raises InputError if it is not there or empty.
    """
    if file and env:
        raise InputError(where, "both a file and an environment variable are named", "name one")
    if file:
        return _checked(where, _from_file(where, file), f"file {file}")
    if env:
        return _checked(where, os.environ.get(env, ""), f"environment variable {env}")
    return None


def _from_file(where: str, file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            raw = opened.read(MAX_SECRET_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(where, f"file {file} can't be read ({reason})", "give a file with the secret in it") from None
    if len(raw) > MAX_SECRET_BYTES:
        raise InputError(where, f"file {file} is too long for a secret", f"at most {MAX_SECRET_BYTES} bytes")
    return text.rstrip("\r\n")


def _checked(where: str, text: str, whence: str) -> Secret:
    if not text:
        raise InputError(where, f"{whence} is empty or not set", "put the secret there")
    return Secret(text)
