"""Prometheus API: asks a Prometheus server, or one that speaks its API as VictoriaMetrics does, for stored samples."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.adapters.web import Access, WebClient, check_url
from railkeeper.base.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# Prometheus refuses a range query of more than 11,000 points a series.
PAGE_POINTS = 10_000
MAX_ANSWER_BYTES = 256 * 2**20
LONG_QUESTION = 2000  # characters; longer ones are sent as a form
LARGE_BYTES = 256 * 1024  # answers from here on are read in a thread
API = "/api/v1/"
FAR_MS = 9 * 10**12  # the year 2255: later times do not fit into 64 bits of ns


@dataclass(frozen=True)
class Samples:
    """Samples of one series: labels (with `__name__`, unless the query took it away), times (n,) unix ns, values (n,).

    Times rise. Staleness markers are not among them: where a target was away, samples are missing.
    """

    labels: Mapping[str, str]
    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]


class PrometheusApi:
    """Questions to one server. Its own words stand in every OutsideError: kind of error and text."""

    def __init__(self, web: WebClient, url: str, access: Access | None = None) -> None:
        """`url` is where the server's API begins, without `/api/v1`: http://host:9090, or with a path before."""
        self.url = check_url("Prometheus server", url).rstrip("/")
        self.warnings: list[str] = []
        self._access = access or Access()
        self._web = web
        self._access.check(self.url)
        web.join()

    async def close(self) -> None:
        """Let go of connections."""
        await self._web.leave()

    async def query(self, expression: str, at_s: float) -> list[Samples]:
        """Return an expression's value at a moment: the last sample of each series, or all of them for `x[5m]`."""
        data = await self._ask("query", {"query": expression, "time": _stamp(at_s)})
        return _samples(data, self.url)

    async def query_range(self, expression: str, begin_s: float, end_s: float, step_s: float) -> list[Samples]:
        """Return an expression at every step from begin to end, both included, in as many questions as it takes.

        A step repeats the last sample for up to five minutes after it; see `stored` for samples as they were taken.
        """
        if not (step_s > 0 and end_s >= begin_s):
            raise InputError("query_range", f"from {begin_s} to {end_s} in steps of {step_s} s", "a range of time")
        steps = int((end_s - begin_s) / step_s + 1e-9)
        pages = []
        for first in range(0, steps + 1, PAGE_POINTS):
            last = min(first + PAGE_POINTS - 1, steps)
            times = {"start": _stamp(begin_s + first * step_s), "end": _stamp(begin_s + last * step_s)}
            pages += _samples(
                await self._ask("query_range", {"query": expression, "step": f"{step_s:.3f}", **times}), ""
            )
        return joined(pages)

    async def stored(self, selector: str, begin_s: float, end_s: float, page_s: float = 3600.0) -> list[Samples]:
        """Return samples after begin up to end as they were stored, with their own times, a page of time a question."""
        pages = []
        at_s = begin_s
        while at_s < end_s:
            upto_s = min(at_s + page_s, end_s)
            width_ms = round((upto_s - at_s) * 1000)
            pages += await self.query(f"{selector}[{width_ms}ms]", upto_s)
            at_s = upto_s
        # Servers differ in whether a range holds its first moment.
        return [_after(found, begin_s) for found in joined(pages)]

    async def thinned(self, selector: str, begin_s: float, end_s: float, step_s: float) -> list[Samples]:
        """Return about one sample a step of one metric, each once and with its own time: for long histories.

        The server repeats samples where a target was away; asked for their times too, it shows which are repetitions.
        """
        values = await self.query_range(selector, begin_s, end_s, step_s)
        stamps = await self.query_range(f"timestamp({selector})", begin_s, end_s, step_s)
        by_labels = {_nameless(found.labels): found for found in stamps}
        return [
            _once(found, by_labels[_nameless(found.labels)]) for found in values if _nameless(found.labels) in by_labels
        ]

    async def series(self, selectors: Sequence[str], begin_s: float, end_s: float) -> list[dict[str, str]]:
        """Return labels of all series that had samples in a time."""
        url = f"{self.url}{API}series?start={_stamp(begin_s)}&end={_stamp(end_s)}"
        body = await self._fetch(url, "&".join(selectors), [("match[]", selector) for selector in selectors])
        if not isinstance(body, list) or not all(isinstance(found, dict) for found in body):
            raise OutsideError(f"{self.url}: answers with no list of series")
        return body

    async def _ask(self, what: str, params: Mapping[str, str]) -> Any:
        return await self._fetch(f"{self.url}{API}{what}", params["query"], list(params.items()))

    async def _fetch(self, url: str, question: str, params: list[tuple[str, str]]) -> Any:
        long = len(question) > LONG_QUESTION
        answer = await self._web.get(
            url,
            self._access,
            params=None if long else params,
            form=params if long else None,
            max_bytes=MAX_ANSWER_BYTES,
            any_status=True,
        )
        said = await _json(answer.body)
        if not isinstance(said, dict) or "status" not in said:
            shown = " ".join(answer.body[:400].decode("utf-8", "replace").split())[:200]
            raise OutsideError(f"{url}: HTTP {answer.status}, and no answer of a Prometheus API: {shown}")
        if said["status"] != "success":
            raise OutsideError(f"{self.url}: {said.get('errorType')}: {said.get('error')}", retry=answer.status >= 500)
        self.warnings = [str(text) for text in said.get("warnings") or []]
        return said.get("data")


