"""The page of commands knows every command and option of the command line, and no others."""

from __future__ import annotations

import enum
import re

import pytest
import typer.main
from pages import anchors, read, rows, section

from railkeeper.cli import errors
from railkeeper.cli.main import app

PAGE = read("docs/reference/commands.md")
SILENT = (None, False, "", [], ())


def commands(command, name="railkeeper"):
    """All commands by their full name, groups without options of their own left out."""
    found = {} if name != "railkeeper" and hasattr(command, "commands") else {name: command}
    for sub, inner in getattr(command, "commands", {}).items():
        found |= commands(inner, f"{name} {sub}")
    return found


COMMANDS = commands(typer.main.get_command(app))
PARAMS = [(name, p) for name, command in COMMANDS.items() for p in command.params if p.name != "help"]


def names_of(param):
    return {*param.opts, *param.secondary_opts} if param.param_type_name == "option" else {param.name.upper()}


def row_of(name, param):
    return rows(section(PAGE, f"`{name}`"))[min(names_of(param))]


def test_every_command_has_its_section_and_every_section_its_command():
    assert set(re.findall(r"^## `(.+)`$", PAGE, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_row_for_each_option_and_no_other(name):
    wanted = set().union(*(names_of(p) for p in COMMANDS[name].params if p.name != "help"))

    assert set(rows(section(PAGE, f"`{name}`"))) == wanted


@pytest.mark.parametrize(("name", "param"), PARAMS, ids=lambda x: getattr(x, "name", x))
def test_rows_say_what_is_required_and_what_the_default_is(name, param):
    said = row_of(name, param).rsplit("|", 2)[1].strip()

    assert (said == "required") == param.required
    if not param.required and param.default not in SILENT and not callable(param.default):
        assert said.strip("`") == str(getattr(param.default, "value", param.default))


@pytest.mark.parametrize(("name", "param"), PARAMS, ids=lambda x: getattr(x, "name", x))
def test_rows_say_the_bounds(name, param):
    low, high, kind = getattr(param, "min", None), getattr(param, "max", None), param.type_descriptor.annotation
    said = row_of(name, param).split("|")[3].strip()

    if low is not None and high is not None:
        assert said == f"{low:g} to {high:g}"
    elif low is not None:
        assert said == f"at least {low:g}"
    if issubclass(kind, enum.Enum):
        assert all(f"`{choice.value}`" in said for choice in kind)


def test_every_exit_code_has_its_row():
    codes = (errors.OK, errors.NOT_OK, errors.USAGE, errors.UNEXPECTED, errors.INTERRUPTED)

    assert [int(c) for c in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == list(codes)


def test_the_page_can_be_linked_into():
    assert "railkeeper-run" in anchors(PAGE)
