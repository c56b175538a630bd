"""Service levels of the past, from the history: error budgets go on where an earlier keeper has left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.app import history
from railkeeper.health.slo.series import FINE_S, HOUR_S, HOURS, MINUTE_S, Series, load

if TYPE_CHECKING:
    from pathlib import Path

# Minutes for as long as they are remembered, hours for all; a row's time is the end of its minute.
_SQL = """
SELECT sli, scope, ?::INT AS width_s, floor((t - 1) / ?)::BIGINT AS number, sum(good), sum(total)
FROM slis WHERE t > ? AND t <= ? GROUP BY ALL
"""


def past_levels(folder: Path, now_s: float) -> Series:
    """Return the amounts of all indicators in the month up to a time (unix s)."""
    db = history.connect(folder)
    try:
        rows = []
        for width_s, reach_s in ((MINUTE_S, FINE_S), (HOUR_S, (HOURS - 1) * HOUR_S)):
            rows += db.execute(_SQL, [width_s, width_s, now_s - reach_s, now_s]).fetchall()
        return load(rows)
    finally:
        db.close()