async def _json(body: bytes) -> Any:
    try:
        if len(body) < LARGE_BYTES:
            return json.loads(body)
        return await asyncio.to_thread(json.loads, body)
    except (ValueError, RecursionError):
        return None


def _samples(data: Any, url: str) -> list[Samples]:
    """Read a vector, matrix or scalar."""
    try:
        kind, result = data["resultType"], data["result"]
        if kind == "scalar":
            return [_one({}, [result])]
        return [_one(found["metric"], [found["value"]] if kind == "vector" else found["values"]) for found in result]
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, OverflowError) as error:
        raise OutsideError(f"{url}: an answer that can't be read ({type(error).__name__}: {error})") from None


def _one(labels: Mapping[str, str], points: Sequence[Sequence[Any]]) -> Samples:
    times_ms = [round(float(point[0]) * 1000) for point in points]
    if any(abs(time_ms) > FAR_MS for time_ms in times_ms):
        raise ValueError("a time out of range")
    values = [float(point[1]) for point in points]
    return Samples(
        {_text(key): _text(value) for key, value in labels.items()}, _ns(times_ms), np.array(values, np.float64)
    )


def _text(found: Any) -> str:
    """Return a label's text; half characters, which JSON can hold, can be written nowhere."""
    text = str(found)
    text.encode()
    return text


def _ns(times_ms: Sequence[int]) -> NDArray[np.int64]:
    return np.array(times_ms, np.int64) * 1_000_000


def joined(pages: Sequence[Samples]) -> list[Samples]:
    """Put pages of the same series together, in order of time and each moment once."""
    parts: dict[tuple[tuple[str, str], ...], list[Samples]] = {}
    for page in pages:
        parts.setdefault(tuple(sorted(page.labels.items())), []).append(page)
    out = []
    for same in parts.values():
        times, first = np.unique(np.concatenate([page.times_ns for page in same]), return_index=True)
        out.append(Samples(same[0].labels, times, np.concatenate([page.values for page in same])[first]))
    return out


def _after(found: Samples, begin_s: float) -> Samples:
    fresh = found.times_ns > round(begin_s * 1000) * 1_000_000
    return Samples(found.labels, found.times_ns[fresh], found.values[fresh])


def _once(found: Samples, stamps: Samples) -> Samples:
    """Give values their own times, and leave out those that only repeat the one before."""
    both, here, there = np.intersect1d(found.times_ns, stamps.times_ns, assume_unique=True, return_indices=True)
    own = np.rint(stamps.values[there] * 1000).astype(np.int64) * 1_000_000
    fresh = np.concatenate([[True], np.diff(own) > 0]) if len(both) else np.zeros(0, bool)
    return Samples(found.labels, own[fresh], found.values[here][fresh])


def _nameless(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in labels.items() if key != "__name__"))


def _stamp(at_s: float) -> str:
    return f"{at_s:.3f}"
