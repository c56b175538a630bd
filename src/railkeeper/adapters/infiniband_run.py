"""Programs of infiniband-diags: started without a shell, bounded in time and in what they print."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_BYTES = 256_000_000
# Options that clear counters: two readers of one fabric would take each other's counts. Never sent.
CLEARING = frozenset({"-k", "-K", "--clear-errors", "--clear-counts", "-R", "-r", "--Reset_only", "--reset_after_read"})


@dataclass(frozen=True)
class Said:
    """What a program printed, and on which line it complained first."""

    out: str
    complaint: str


async def run_tool(
    command: Sequence[str], *, timeout_s: float, good_codes: Sequence[int] = (0,), env: Mapping[str, str] | None = None
) -> Said:
    """Run a program to its end. Raises OutsideError if it is missing, fails, hangs or prints without end."""
    check_harmless(command)
    program = _path_of(command[0])
    process = await asyncio.create_subprocess_exec(
        program,
        *command[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", **(env or {})},
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise OutsideError(f"{command[0]} did not end within {timeout_s:g} s", retry=True) from None
    finally:
        await _end(process)
    complaint = next((line.strip() for line in err.splitlines() if line.strip()), "")
    if code not in good_codes:
        raise OutsideError(f"{' '.join(command)}: {complaint or f'exit code {code}'}", retry=True)
    return Said(out, complaint)


def check_harmless(command: Sequence[str]) -> None:
    """Raise OutsideError if a command would clear counters."""
    if CLEARING.intersection(command):
        raise OutsideError(f"{' '.join(command)} would clear counters: it is not run")


def _path_of(program: str) -> str:
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if path is None:
        raise OutsideError(f"{program} is not installed (Debian: infiniband-diags)")
    return path


async def _bounded(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    parts, size = [], 0
    while part := await stream.read(65536):
        size += len(part)
        if size > MOST_BYTES:
            raise OutsideError(f"a program printed more than {MOST_BYTES} bytes")
        parts.append(part)
    return b"".join(parts).decode("utf-8", "backslashreplace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # The process is dead at once; waiting keeps no zombie, also when we are being cancelled.
        await asyncio.shield(process.wait())
