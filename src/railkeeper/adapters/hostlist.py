"""Host lists in brackets, as Slurm writes them: `n[001-003,7],gpu5`."""

from __future__ import annotations

import math
import re
from itertools import product

from railkeeper.base.errors import InputError

# More hosts than any machine has: a list of a few characters must not fill the memory.
MAX_HOSTS = 1_000_000
MAX_TEXT = 4 * 2**20

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
RIGHT = "names of letters, digits, - _ . with ranges in brackets, as n[001-003,7],gpu5"


def expand(text: str, where: str = "host list") -> tuple[str, ...]:
    """Return all names of a list in its order; an empty text has none.

    A range is as wide as its first number: [08-11] is 08, 09, 10, 11. Raises InputError with the place that is wrong.
    """
    if len(text) > MAX_TEXT:
        raise InputError(where, f"{len(text)} characters", f"at most {MAX_TEXT}")
    names: list[str] = []
    at = 0
    while at < len(text):
        parts, at = _name(text, at, where)
        if len(names) + math.prod(map(len, parts)) > MAX_HOSTS:
            raise InputError(where, f"more than {MAX_HOSTS} hosts", "a shorter list")
        names += map("".join, product(*parts))
        if at < len(text):
            # _name stops at a comma only; one at the end would begin a name that is not there.
            at += 1
            if at == len(text):
                raise _wrong(where, text, at, "nothing after the last comma")
    return tuple(names)


def _name(text: str, at: int, where: str) -> tuple[list[list[str]], int]:
    """Read one name with its ranges; return what may stand in each of its parts, and where it ends."""
    parts: list[list[str]] = []
    begin, hosts = at, 1
    while at < len(text) and text[at] != ",":
        if text[at] == "[":
            numbers, at = _numbers(text, at + 1, where)
            hosts *= len(numbers)
            if hosts > MAX_HOSTS:
                raise InputError(where, f"more than {MAX_HOSTS} hosts", "a shorter list")
            parts.append(numbers)
            continue
        plain = _PLAIN.match(text, at)
        if plain is None:
            raise _wrong(where, text, at, f"{text[at]!r} in a name")
        parts.append([plain[0]])
        at = plain.end()
    if at == begin:
        raise _wrong(where, text, at, "an empty name")
    return parts, at


def _numbers(text: str, at: int, where: str) -> tuple[list[str], int]:
    """Read ranges up to the closing bracket; return the numbers as they are written, and what follows."""
    out: list[str] = []
    while True:
        found = _RANGE.match(text, at)
        if found is None:
            raise _wrong(where, text, at, "no number in brackets")
        first, last = found[1], found[2] or found[1]
        count = int(last) - int(first) + 1
        if count < 1:
            raise _wrong(where, text, at, f"range {found[0]} runs backwards")
        if len(out) + count > MAX_HOSTS:
            raise InputError(where, f"more than {MAX_HOSTS} hosts", "a shorter list")
        out += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
        at = found.end()
        if at < len(text) and text[at] == "]":
            return out, at + 1
        if at >= len(text) or text[at] != ",":
            raise _wrong(where, text, at, "neither , nor ] after a range")
        at += 1


def _wrong(where: str, text: str, at: int, problem: str) -> InputError:
    near = text[max(0, at - 20) : at + 20]
    return InputError(where, f"{problem} at character {at + 1}, near {near!r}", RIGHT)
