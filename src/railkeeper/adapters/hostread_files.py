"""Small files of sysfs, below a root that may be a captured tree: read fast, never hanging, never outside the root."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

# sysfs gives a page at most.
MOST_BYTES = 4096
MOST_ENTRIES = 4096
# No link is followed at the file itself, and a pipe in a captured tree must not hold us.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_text(path: str, directory: int | None = None) -> str | None:
    """Return a file's text without its end of line; None if it is there but can't be read (EINVAL of a bad port).

    `directory`: an open directory that the path starts from. Raises FileNotFoundError if it is not there.
    """
    try:
        fd = os.open(path, _FLAGS, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    try:
        return os.read(fd, MOST_BYTES).decode("utf-8", "backslashreplace").rstrip("\n\0 ")
    except OSError:
        return None
    finally:
        os.close(fd)


def read_optional(path: str) -> str | None:
    """Return a file's text; None also if there is no such file."""
    try:
        return read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def names_in(path: str | int, name: str = "") -> list[str]:
    """Return the sorted names in a directory; none if there is no such directory."""
    try:
        names = os.listdir(path)  # noqa: PTH208 - speed
    except OSError:
        return []
    if len(names) > MOST_ENTRIES:
        raise InputError(name or str(path), f"{len(names)} entries", f"at most {MOST_ENTRIES} are read")
    return sorted(names)


def number_or_text(text: str | None) -> int | float | str | None:
    """Return a file's content as the number it is, None for what says that it could not be read ("N/A (no PMA)")."""
    if text is None or text == "" or text.startswith("N/A"):
        return None
    if text.isascii() and text.isdigit() and len(text) <= 25:
        return int(text)
    if text[0] == "-" and text[1:].isascii() and text[1:].isdigit() and len(text) <= 25:
        return int(text)
    return text


def read_numbers(directory: str) -> dict[str, int | float | str | None]:
    """Return name -> value of all files of a directory; empty if there is no such directory."""
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        # From an open directory the kernel does not walk the long paths of sysfs again for each of 80 files.
        return _read_all(opened, directory)
    finally:
        os.close(opened)


def _read_all(opened: int, directory: str) -> dict[str, int | float | str | None]:
    values: dict[str, int | float | str | None] = {}
    for name in names_in(opened, directory):
        try:
            values[name] = number_or_text(read_text(name, opened))
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone since the listing
    return values


@lru_cache(maxsize=4096)
def _real(path: str) -> str:
    return os.path.realpath(path)


def inside(root: str, path: str) -> str | None:
    """Return where a path really is, or None if that does not exist or is outside the root.

    A tree that was captured elsewhere may hold links to anywhere.
    """
    real = os.path.realpath(path)
    base = _real(root)
    if not (real == base or real.startswith(base.rstrip("/") + "/")) or not os.path.isdir(real):  # noqa: PTH112 - speed
        return None
    return real


def check_root(root: str | Path) -> str:
    """Return the root without a slash at its end, empty for "/". Raises InputError if it holds no /sys/class."""
    text = str(root).rstrip("/")
    try:
        mode = os.stat(f"{text}/sys/class").st_mode  # noqa: PTH116 - text is empty for "/"
    except (OSError, ValueError):
        mode = 0
    if not stat.S_ISDIR(mode):
        raise InputError(f"--root {root}", "there is no sys/class in it", "give / or a tree that holds a copy of /sys")
    return text
