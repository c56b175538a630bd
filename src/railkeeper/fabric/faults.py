"""The fault file: JSON Lines that say what breaks, for lab and twin alike."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railkeeper.base.errors import InputError
from railkeeper.fabric.names import Component, Kind, parse_name

if TYPE_CHECKING:
    from pathlib import Path

    from railkeeper.fabric.model import Fabric

DIRECTIONS = ("up", "down", "both")
_ANY = frozenset(Kind)
_SWITCHES = frozenset({Kind.T0, Kind.T1})
_OPTICS = frozenset({Kind.NIC_OPTIC, Kind.T0_OPTIC})
_NODES = frozenset({Kind.NODE})


@dataclass(frozen=True)
class _Rule:
    numbers: dict[str, tuple[float, float]]
    targets: frozenset[Kind]
    one_way: bool = True  # whether it can strike one direction alone


RULES: dict[str, _Rule] = {
    "loss": _Rule({"rate": (0.0, 1.0)}, _ANY),
    "corrupt": _Rule({"rate": (0.0, 1.0)}, _ANY),
    "slow": _Rule({"gbps": (0.0, 1e6)}, _ANY),
    "delay": _Rule({"ms": (0.0, 10_000.0)}, _ANY),
    "down": _Rule({}, _ANY),
    "flap": _Rule({"down_s": (0.0, 3600.0), "up_s": (0.0, 3600.0)}, _ANY),
    "blackhole": _Rule({}, _SWITCHES, one_way=False),
    "reboot": _Rule({"seconds": (0.0, 3600.0)}, _SWITCHES, one_way=False),
    "optic": _Rule({"seconds": (0.0, 3600.0)}, _OPTICS, one_way=False),
    "agent-down": _Rule({}, _NODES, one_way=False),
    "node-down": _Rule({}, _NODES, one_way=False),
}
KINDS = tuple(RULES)


@dataclass(frozen=True)
class InjectedFault:
    """One line of a fault file; a number that its kind does not use is 0.

    `direction` is "both", whatever the line says, where the kind strikes a whole part.
    """

    id: str
    kind: str
    target: Component
    target_name: str
    direction: str = "both"
    rate: float = 0.0
    gbps: float = 0.0
    ms: float = 0.0
    down_s: float = 0.0
    up_s: float = 0.0
    seconds: float = 0.0
    group: str = ""


def read_faults(fabric: Fabric, path: Path) -> list[InjectedFault]:
    """Read a fault file; raises InputError that names file, line and field."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise InputError(str(path), f"can't be read ({e.strerror})", "give the path of a fault file") from e
    except UnicodeDecodeError as e:
        raise InputError(str(path), "is not UTF-8 text", "one JSON object a line") from e
    return parse_faults(fabric, text, where=str(path))


def parse_faults(fabric: Fabric, text: str, *, where: str = "faults") -> list[InjectedFault]:
    """Parse the text of a fault file; empty lines are allowed."""
    out: list[InjectedFault] = []
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        at = f"{where}:{number}"
        fault = parse_fault(fabric, _object(line, at), where=at)
        if fault.id in seen:
            raise InputError(f"{at}: id", f"{fault.id!r} is there twice", "give each fault an id of its own")
        seen.add(fault.id)
        out.append(fault)
    return out


def _object(line: str, at: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise InputError(at, f"is not JSON ({e})", 'e.g. {"id":"f1","kind":"down","target":"p0/t1-0"}') from e
    if not isinstance(value, dict):
        raise InputError(at, f"is a {type(value).__name__}", "one JSON object a line")
    return value


def parse_fault(fabric: Fabric, data: dict[str, Any], *, where: str) -> InjectedFault:
    """Check one fault given as a dictionary."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in RULES:
        raise InputError(f"{where}: kind", f"is {kind!r}", f"one of {', '.join(KINDS)}")
    rule = RULES[kind]
    known = {"id", "kind", "target", "direction", "group", *rule.numbers}
    for key in data:
        if key not in known:
            raise InputError(
                f"{where}: {key}", f"is not a field of {kind!r}", f"known fields: {', '.join(sorted(known))}"
            )
    fault_id = _text(data, "id", where)
    target_name = _text(data, "target", where)
    target = parse_name(fabric, target_name, where=f"{where}: target")
    _check_target(kind, rule, target, target_name, where)
    numbers = {key: _number(data, key, limits, where) for key, limits in rule.numbers.items()}
    direction = _direction(data, where)
    return InjectedFault(
        id=fault_id, kind=kind, target=target, target_name=target_name,
        direction=direction if rule.one_way else "both", group=_text(data, "group", where, default=""), **numbers,
    )  # fmt: skip


def _check_target(kind: str, rule: _Rule, target: Component, name: str, where: str) -> None:
    if target.kind not in rule.targets:
        allowed = ", ".join(sorted(k.name.replace("_", " ").lower() for k in rule.targets))
        raise InputError(f"{where}: target", f"{name!r} can't have a {kind!r} fault", f"its target is a {allowed}")


def _text(data: dict[str, Any], key: str, where: str, *, default: str | None = None) -> str:
    value = data.get(key, default)
    if value is None:
        raise InputError(f"{where}: {key}", "is missing", "it must be given")
    if not isinstance(value, str) or (not value and default is None):
        raise InputError(f"{where}: {key}", f"is {value!r}", "a text")
    return value


def _direction(data: dict[str, Any], where: str) -> str:
    value = data.get("direction", "both")
    if value not in DIRECTIONS:
        raise InputError(f"{where}: direction", f"is {value!r}", f"one of {', '.join(DIRECTIONS)}")
    return str(value)


def _number(data: dict[str, Any], key: str, limits: tuple[float, float], where: str) -> float:
    value = data.get(key)
    low, high = limits
    right = f"a number above {low:g}, at most {high:g}"
    if value is None:
        raise InputError(f"{where}: {key}", "is missing", right)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value <= high:
        raise InputError(f"{where}: {key}", f"is {value!r}", right)
    return float(value)
