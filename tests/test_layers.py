"""Imports point down, there are no cycles, and no file grows too long."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "railkeeper"
MAX_LINES_OF_CODE = 400

# Each room may import from the rooms named after it, and from itself.
BELOW_TELEMETRY = {"probe", "fabric", "base"}
MAY_IMPORT = {
    "base": set(),
    "data": set(),
    "fabric": {"base"},
    "probe": {"fabric", "base"},
    "telemetry": BELOW_TELEMETRY,
    "health": {"telemetry", *BELOW_TELEMETRY},
    "respond": {"health", "telemetry", *BELOW_TELEMETRY},
    "lab": {"telemetry", *BELOW_TELEMETRY},
    "adapters": {"telemetry", *BELOW_TELEMETRY},
    "app": {"lab", "adapters", "respond", "health", "telemetry", *BELOW_TELEMETRY},
    "console": {"app", "respond", "health", "telemetry", *BELOW_TELEMETRY},
    "cli": {"console", "app", "lab", "adapters", "respond", "health", "telemetry", *BELOW_TELEMETRY},
}


def module_name(path: Path) -> str:
    parts = ("railkeeper", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imports_of(module: str) -> set[str]:
    """Return all modules of the project that a module imports: also in functions, and for type checking only."""
    found: set[str] = set()
    for statement in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            found |= {a.name for a in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert not statement.level, f"{module}: relative import in line {statement.lineno}"
            base = statement.module or ""
            # `from package import x`: x is a module of its own, or a name of the package
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in statement.names}
    return {name for name in found if name.split(".")[0] == "railkeeper"} - {module}


def room(module: str) -> str:
    """Return the room, or the empty text for the package itself."""
    return ".".join(module.split(".")[1:2])


def test_there_are_modules():
    assert "railkeeper.fabric.model" in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module):
    upwards = {
        target
        for target in imports_of(module)
        if room(target) not in {"", room(module)} and room(target) not in MAY_IMPORT[room(module)]
    }

    assert not upwards, f"{module} must not import from {sorted(upwards)}"


def test_every_room_has_its_place():
    assert {room(m) for m in MODULES} - {""} <= set(MAY_IMPORT)


def test_the_order_of_rooms_has_no_cycle():
    assert cycle({name: set(below) for name, below in MAY_IMPORT.items()}) is None


def test_modules_import_each_other_in_no_cycle():
    assert cycle({m: imports_of(m) & set(MODULES) for m in MODULES}) is None


def cycle(edges: dict[str, set[str]]) -> list[str] | None:
    """Return one cycle of a graph, or None."""
    done: set[str] = set()

    def visit(at: str, way: list[str]) -> list[str] | None:
        if at in way:
            return [*way[way.index(at) :], at]
        if at in done:
            return None
        found = next((c for n in sorted(edges.get(at, ())) if (c := visit(n, [*way, at]))), None)
        done.add(at)
        return found

    return next((c for start in sorted(edges) if (c := visit(start, []))), None)


def test_a_cycle_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


@pytest.mark.parametrize("module", MODULES)
def test_files_stay_short(module):
    lines = MODULES[module].read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith("#")]

    assert len(code) <= MAX_LINES_OF_CODE
