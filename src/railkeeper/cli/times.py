"""Times as people type them."""

from __future__ import annotations

from datetime import datetime

from railkeeper.base.errors import InputError

# The year 9999.
END_S = 253_370_764_800.0


def unix_time(text: str, where: str) -> float:
    """Return unix seconds of a time that a person has typed; raises InputError for what is none."""
    try:
        seconds = float(text) if text.replace(".", "", 1).isdigit() else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < END_S:
        right = "as 2026-05-06T13:00:00, 2026-05-06T11:00:00Z or unix seconds"
        raise InputError(where, f"is {text[:40]!r}", right)
    return seconds
