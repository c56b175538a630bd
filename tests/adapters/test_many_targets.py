"""Three hundred real HTTP targets on loopback, a sixth of them bad in five ways; thousands are in the benchmark."""

from __future__ import annotations

import time

from railkeeper.adapters.prometheus_scrape import ScrapeSettings, ScrapeTarget, Texts
from railkeeper.adapters.runner import Runner
from railkeeper.adapters.web import WebClient
from railkeeper.app.bench_sources import peers

KINDS = ("silent", "slow", "endless", "garbage", "dead")
EACH = 10


def test_well_targets_are_fresh_beside_bad_ones():
    with peers(devices=4) as port:
        check(port)


def check(port):
    web, texts = WebClient(), Texts()
    kinds = [kind for kind in KINDS for _ in range(EACH)] + ["well"] * 250
    targets = [
        ScrapeTarget(
            "many",
            f"{kind}-{k}",
            ScrapeSettings(
                f"http://127.0.0.1:{1 if kind == 'dead' else port}/{kind}/n{k}",
                interval_s=1.0,
                timeout_s=1.0,
                keep=("node_infiniband_*",),
                max_body_bytes=2**20,
            ),
            web,
            texts,
        )
        for k, kind in enumerate(kinds)
    ]
    with Runner(targets) as runner:
        deadline = time.monotonic() + 40
        heard: set[str] = set()
        counts: dict[str, int] = {}
        while time.monotonic() < deadline and (len(heard) < 250 or min(counts.values()) < 3):
            time.sleep(0.1)
            readings = runner.drain()
            heard |= {r.target for r in readings}
            for target in {r.target for r in readings}:
                counts[target] = counts.get(target, 0) + 1
        statuses = {s.target: s for s in runner.statuses()}

    well = [s for name, s in statuses.items() if name.startswith("well")]
    assert {s.state for s in well} == {"ok"}
    assert heard == {s.target for s in well}
    errors = {kind: {s.error for n, s in statuses.items() if n.startswith(kind)} for kind in KINDS}
    assert errors["silent"] == errors["slow"] == {"no whole answer within 1 s"}
    assert all("no connection (Connection refused)" in e for e in errors["dead"])
    assert all("lines are bad; line 1, column 1: no metric name" in e for e in errors["garbage"])
    assert all("longer than 1048576 bytes" in e or "no whole answer" in e for e in errors["endless"])
    assert web.room.held == 0
