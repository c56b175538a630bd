"""A command is imported when it is asked for, and the list of commands says what each says of itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.main

from railkeeper.cli.errors import run
from railkeeper.cli.lazy import lines_of
from railkeeper.cli.main import COMMANDS, app

HEAVY = ("numba", "aiohttp", "pyarrow", "sqlalchemy", "duckdb", "numpy")
CODE = (
    "import sys; from railkeeper.cli.main import main; sys.argv[1:] = {args!r}\ntry: main()\nexcept SystemExit: pass\n"
)
LOADED = "print(sorted(x for x in {heavy!r} if x in sys.modules), file=sys.stderr)"


@pytest.mark.parametrize("args", [["--version"], ["--help"], [], ["no-such-command"]])
def test_what_names_no_command_loads_no_library_of_any(args):
    code = CODE.format(args=args) + LOADED.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_s_own_help_says(name):
    command = typer.main.get_command(app).commands[name]
    assert lines_of(command) == COMMANDS[name].help
    assert command.name == name


def test_a_slip_is_answered_with_the_nearest_name(capsys):
    assert run(app, ["statsu"]) == 2
    assert "Did you mean 'status'?" in capsys.readouterr().err


def test_all_are_in_the_list(capsys):
    assert run(app, ["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f" {name} " in said for name in COMMANDS)
