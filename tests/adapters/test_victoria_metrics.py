"""The same questions to a real VictoriaMetrics: what was put in comes out, with its gap, and no sample twice."""

from __future__ import annotations

import asyncio
import time
import urllib.request

import numpy as np
import pytest
from real_prometheus import free_port, need, running

from railkeeper.adapters.prometheus_api import PrometheusApi
from railkeeper.adapters.web import WebClient
from railkeeper.base.errors import OutsideError

GIVEN = [k for k in range(60) if not 20 < k < 40]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield (URL, time of the first sample in s)."""
    program = need("victoria-metrics", "victoria-metrics")
    address = f"127.0.0.1:{free_port()}"
    store = f"-storageDataPath={tmp_path_factory.mktemp('victoria')}"
    quick = ("-search.latencyOffset=0s", "-search.disableCache")
    with running(program, store, f"-httpListenAddr={address}", *quick, ready=f"http://{address}/health"):
        first = round(time.time()) - 120
        text = "".join(f'ticks_total{{h="a"}} {10 * k} {(first + k) * 1000}\n' for k in GIVEN)
        urllib.request.urlopen(f"http://{address}/api/v1/import/prometheus", data=text.encode()).close()
        urllib.request.urlopen(f"http://{address}/internal/force_flush").close()
        yield f"http://{address}", first


def ask(url, question):
    async def whole():
        api = PrometheusApi(WebClient(), url)
        try:
            return await question(api)
        finally:
            await api.close()

    return asyncio.run(whole())


def test_stored_samples_come_as_they_were_given(server):
    url, first = server
    deadline = time.monotonic() + 30
    while not (whole := ask(url, lambda api: api.stored("ticks_total", first - 1, first + 100))):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    paged = ask(url, lambda api: api.stored("ticks_total", first - 1, first + 100, page_s=7))
    thin = ask(url, lambda api: api.thinned("ticks_total", first - 1, first + 100, 5.0))

    for samples in (whole[0], paged[0]):
        assert samples.labels == {"__name__": "ticks_total", "h": "a"}
        assert samples.times_ns.tolist() == [(first + k) * 10**9 for k in GIVEN]
        assert samples.values.tolist() == [10 * k for k in GIVEN]
    assert set(thin[0].times_ns.tolist()) < set(whole[0].times_ns.tolist())
    assert (np.diff(thin[0].times_ns) > 0).all()
    assert ask(url, lambda api: api.series(["ticks_total"], first, first + 100)) == [
        {"__name__": "ticks_total", "h": "a"}
    ]


def test_its_errors_are_shown_as_they_are(server):
    with pytest.raises(OutsideError, match="422: error when executing query"):
        ask(server[0], lambda api: api.query("up{", server[1]))
