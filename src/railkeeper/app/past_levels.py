"""Service levels of the past, from the history: error budgets go on where an earlier keeper has left them.

Minutes (table `slis`) last as long as the history does. Each hour's sums (`sli_hours`) last a month, whatever is kept
of all else: an error budget is as long.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import msgpack
import numpy as np

from railkeeper.app import history
from railkeeper.app.history_names import newest_fabric
from railkeeper.app.ticklog import LogRecord
from railkeeper.health.slo.series import FINE_S, HOUR_S, HOURS, MINUTE_S, Series

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any

    from railkeeper.fabric.model import Fabric

HOUR_ROWS = "sli_hours"
REACH_S = (HOURS - 1) * HOUR_S
# A row's time is the end of its minute, or of the part of it that was seen.
_MINUTES = """
SELECT floor((t - 1) / 60)::BIGINT AS number, sli, scope, sum(good), sum(total)
FROM slis WHERE t > $from_t AND t <= $to_t GROUP BY ALL ORDER BY number
"""
_HOURS = """
WITH whole AS (
    SELECT floor((t - 1) / 3600)::BIGINT AS number, sli, scope, arg_max(good, total) AS good, max(total) AS total
    FROM sli_hours WHERE t > $from_t AND t <= $to_t GROUP BY ALL
), loose AS (
    SELECT floor((t - 1) / 3600)::BIGINT AS number, sli, scope, sum(good) AS good, sum(total) AS total
    FROM slis WHERE t > $from_t AND t <= $to_t GROUP BY ALL
)
SELECT *, true FROM whole
UNION ALL SELECT *, false FROM loose WHERE number NOT IN (SELECT number FROM whole) ORDER BY number
"""


class Past(NamedTuple):
    """All amounts of the month up to a time.

    - loose: hours of which only minutes are kept so far; fabric: that of the newest run, None where none is known
    """

    series: Series
    loose: tuple[int, ...]
    fabric: Fabric | None


def past_levels(folder: Path, now_s: float) -> Past:
    """Return the amounts of all indicators in the month up to a time (unix s)."""
    db = history.connect(folder, only=("slis", HOUR_ROWS, "messages"))
    try:
        minutes = db.execute(_MINUTES, {"from_t": now_s - FINE_S, "to_t": now_s}).fetchall()
        hours = db.execute(_HOURS, {"from_t": now_s - REACH_S, "to_t": now_s}).fetchall()
        fabric = newest_fabric(db)
    finally:
        db.close()
    series = Series()
    _add(series, minutes, MINUTE_S, "minutes")
    _add(series, hours, HOUR_S, "hours")
    return Past(series, tuple(sorted({row[0] for row in hours if not row[5]} - {int(now_s // HOUR_S)})), fabric)


def _add(series: Series, rows: Iterable[tuple[Any, ...]], width_s: int, ring: str) -> None:
    for number, found in itertools.groupby(rows, key=lambda row: row[0]):
        of = list(found)
        amounts = np.array([row[3:5] for row in of], dtype=np.float64)
        series.add_all([(row[1], row[2]) for row in of], float(number) * width_s, amounts, only=ring)


def hour_record(series: Series, number: int, name: str) -> LogRecord | None:
    """Return the record of an hour's sums (its number since 1970), None where there are none."""
    end = float((number + 1) * HOUR_S)
    rows = [(end, *row) for row in series.hour(number)]
    return LogRecord(end, HOUR_ROWS, name, number, bytes(msgpack.packb(rows))) if rows else None
