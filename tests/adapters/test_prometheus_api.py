"""Queries of a real Prometheus that scrapes a real node_exporter: what it stored is what we read."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from real_prometheus import node_exporter, prometheus
from scraped import served

from railkeeper.adapters import prometheus_api
from railkeeper.adapters.exposition import Reader
from railkeeper.adapters.prometheus_api import PrometheusApi, Samples, joined
from railkeeper.adapters.prometheus_query import QuerySettings, QueryTarget
from railkeeper.adapters.web import WebClient
from railkeeper.base.errors import InputError, OutsideError

SECONDS = 5.0


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A Prometheus that scrapes node_exporter by way of a server that keeps each text, and a counter that goes away."""
    first: list[float] = []

    def counter(path, headers):
        # Away in the middle third: Prometheus then writes a staleness marker.
        first.append(time.time())
        at = time.time() - first[0]
        if SECONDS / 3 < at < 2 * SECONDS / 3:
            return 503, {}, b"away"
        return (
            200,
            {"Content-Type": "text/plain; version=0.0.4"},
            b"# TYPE ticks_total counter\nticks_total %d\n" % (at * 1000),
        )

    with node_exporter() as exporter:

        def passed_on(path, headers):
            with urllib.request.urlopen(f"http://{exporter}{path}") as answer:
                return 200, {"Content-Type": answer.headers["Content-Type"]}, answer.read()

        with (
            served(passed_on) as (relay, texts),
            served(counter) as (ticks, _),
            prometheus(tmp_path_factory.mktemp("prometheus"), {"node": relay, "ticks": ticks}) as url,
        ):
            # Prometheus takes up to five seconds to learn its own targets.
            while not first or time.time() < first[0] + SECONDS:
                time.sleep(0.05)
            yield SimpleNamespace(url=url, texts=texts, begun=first[0] - 1, relay=relay, ticks=ticks, until=time.time())


def ask(real, question):
    """Run one coroutine with an API of its own."""

    async def whole():
        api = PrometheusApi(WebClient(), real.url)
        try:
            return await question(api)
        finally:
            await api.close()

    return asyncio.run(whole())


def test_our_scrape_of_node_exporter_equals_what_prometheus_stored(real):
    """Each text that Prometheus was given, read by our reader, against the samples that Prometheus made of it."""
    stored = ask(real, lambda api: api.stored('{job="node"}', real.begun - 10, real.until))
    reader = Reader()
    scrapes = [reader.read(text) for text in real.texts.bodies]
    # A label of no text is none to Prometheus.
    ours = [
        {
            (s.name, frozenset(pair for pair in s.labels.items() if pair[1])): v
            for s, v in zip(scrape.series, scrape.values, strict=True)
        }
        for scrape in scrapes
    ]
    times = next(s.times_ns for s in stored if s.labels["__name__"] == "node_boot_time_seconds")
    compared = 0
    for samples in stored:
        labels = {key: value for key, value in samples.labels.items() if key not in ("__name__", "job", "instance")}
        key = (samples.labels["__name__"], frozenset(labels.items()))
        if key[0] in ("up", "scrape_duration_seconds") or key[0].startswith("scrape_"):
            continue  # Prometheus's own about the scrape
        scrape_of = np.searchsorted(times, samples.times_ns)
        mine = np.array([ours[i].pop(key) for i in scrape_of])
        np.testing.assert_array_equal(mine, samples.values)
        compared += len(mine)

    assert compared > 2000
    assert all(not ours[i] for i in range(len(times)))  # Prometheus stored all that we read
    assert all(not scrape.counts.errors for scrape in scrapes)


