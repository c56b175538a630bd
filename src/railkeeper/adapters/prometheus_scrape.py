"""Prometheus scrape: asks a target for its metrics in text, as a Prometheus server would."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from railkeeper.adapters.exposition import Reader
from railkeeper.adapters.prometheus_readings import Naming, readings_of
from railkeeper.adapters.web import MAX_BODY_BYTES, Access, WebClient, check_url
from railkeeper.base.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railkeeper.adapters.exposition import Scrape
    from railkeeper.telemetry.reading import Reading

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
# Texts from here on are read in a thread: the loop must not wait for them.
LARGE_BYTES = 256 * 1024


class Texts:
    """Readers of metrics text that all targets share: one in the loop, one in a thread for large texts."""

    def __init__(self) -> None:
        self._small = Reader()
        self._large = Reader()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="railkeeper-text")
        # The kernels are compiled or loaded now, not while targets wait.
        self._small.read(b"a 1\n")

    async def read(self, body: bytes, *, openmetrics: bool) -> Scrape:
        """Read one text."""
        if len(body) < LARGE_BYTES:
            return self._small.read(body, openmetrics=openmetrics)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._large.read(body, openmetrics=openmetrics))


@dataclass(frozen=True)
class ScrapeSettings:
    """One target: `labels` name what it is of, the URL's `instance` without a `host`; `keep` see `Naming`."""

    url: str
    interval_s: float = 15.0
    timeout_s: float = 5.0
    labels: Mapping[str, str] = field(default_factory=dict)
    dialect: str = ""
    keep: tuple[str, ...] = ()
    honor_timestamps: bool = True
    max_body_bytes: int = MAX_BODY_BYTES
    access: Access = field(default_factory=Access)

    def check(self, where: str) -> None:
        """Raise InputError for what can't be meant."""
        check_url(where, self.url)
        if not 0 < self.timeout_s <= self.interval_s:
            raise InputError(where, f"timeout of {self.timeout_s:g} s", "above 0 and at most the interval")
        self.access.check(where)


class ScrapeTarget:
    """A `Target` that is scraped. `complaint` says which lines of the last text were bad; the others were taken."""

    def __init__(self, source: str, name: str, settings: ScrapeSettings, web: WebClient, texts: Texts) -> None:
        settings.check(f"{source}: {name}")
        self.source = source
        self.name = name
        self.interval_s = settings.interval_s
        self.timeout_s = settings.timeout_s
        self.complaint = ""
        self._settings = settings
        self._web = web
        self._texts = texts
        # As a Prometheus would: an exporter often knows its host's name better than its address does.
        where = {} if "host" in settings.labels else {"instance": urlsplit(settings.url).netloc}
        self._naming = Naming(source, name, {**where, **settings.labels}, settings.dialect, settings.keep)
        web.join()

    async def poll(self) -> Sequence[Reading]:
        """Scrape once. Raises OutsideError if there is no answer, or no sample in it although there is text."""
        settings = self._settings
        answer = await self._web.get(
            settings.url,
            settings.access,
            headers={"Accept": ACCEPT, "X-Prometheus-Scrape-Timeout-Seconds": f"{settings.timeout_s:g}"},
            max_bytes=settings.max_body_bytes,
        )
        now_ns = time.time_ns()
        openmetrics = is_openmetrics(settings.url, answer.headers.get("Content-Type", ""))
        scrape = await self._texts.read(answer.body, openmetrics=openmetrics)
        self.complaint = complaint_of(scrape)
        if not scrape.counts.samples and scrape.counts.errors:
            raise OutsideError(f"{settings.url}: {self.complaint}")
        return readings_of(scrape, self._naming, now_ns, honor_times=settings.honor_timestamps)

    async def close(self) -> None:
        """Let go of the client."""
        await self._web.leave()


def is_openmetrics(url: str, content_type: str) -> bool:
    """Return which of the two texts an answer is; raises OutsideError for what is neither."""
    header = Message()
    header["Content-Type"] = content_type or "text/plain"
    kind, version = header.get_content_type(), str(header.get_param("version") or "")
    if kind == "application/openmetrics-text":
        if version not in ("", "0.0.1", "1.0.0"):
            raise OutsideError(f"{url}: OpenMetrics of version {version}; this reads 1.0.0")
        return True
    if kind not in ("text/plain", "application/octet-stream") or version not in ("", "0.0.4"):
        raise OutsideError(f"{url}: answers with {content_type}; metrics are text/plain; version=0.0.4 or OpenMetrics")
    return False


def complaint_of(scrape: Scrape) -> str:
    """Return what is wrong with a text in one line, empty if nothing is."""
    parts = []
    if scrape.counts.errors:
        parts.append(f"{scrape.counts.errors} of {scrape.counts.lines} lines are bad; {scrape.errors[0]}")
    if not scrape.complete:
        parts.append("the text may be cut: # EOF is missing")
    return "; ".join(parts)
