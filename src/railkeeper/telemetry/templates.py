"""Small templates between names: `gpu-{n:03d}` read as numbers, `n{n-1}` written from them. Nothing is executed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railkeeper.base.errors import InputError

_FIELD = re.compile(r"\{([a-z]\w*)(?::0(\d)d)?\}", re.ASCII)
_SLOT = re.compile(r"\{([a-z]\w*)((?:[-+*/%]\d{1,6})*)\}", re.ASCII)
_STEP = re.compile(r"([-+*/%])(\d+)", re.ASCII)


@dataclass(frozen=True)
class Reader:
    """Reads numbers out of names of one form."""

    pattern: re.Pattern[str]

    def read(self, text: str) -> dict[str, int] | None:
        """Return the numbers of a name; None where it has another form."""
        found = self.pattern.fullmatch(text)
        return {k: int(v) for k, v in found.groupdict().items()} if found else None


def reader(template: str, *, where: str) -> Reader:
    """Return what reads names of a form, as `leaf-p{p}-{i:02d}`; raises InputError."""
    out, at, seen = [], 0, set()
    for field in _FIELD.finditer(template):
        name, digits = field[1], field[2]
        if name in seen:
            raise InputError(where, f"{template!r} has {{{name}}} twice", "name each number once")
        seen.add(name)
        out += [re.escape(template[at : field.start()]), rf"(?P<{name}>\d{{{digits or 1},9}})"]
        at = field.end()
    rest = template[at:]
    if "{" in "".join(_FIELD.split(template)[::3]) or "}" in rest:
        raise InputError(where, f"{template!r} is no template", "text with {name} or {name:03d}")
    return Reader(re.compile("".join(out) + re.escape(rest), re.ASCII))


def check_slots(template: str, names: set[str], *, where: str) -> None:
    """Raise InputError when a template can't be written from numbers of these names."""
    used = {m[1] for m in _SLOT.finditer(template)}
    if "{" in _SLOT.sub("", template):
        raise InputError(where, f"{template!r} is no template", "text with {n}, {n-1}, {n/4} or {n%4}")
    if used - names:
        raise InputError(where, f"{template!r} uses {sorted(used - names)}", f"only {sorted(names)} are read")


def fields_of(template: str) -> set[str]:
    """Return the names of the numbers that a form reads."""
    return {m[1] for m in _FIELD.finditer(template)}


def write(template: str, numbers: dict[str, int]) -> str:
    """Return a name written from numbers; steps like `-1` and `/4` go from left to right, in whole numbers."""
    return _SLOT.sub(lambda m: str(_steps(numbers[m[1]], m[2])), template)


def _steps(number: int, steps: str) -> int:
    for sign, text in _STEP.findall(steps):
        value = int(text)
        if sign in "/%" and not value:
            return -1  # no name has it, so that it is placed nowhere
        number = {
            "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
            "/": lambda a, b: a // b, "%": lambda a, b: a % b,
        }[sign](number, value)  # fmt: skip
    return number