def test_rates_of_stored_counters_equal_those_of_promql(real):
    """`rate()` is our increase over the window, times how far it extrapolates to the window's ends; both are computed.

    Prometheus stretches the increase from [first, last sample] to the window, at most by 1.1 sample intervals a side (else
    by half of one), and not below zero. So the two differ by at most 2.2 intervals in the window's samples.
    """
    at, window = real.until, 3.0
    expression = 'node_cpu_seconds_total{mode="user"}'
    theirs = {s.labels["cpu"]: s.values[0] for s in ask(real, lambda api: api.query(f"rate({expression}[3s])", at))}
    raw = ask(real, lambda api: api.stored(expression, at - window, at))

    assert theirs
    for samples in raw:
        times, values = samples.times_ns / 1e9, samples.values
        increase = values[-1] - values[0] + values[:-1][np.diff(values) < 0].sum()
        assert increase / (times[-1] - times[0]) * extrapolation(
            times, values[0], increase, at, window
        ) == pytest.approx(theirs[samples.labels["cpu"]], rel=1e-6, abs=1e-12)
        plain, interval = increase / (times[-1] - times[0]), np.diff(times).mean()
        assert plain == pytest.approx(
            theirs[samples.labels["cpu"]], rel=2.2 * interval / (times[-1] - times[0]), abs=1e-12
        )


def extrapolation(times, first_value, increase, at, window):
    """Factor between an increase by its own time, and `rate()` over the window."""
    sampled = times[-1] - times[0]
    average = sampled / (len(times) - 1)
    before, behind = times[0] - (at - window), at - times[-1]
    if increase > 0 and first_value >= 0:
        before = min(before, sampled * first_value / increase)
    stretch = sampled
    stretch += before if before < average * 1.1 else average / 2
    stretch += behind if behind < average * 1.1 else average / 2
    return stretch / window


def test_a_counter_that_was_away_has_a_gap_and_no_repeated_samples(real):
    raw = ask(real, lambda api: api.stored("ticks_total", real.begun - 1, real.until))[0]
    thin = ask(real, lambda api: api.thinned("ticks_total", real.begun - 1, real.until, 0.25))[0]
    repeated = ask(real, lambda api: api.query_range("ticks_total", real.begun - 1, real.until, 0.25))[0]

    gap_s = np.diff(raw.times_ns).max() / 1e9
    assert gap_s > SECONDS / 3 - 0.6
    assert np.diff(raw.values).min() > 0
    np.testing.assert_array_equal(thin.times_ns, raw.times_ns)  # no sample twice, and each with its own time
    np.testing.assert_array_equal(thin.values, raw.values)
    assert len(repeated.times_ns) > len(thin.times_ns)  # the plain range query does repeat them
    assert not np.isnan(repeated.values).any()


def test_long_ranges_are_asked_in_pages(real, monkeypatch):
    """The real limit first: one question of 11,001 points is refused; ours comes through."""
    begin, end, step = real.until - 1200, real.until, 0.1
    whole = ask(real, lambda api: api.query_range("vector(time())", begin, end, step))[0]

    assert len(whole.times_ns) == 12_001
    np.testing.assert_allclose(whole.values, whole.times_ns / 1e9, atol=1e-3)
    assert (np.diff(whole.times_ns) == 100_000_000).all()
    monkeypatch.setattr(prometheus_api, "PAGE_POINTS", 20_000)
    with pytest.raises(OutsideError, match=r"bad_data: exceeded maximum resolution of 11,000 points"):
        ask(real, lambda api: api.query_range("vector(time())", begin, end, step))


def test_pages_of_raw_samples_meet_without_gap_or_double(real):
    whole = ask(real, lambda api: api.stored("node_load1", real.begun - 1, real.until))[0]
    paged = ask(real, lambda api: api.stored("node_load1", real.begun - 1, real.until, page_s=0.7))[0]

    np.testing.assert_array_equal(whole.times_ns, paged.times_ns)
    np.testing.assert_array_equal(whole.values, paged.values)


def test_errors_of_the_api_are_shown_as_they_are(real):
    with pytest.raises(OutsideError, match=r"bad_data: .*parse error: unexpected end of input inside braces"):
        ask(real, lambda api: api.query("up{", real.until))
    with pytest.raises(OutsideError, match=r"HTTP 404, and no answer of a Prometheus API"):
        ask(SimpleNamespace(url=real.url + "/nowhere"), lambda api: api.query("up", real.until))


