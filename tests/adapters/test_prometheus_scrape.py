"""Scrapes of a real node_exporter through the runner."""

from __future__ import annotations

import time

import pytest
from real_prometheus import node_exporter

from railkeeper.adapters.prometheus_scrape import ScrapeSettings, ScrapeTarget, Texts
from railkeeper.adapters.runner import Runner
from railkeeper.adapters.web import WebClient


def until(found, limit_s=20.0):
    """Wait for something to be true and return it."""
    deadline = time.monotonic() + limit_s
    while not (value := found()):
        assert time.monotonic() < deadline, "did not come in time"
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def exporter():
    with node_exporter() as address:
        yield address


def test_a_scrape_of_node_exporter_gives_readings_by_object(exporter):
    settings = ScrapeSettings(f"http://{exporter}/metrics", interval_s=0.2, timeout_s=0.2, labels={"host": "n1"})
    target = ScrapeTarget("hosts", "n1", settings, WebClient(), Texts())
    with Runner([target]) as runner:
        until(lambda: runner.statuses()[0].state == "ok")
        readings = runner.drain()
        status = runner.statuses()[0]

    lo = next(r for r in readings if r.labels.get("device") == "lo" and "node_network_mtu_bytes" in r.values)
    assert (lo.source, lo.target, lo.dialect) == ("hosts", "n1", "node_exporter")
    assert lo.labels == {"host": "n1", "device": "lo"}
    assert lo.values["node_network_mtu_bytes"] == 65536
    assert {r.dialect for r in readings} == {"node_exporter", "prometheus"}
    assert (status.failures, status.error, status.dropped) == (0, "", 0)
    assert abs(status.last_ok_ns - time.time_ns()) < 60e9
    assert runner.statuses()[0].state == "closed"
