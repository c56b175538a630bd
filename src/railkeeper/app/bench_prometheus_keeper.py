"""Railkeeper's side of the benchmark against Prometheus: the same targets, the same rule, one process.

Run as `python -m railkeeper.app.bench_prometheus_keeper PORT INTERVAL_S`; each tick it prints a line of JSON:
samples taken so far, and the switches for which the rule holds.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters.prometheus_columns import SeriesColumn
from railkeeper.app.bench_prometheus_target import NAME, PORTS, SWITCHES, TARGETS, switch_name
from railkeeper.health.detect.screen import above
from railkeeper.health.detect.track import Tracker, follow
from railkeeper.telemetry import rates
from railkeeper.telemetry.entities import Entities
from railkeeper.telemetry.frame import Block

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.adapters.series_table import Series

N_SWITCHES = TARGETS * SWITCHES
N = N_SWITCHES * PORTS
WINDOW_TICKS = 4  # of the rate
FOR_TICKS = 20
LIMIT_PER_S = 1.0
_PLACE = re.compile(r"p(\d+)/t0-(\d+)")


def place(series: Series) -> int | None:
    """Return the row of a port's counter: its switch's rows, then its own number."""
    found = _PLACE.fullmatch(series.labels.get("switch", "")) if series.name == NAME else None
    if found is None:
        return None
    return (int(found[2]) * 8 + int(found[1])) * PORTS + int(series.labels["port"].removeprefix("Ethernet")) // 4


class Rule:
    """Errors a second of each switch over the last ticks, above a limit for so long."""

    def __init__(self) -> None:
        self._sums: deque[npt.NDArray[np.float64]] = deque(maxlen=WINDOW_TICKS)
        self._tracker = Tracker()

    def judge(self, per_s: npt.NDArray[np.float32], now_s: float) -> list[str]:
        """Return the switches for which it holds; one of which nothing was read is unknown, not quiet."""
        by_switch = per_s.reshape(N_SWITCHES, PORTS)
        known = np.count_nonzero(~np.isnan(by_switch), axis=1)
        sums = np.where(known > 0, np.nansum(by_switch, axis=1, dtype=np.float64), np.nan)
        self._sums.append(sums)
        mean = np.mean(self._sums, axis=0).astype(np.float32)
        found, _ = follow(self._tracker, above(mean, LIMIT_PER_S), now_s, FOR_TICKS, 0.0, blind=np.isnan(mean))
        return [switch_name(int(i)) for i in found]


def entities() -> Entities:
    """Return the ports; peers are those of a switch."""
    zeros = np.zeros(N, dtype=np.int32)
    return Entities(
        kind="port", domain=zeros.astype(np.int16), role=zeros.astype(np.int8),
        owner=np.repeat(np.arange(N_SWITCHES, dtype=np.int32), PORTS), other=zeros - 1,
        group=np.repeat(np.arange(N_SWITCHES, dtype=np.int16), PORTS), n_groups=N_SWITCHES, name_of=str, id_of=int,
    )  # fmt: skip


def main() -> None:
    """Scrape all targets each interval, one after the other, and judge."""
    port, interval_s = int(sys.argv[1]), float(sys.argv[2])
    column, rule, ports, taken = SeriesColumn(N, place), Rule(), entities(), 0
    state = rates.new(N, rates.RatesConfig(gap_s=2.5 * interval_s))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    times, width = np.empty(N, dtype=np.int64), np.array([64], dtype=np.uint8)
    none = np.empty((0, N), dtype=np.float32)
    due = time.monotonic()
    while True:
        for target in range(TARGETS):
            connection.request("GET", f"/metrics/{target}")
            body = connection.getresponse().read()
            mine = slice(target * SWITCHES * PORTS, (target + 1) * SWITCHES * PORTS)
            times[mine] = time.time_ns()
            column.take(str(target), body)
        block = Block(ports, times, ("rx_crc_errors",), width, column.values[None], (), none)
        per_s = rates.rates_of(state, block).per_s[0]
        taken += N
        holds = rule.judge(per_s, time.time())
        print(json.dumps({"samples": taken, "holds": holds, "followed": column.followed}), flush=True)
        due += interval_s
        time.sleep(max(due - time.monotonic(), 0.0))


if __name__ == "__main__":
    main()