def test_long_questions_are_sent_as_a_form(real):
    selector = 'up{job=~"' + "x" * 5000 + '|node"}'

    assert len(ask(real, lambda api: api.query(selector, real.until))) == 1
    assert len(ask(real, lambda api: api.series([selector], real.begun, real.until))) == 1


def test_series_are_listed(real):
    found = ask(real, lambda api: api.series(["up", "ticks_total"], real.begun, real.until))

    assert sorted(s["__name__"] + s["job"] for s in found) == ["ticks_totalticks", "upnode", "upticks"]


def test_live_polling_gives_the_newest_sample_with_its_own_time(real):
    settings = QuerySettings(real.url, ('{__name__=~"node_network_.*", job="node"}', "ticks_total"), latest_s=10)

    async def poll(api):
        return await QueryTarget("prom", "main", settings, api).poll()

    readings = ask(real, poll)

    lo = (
        [r for r in readings if r.labels.get("device") == "lo" and "node_network_mtu_bytes" in r.values]
        if readings
        else []
    )
    assert len(lo) == 1
    assert (lo[0].dialect, lo[0].labels["instance"]) == ("node_exporter", real.relay)
    assert lo[0].values["node_network_mtu_bytes"] == 65536
    assert 0 < time.time_ns() - lo[0].t_ns < 60e9
    assert [r.dialect for r in readings if "ticks_total" in r.values] == ["prometheus"]


def test_history_comes_in_order_of_time(real):
    settings = QuerySettings(real.url, ("ticks_total",), labels={"host": "h"})

    async def past(api, step_s=None):
        return await QueryTarget("prom", "main", settings, api).history(real.begun, real.until, step_s)

    readings = ask(real, past)

    assert len(readings) > 4
    assert [r.t_ns for r in readings] == sorted({r.t_ns for r in readings})
    assert {r.labels["host"] for r in readings} == {"h"}
    assert readings == ask(real, lambda api: past(api, 0.25))


def answers(body, status=200):
    return lambda *_: (status, {"Content-Type": "application/json"}, body)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>sign in</html>", "no answer of a Prometheus API: <html>sign in"),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[["x","1"]]}]}}',
            "can't be read",
        ),
        (b'{"status":"success","data":null}', "can't be read"),
        (b'{"status":"error","errorType":"execution","error":"query timed out"}', "execution: query timed out"),
        (b"[" * 100_000, "no answer of a Prometheus API"),
    ],
)
def test_answers_that_are_none_are_told(body, told):
    with served(answers(body)) as (address, _), pytest.raises(OutsideError, match=told):
        ask(SimpleNamespace(url=f"http://{address}"), lambda api: api.query("up", 1))


def test_warnings_are_told():
    body = b'{"status":"success","warnings":["store is away"],"data":{"resultType":"vector","result":[]}}'
    with served(answers(body)) as (address, _):
        settings = QuerySettings(f"http://{address}", ("up",))

        async def poll(api):
            target = QueryTarget("prom", "main", settings, api)
            assert await target.poll() == []
            return target.complaint

        assert ask(SimpleNamespace(url=f"http://{address}"), poll) == "store is away"


def test_joined_pages_keep_each_moment_once():
    def page(times, values):
        return Samples({"a": "b"}, np.array(times), np.array(values, float))

    (whole,) = joined([page([1, 2], [1, 2]), page([2, 3], [2, 3])])

    assert whole.times_ns.tolist() == [1, 2, 3]
    assert whole.values.tolist() == [1, 2, 3]


def test_a_range_that_can_not_be_meant_is_refused():
    with pytest.raises(InputError, match="a range of time"):
        ask(SimpleNamespace(url="http://127.0.0.1:1"), lambda api: api.query_range("up", 2, 1, 1))
