"""Prometheus query target: what a Prometheus server has stored, live and from the past, as readings."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.adapters.prometheus_readings import dialect_of
from railkeeper.adapters.web import Access
from railkeeper.base.errors import InputError
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railkeeper.adapters.prometheus_api import PrometheusApi, Samples

LATEST_S = 120.0


@dataclass(frozen=True)
class QuerySettings:
    """Which series are taken over.

    - selectors: as `{__name__=~"node_infiniband_.*"}`, one question each
    - latest_s: how old a sample may be to be taken in live polling: at least twice the server's scrape interval
    - labels: added to each reading, and stronger than a series' own; dialect: of all, without by how names begin
    """

    url: str
    selectors: tuple[str, ...]
    interval_s: float = 15.0
    timeout_s: float = 10.0
    latest_s: float = LATEST_S
    labels: Mapping[str, str] = field(default_factory=dict)
    dialect: str = ""
    access: Access = field(default_factory=Access)

    def check(self, where: str) -> None:
        """Raise InputError for what can't be meant."""
        if not self.selectors:
            raise InputError(where, "no selector", 'selectors = ["up"]')
        if not 0 < self.timeout_s <= self.interval_s:
            raise InputError(where, f"timeout of {self.timeout_s:g} s", "above 0 and at most the interval")
        if self.latest_s <= 0:
            raise InputError(where, f"latest_s of {self.latest_s:g}", "twice the server's scrape interval")


class QueryTarget:
    """A `Target` that gives the newest sample of each series at each poll, with the time at which it was scraped."""

    def __init__(self, source: str, name: str, settings: QuerySettings, api: PrometheusApi) -> None:
        settings.check(f"{source}: {name}")
        self.source = source
        self.name = name
        self.interval_s = settings.interval_s
        self.timeout_s = settings.timeout_s
        self.complaint = ""
        self._settings = settings
        self._api = api

    async def poll(self) -> Sequence[Reading]:
        """Ask for the newest samples. Raises OutsideError with the server's own words."""
        now_s = time.time()
        found: list[Samples] = []
        complaints: list[str] = []
        for selector in self._settings.selectors:
            found += await self._api.stored(selector, now_s - self._settings.latest_s, now_s)
            complaints += self._api.warnings
        self.complaint = "; ".join(complaints)
        return self.readings([_last(samples) for samples in found if len(samples.times_ns)])

    async def history(self, begin_s: float, end_s: float, step_s: float | None = None) -> list[Reading]:
        """Return readings of a past time in order of time: all samples, or about one a step.

        With a step each selector must name one metric.
        """
        found: list[Samples] = []
        for selector in self._settings.selectors:
            if step_s is None:
                found += await self._api.stored(selector, begin_s, end_s)
            else:
                found += await self._api.thinned(selector, begin_s, end_s, step_s)
        return self.readings(found)

    def readings(self, found: Sequence[Samples]) -> list[Reading]:
        """Put samples of the same labels and time together, in order of time."""
        objects: dict[
            tuple[str, tuple[tuple[str, str], ...]], tuple[Mapping[str, str], dict[int, dict[str, float]]]
        ] = {}
        for samples in found:
            name = samples.labels.get("__name__", "")
            own = {key: value for key, value in samples.labels.items() if key != "__name__"}
            dialect = self._settings.dialect or dialect_of(name)
            labels = {**own, **self._settings.labels}
            _, by_time = objects.setdefault((dialect, tuple(sorted(labels.items()))), (labels, {}))
            for at_ns, value in zip(samples.times_ns.tolist(), samples.values.tolist(), strict=True):
                by_time.setdefault(at_ns, {})[name] = value
        out = [
            Reading(self.source, self.name, dialect, labels, at_ns, values)
            for (dialect, _), (labels, by_time) in objects.items()
            for at_ns, values in by_time.items()
        ]
        return sorted(out, key=lambda reading: reading.t_ns)

    async def close(self) -> None:
        """Let go of connections."""
        await self._api.close()


def _last(samples: Samples) -> Samples:
    newest = int(np.argmax(samples.times_ns))
    return type(samples)(samples.labels, samples.times_ns[[newest]], samples.values[[newest]])
