"""What the command line does with errors, and how it prints JSON.

Exit codes: 0 did what was asked; 1 ran, and a command that judges says not ok; 2 wrong usage, bad input or a machine
that can't do it; 3 an unexpected failure.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import typer

from railkeeper.base.errors import CapabilityError, InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1
OK, NOT_OK, USAGE, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG = "RAILKEEPER_DEBUG"

# Typer does not export the base of its usage errors, and has moved it between releases: it is the first that can show
# itself.
_UsageProblem: type[BaseException] = next(c for c in reversed(typer.BadParameter.__mro__) if hasattr(c, "show"))


def run(app: typer.Typer, args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; every error becomes a message on standard error."""
    try:
        code = app(args, standalone_mode=False, prog_name="railkeeper")
        sys.stdout.flush()
    except BaseException as e:  # noqa: BLE001  the one door through which every error leaves
        return _explain(e)
    return code if isinstance(code, int) else OK


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON document with `"schema": 1` first.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    print(json.dumps({"schema": SCHEMA, **data}, allow_nan=False))


def _explain(error: BaseException) -> int:
    if isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError):
        return _reader_gone(error)  # which Click turns into an exit of its own
    for kinds, answer in _ANSWERS:
        if isinstance(error, kinds):
            return answer(error)
    raise error  # SystemExit and the like


def _usage(error: Any) -> int:
    error.show()
    return USAGE


def _refused(error: BaseException) -> int:
    _say(str(error))
    return USAGE


def _outside(error: BaseException) -> int:
    _say(f"{error} (trying again may help)" if getattr(error, "retry", False) else str(error))
    _trace(error)
    return UNEXPECTED


def _interrupted(_error: BaseException) -> int:
    return INTERRUPTED


def _reader_gone(_error: BaseException) -> int:
    # Whoever read our output (e.g. `head`) has left: no message, and none from Python's own flush at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _bug(error: BaseException) -> int:
    _say(f"this is a bug in Railkeeper: {type(error).__name__}: {_one_line(str(error))} (set {DEBUG}=1 for details)")
    _trace(error)
    return UNEXPECTED


_ANSWERS = (
    (_UsageProblem, _usage),
    ((InputError, CapabilityError), _refused),
    ((typer.Abort, KeyboardInterrupt), _interrupted),
    (BrokenPipeError, _reader_gone),
    (OutsideError, _outside),
    (Exception, _bug),
)


def _say(text: str) -> None:
    print(f"railkeeper: {text}", file=sys.stderr)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _trace(error: BaseException) -> None:
    if os.environ.get(DEBUG) == "1":
        traceback.print_exception(error, file=sys.stderr)
