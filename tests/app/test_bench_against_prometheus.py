"""The benchmark against Prometheus: its targets, its rule on our side, its files as Prometheus's own tool sees them."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from railkeeper.adapters.exposition import Reader
from railkeeper.app import bench_prometheus as bench
from railkeeper.app import bench_prometheus_keeper as keeper
from railkeeper.app.bench_prometheus_target import (
    BAD,
    BAD_PER_S,
    FIRST_VALUE,
    PORTS,
    SWITCHES,
    make_target,
    switch_name,
)


def test_targets_grow_by_time_alone_and_every_series_has_its_row():
    target = make_target(7 // SWITCHES)
    early, late = Reader().read(target.at_time(0)), Reader().read(target.at_time(10))
    rows = [keeper.place(series) for series in late.series]
    grown = late.whole - early.whole

    assert sorted(rows) == list(range(SWITCHES * PORTS))
    assert late.counts.errors == 0
    assert int(early.whole.min()) == FIRST_VALUE
    assert int(grown.max()) == 10 * BAD_PER_S
    assert late.series[int(np.argmax(grown))].labels["switch"] == switch_name(7)
    assert target.at_time(10) == make_target(0).at_time(10)


def test_other_series_have_no_row():
    found = Reader().read(b'up 1\nrailkeeper_port_rx_crc_errors_total{switch="x",port="Ethernet0"} 1\n')
    assert [keeper.place(series) for series in found.series] == [None, None]


def run(rule, sums, start=0):
    held = []
    for tick, bad in enumerate(sums, start):
        per_s = np.zeros(keeper.N, dtype=np.float32)
        per_s[BAD[0] * PORTS + 3] = bad
        held.append(bool(rule.judge(per_s, float(tick))))
    return held


def test_the_rule_holds_after_its_time_and_no_longer():
    assert run(keeper.Rule(), [2.0] * 21) == [False] * 19 + [True] * 2
    assert not any(run(keeper.Rule(), [0.9] * 25))
    rule = keeper.Rule()
    run(rule, [2.0] * 21)
    assert run(rule, [0.0] * 4, 21) == [True, False, False, False]


def test_what_was_not_read_is_not_quiet():
    rule = keeper.Rule()
    run(rule, [2.0] * 20)
    assert rule.judge(np.full(keeper.N, np.nan, dtype=np.float32), 20.0) == [switch_name(BAD[0])]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here (Debian package prometheus)")
def test_promtool_takes_the_files(tmp_path):
    bench._write(tmp_path, 1234, 5)
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 rules found" in done.stdout
