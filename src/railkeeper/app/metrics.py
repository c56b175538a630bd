"""The keeper as Prometheus sees it: base units, `_total` for what only rises, one meaning a name."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from railkeeper.base.errors import OutsideError
from railkeeper.health.detect.finding import VERDICTS
from railkeeper.health.fault import CLEARED
from railkeeper.health.presence import expected
from railkeeper.health.slo.objectives import levels
from railkeeper.health.slo.scopes import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from railkeeper.app.pipeline import KeeperState, Outcome, Setup
    from railkeeper.health.slo.objectives import Level
    from railkeeper.telemetry.reading import SourceStatus

    Statuses = Callable[[], Sequence[SourceStatus]]

# So many open faults are listed by name; their number is always told.
MAX_FAULTS = 500


class KeeperMetrics(Collector):
    """What the keeper tells Prometheus; `update` after each tick, `collect` from any thread.

    `statuses` tells how the sources are.
    """

    def __init__(self, setup: Setup, statuses: Statuses = lambda: ()) -> None:
        self._setup, self._statuses = setup, statuses
        self._lock = threading.Lock()
        self._good: Counter[tuple[str, str]] = Counter()
        self._total: Counter[tuple[str, str]] = Counter()
        self._sums: Counter[str] = Counter()
        self._levels: tuple[Level, ...] = ()
        self._last: tuple[KeeperState, Outcome] | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def update(self, state: KeeperState, outcome: Outcome) -> None:
        """Take in a tick."""
        with self._lock:
            for row in outcome.slis:
                self._good[row.sli, row.scope] += row.good  # type: ignore[assignment]
                self._total[row.sli, row.scope] += row.total  # type: ignore[assignment]
            if outcome.slis or not self._levels:
                here = frozenset(state.levels.scopes.names)
                self._levels = levels(self._setup.levels.slos, state.levels.slo.series, outcome.t_s, here)
                self._forget_jobs(here)
            self._sums["ticks"] += 1
            self._sums["sent"] += int(outcome.stats.sent.sum())
            self._sums["received"] += int(outcome.stats.received.sum())
            self._last = (state, outcome)

    def _forget_jobs(self, here: frozenset[str]) -> None:
        """Drop the counters of jobs that are over, of which there are more each day."""
        for counters in (self._good, self._total):
            for key in [k for k in counters if kind_of(k[1]) == "job" and k[1] not in here]:
                del counters[key]

    def text(self) -> bytes:
        """Return the exposition."""
        return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        """Yield all families."""
        with self._lock:
            yield from _sli_families(self._good, self._total)
            yield from _slo_families(self._levels)
            yield from _sum_families(self._sums)
            if self._last is not None:
                yield from _state_families(self._setup, *self._last)
        yield from _source_families(self._statuses())


def serve(metrics: KeeperMetrics, address: str) -> Callable[[], None]:
    """Let Prometheus scrape at `ADDRESS:PORT`; returns what ends it. Raises OutsideError where it can't listen."""
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), addr=host.strip("[]"), registry=metrics.registry)
    except OSError as e:
        raise OutsideError(f"metrics: {address} can't be listened on: {e.strerror or e}") from e

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def _family(kind: Any, name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Any:
    family = kind(name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _sli_families(good: Counter[Any], total: Counter[Any]) -> Iterator[Metric]:
    labels = ("sli", "scope")
    text = "Events of service level indicators that were good."
    yield _family(CounterMetricFamily, "railkeeper_sli_good_events", text, labels, good.items())
    yield _family(CounterMetricFamily, "railkeeper_sli_events", "All of them.", labels, total.items())


def _slo_families(found: Sequence[Level]) -> Iterator[Metric]:
    labels = ("slo", "scope")
    goal = [((x.slo.name, x.scope), x.slo.objective) for x in found]
    yield _family(GaugeMetricFamily, "railkeeper_slo_objective_ratio", "Share that must be good.", labels, goal)
    left = [((x.slo.name, x.scope), x.budget_left) for x in found if x.budget_left is not None]
    text = "Share of the error budget that is left; below 0 when overspent."
    yield _family(GaugeMetricFamily, "railkeeper_slo_error_budget_remaining_ratio", text, labels, left)
    burns = [
        ((x.slo.name, x.scope, str(int(w))), b) for x in found for w, b in x.burns.items() if b is not None
    ]  # fmt: skip
    text = "How many times quicker than allowed the budget is used, over a window."
    yield _family(GaugeMetricFamily, "railkeeper_slo_burn_rate_ratio", text, (*labels, "window_seconds"), burns)


def _sum_families(sums: Counter[str]) -> Iterator[Metric]:
    yield CounterMetricFamily("railkeeper_ticks", "Ticks judged since the keeper began.", value=sums["ticks"])
    yield CounterMetricFamily("railkeeper_probes_sent", "Probes sent, as far as joined.", value=sums["sent"])
    yield CounterMetricFamily("railkeeper_probes_received", "Probes that came back.", value=sums["received"])


def _state_families(setup: Setup, state: KeeperState, outcome: Outcome) -> Iterator[Metric]:
    f = setup.fabric
    gauges = {
        "railkeeper_last_tick_timestamp_seconds": ("End of the newest tick.", outcome.t_s),
        "railkeeper_nodes": ("Nodes of the fabric.", f.n_nodes),
        "railkeeper_agents_expected": ("Nodes whose agent should report.", float(expected(state.locator).sum())),
        "railkeeper_agents_reporting": ("Nodes whose agent reported the newest tick.", f.n_nodes - len(outcome.silent)),
        "railkeeper_denied_links": ("Directed links that senders must avoid.", len(state.response.denied)),
        "railkeeper_incidents_open": (
            "Incidents that are not closed.", sum(i.is_open for i in state.response.incidents.values()),
        ),
    }  # fmt: skip
    for name, (text, number) in gauges.items():
        yield GaugeMetricFamily(name, text, value=float(number))
    standing = [x for x in outcome.faults if x.status != CLEARED]
    yield GaugeMetricFamily("railkeeper_faults_open", "Located faults that are not cleared.", value=len(standing))
    rows = [((x.target, x.kind, x.direction, str(x.network).lower()), 1.0) for x in standing[:MAX_FAULTS]]
    labels = ("target", "kind", "direction", "network")
    yield _family(GaugeMetricFamily, "railkeeper_fault_info", "A located fault; 1.", labels, dict(rows).items())
    if state.detecting is not None:
        yield _verdicts(state)
        yield GaugeMetricFamily(
            "railkeeper_frame_timestamp_seconds", "End of the newest frame of telemetry.", value=state.detecting.t_s
        )


def _verdicts(state: KeeperState) -> Any:
    rows = []
    for name, judged in state.detecting.judged.items() if state.detecting else ():
        counts = np.bincount(judged.verdicts, minlength=len(VERDICTS))
        rows += [((name, verdict), float(n)) for verdict, n in zip(VERDICTS, counts, strict=True)]
    text = "Entities by what a detector says of them."
    return _family(GaugeMetricFamily, "railkeeper_detector_entities", text, ("detector", "verdict"), rows)


def _source_families(statuses: Sequence[SourceStatus]) -> Iterator[Metric]:
    labels = ("source", "target")
    up = [((s.source, s.target), float(s.state == "ok")) for s in statuses]
    yield _family(GaugeMetricFamily, "railkeeper_source_up", "1 while a target answers.", labels, up)
    last = [((s.source, s.target), s.last_ok_ns / 1e9) for s in statuses if s.last_ok_ns is not None]
    text = "When a target last answered."
    yield _family(GaugeMetricFamily, "railkeeper_source_last_success_timestamp_seconds", text, labels, last)
    dropped = [((s.source, s.target), float(s.dropped)) for s in statuses]
    text = "Readings of a target for which there was no room."
    yield _family(CounterMetricFamily, "railkeeper_source_dropped_readings", text, labels, dropped)
