"""Runs nft and tc inside a namespace."""

from __future__ import annotations

import subprocess

from railkeeper.base.errors import OutsideError
from railkeeper.lab import netns

_TIMEOUT_S = 20.0


def run_in(space: str, argv: list[str], script: str = "") -> str:
    """Run a program in a named namespace with `script` on its standard input; returns what it prints.

    Raises OutsideError with the program's own words when it fails.
    """
    with netns.entered(space):
        try:
            done = subprocess.run(argv, input=script, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise OutsideError(f"{space}: {argv[0]}: {e}") from e
    if done.returncode:
        raise OutsideError(f"{space}: {' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
