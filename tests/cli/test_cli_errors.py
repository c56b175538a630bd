"""Whatever a command raises becomes a message and an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.cli.errors import print_json, run

EXAMPLES = Path(__file__).parents[2] / "examples"


def app_that(action) -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def go(*, n: int = 0) -> None:
        action()

    return app


def raising(error: BaseException):
    def action():
        raise error

    return app_that(action)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("a.toml", "is bad", "do better"), 2, "railkeeper: a.toml: is bad; do better\n"),
        (CapabilityError("needs root; use sudo"), 2, "railkeeper: needs root; use sudo\n"),
        (OutsideError("ip: no such device"), 3, "railkeeper: ip: no such device\n"),
        (OutsideError("database is locked", retry=True), 3, "railkeeper: database is locked (trying again may help)\n"),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(1), 1, ""),
        (typer.Exit(0), 0, ""),
    ],
)
def test_exit_codes_and_messages(error, code, message, capsys):
    assert run(raising(error), []) == code

    out, err = capsys.readouterr()
    assert err == message
    assert not out


def test_an_unexpected_error_is_one_line_that_names_it_a_bug(capsys):
    assert run(raising(KeyError("two\nlines")), []) == 3

    _, err = capsys.readouterr()
    assert "bug" in err
    assert "KeyError" in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_the_traceback_is_there_on_demand(capsys, monkeypatch):
    monkeypatch.setenv("RAILKEEPER_DEBUG", "1")

    assert run(raising(KeyError("x")), []) == 3

    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--n", "x"], ["--m"], ["extra"]])
def test_wrong_usage_is_explained(args, capsys):
    assert run(app_that(lambda: None), args) == 2

    out, err = capsys.readouterr()
    assert not out
    assert "Usage: railkeeper" in err
    assert args[0].strip("-") in err


def test_a_command_that_returns_is_well():
    assert run(app_that(lambda: None), []) == 0


def test_json_has_its_schema_and_no_nan(capsys):
    print_json({"a": [1, None]})

    assert json.loads(capsys.readouterr().out) == {"schema": 1, "a": [1, None]}
    with pytest.raises(ValueError, match="JSON"):
        print_json({"a": float("nan")})


def test_a_reader_that_leaves_is_no_error():
    code = "from railkeeper.cli.main import main; main()"
    command = [sys.executable, "-c", code, "fabric", "show", EXAMPLES / "small.toml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        err = process.stderr.read()

    assert not err
