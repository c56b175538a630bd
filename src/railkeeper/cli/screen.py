"""The console for people: as wide as their screen; where there is none, wide enough that no column is cut."""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH_WITHOUT_SCREEN = 200


def screen() -> Console:
    """Return a console on standard output."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_SCREEN)
