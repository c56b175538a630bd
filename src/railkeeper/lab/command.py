"""Runs nft and tc inside a namespace."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError
from railkeeper.lab import netns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TIMEOUT_S = 20.0
_AT_ONCE = 4


def run_all(jobs: Sequence[Callable[[], None]]) -> None:
    """Run jobs side by side: each waits for the kernel more than it works. Raises what the first failed one raised."""
    if len(jobs) == 1:
        jobs[0]()
    elif jobs:
        with ThreadPoolExecutor(min(_AT_ONCE, len(jobs)), thread_name_prefix="lab-run") as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()


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
