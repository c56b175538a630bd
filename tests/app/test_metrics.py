"""What Prometheus is told, and the rules and dashboard made for it, checked by its own tools."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.request

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from synthetic_world import SynthWorld, event, make_fabric

from railkeeper.app import export_rules
from railkeeper.app.export_dashboard import dashboard, expressions
from railkeeper.app.keeper import Keeper
from railkeeper.app.metrics import KeeperMetrics, serve
from railkeeper.app.pipeline import Setup
from railkeeper.health.slo.objectives import DEFAULT_SLOS, Slo
from railkeeper.respond.guardrails import Limits
from railkeeper.telemetry.reading import SourceStatus

FABRIC = make_fabric()
SETUP = Setup(FABRIC, "lab", limits=Limits(dry_run=False))
LOSSY = "p0/t0-1--p0/t1-2"
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's prometheus (promtool)")


def statuses():
    return (
        SourceStatus("sonic", "leaf3", "ok", 1_700_000_000_500_000_000, None, 0, "", 2),
        SourceStatus("sonic", "leaf4", "failing", None, 1, 3, 'no "route"', 0),
    )


@pytest.fixture(scope="module")
def metrics():
    world = SynthWorld(FABRIC, [event(FABRIC, 6, 900, kind="loss", target=LOSSY, rate=0.2)], ticks=260)
    keeper, made = Keeper(SETUP, world), KeeperMetrics(SETUP, statuses)
    keeper.observers.append(made.update)
    keeper.run(lambda *_: True)
    return made


@pytest.fixture(scope="module")
def samples(metrics):
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, *sorted(s.labels.values())): s.value for f in families for s in f.samples}


def test_faults_and_sources_are_told(samples):
    assert samples["railkeeper_faults_open",] == 1
    assert samples["railkeeper_fault_info", *sorted((LOSSY, "loss", "both", "true"))] == 1
    assert samples["railkeeper_source_up", "leaf3", "sonic"] == 1
    assert samples["railkeeper_source_up", "leaf4", "sonic"] == 0
    assert samples["railkeeper_source_last_success_timestamp_seconds", "leaf3", "sonic"] == 1_700_000_000.5
    assert ("railkeeper_source_last_success_timestamp_seconds", "leaf4", "sonic") not in samples


def test_amounts_are_those_of_the_probes(samples):
    good = samples["railkeeper_sli_good_events_total", "fabric", "packet-loss"]
    total = samples["railkeeper_sli_events_total", "fabric", "packet-loss"]
    planes = sum(samples["railkeeper_sli_events_total", "packet-loss", f"plane/p{p}"] for p in range(2))
    assert 0 < total - good < 0.05 * total
    assert planes == total <= samples["railkeeper_probes_sent_total",]
    assert samples["railkeeper_slo_burn_rate_ratio", "300", "fabric", "fabric-loss"] > 14.4
    assert samples["railkeeper_slo_error_budget_remaining_ratio", "fabric", "fabric-loss"] < 0


def test_it_can_be_scraped(metrics):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    stop = serve(metrics, f"127.0.0.1:{port}")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"railkeeper_faults_open 1.0" in answer.read()
    finally:
        stop()


def run(*command, given=None):
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


@promtool
def test_names_are_as_prometheus_wants_them(metrics):
    done = run("promtool", "check", "metrics", given=metrics.text().decode())
    assert (done.returncode, done.stderr) == (0, "")


@promtool
def test_rules_are_good(tmp_path):
    path = tmp_path / "rules.yml"
    path.write_text(export_rules.as_yaml(export_rules.rules(DEFAULT_SLOS)), encoding="utf-8")
    done = run("promtool", "check", "rules", str(path))
    assert done.returncode == 0, done.stderr + done.stdout


@promtool
def test_queries_of_the_dashboard_are_good(tmp_path):
    queries = [q.replace("$scope", ".+") for q in expressions(dashboard(DEFAULT_SLOS))]
    path = tmp_path / "queries.yml"
    rules = [{"record": f"q:{k}", "expr": q} for k, q in enumerate(queries)]
    path.write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": rules}]}), encoding="utf-8")
    done = run("promtool", "check", "rules", str(path))
    assert len(queries) >= 15
    assert done.returncode == 0, done.stderr + done.stdout


def test_queries_ask_for_nothing_that_is_not_told(samples):
    told = {name for name, *_ in samples} | {export_rules.ratio_name(w) for w in (300, 1800, 3600)}
    told |= {"railkeeper_detector_entities"}  # only once a frame has come
    for query in expressions(dashboard(DEFAULT_SLOS)):
        assert any(name in query for name in told), query


def test_panels_lie_beside_each_other():
    panels = dashboard(DEFAULT_SLOS)["panels"]
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(places)) == len(places)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)
    assert len({p["id"] for p in panels}) == len(panels)


UNIT = """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'railkeeper_sli_events_total{sli="packet-loss", scope="plane/p1"}'
        values: '0+1000x600'
      - series: 'railkeeper_sli_good_events_total{sli="packet-loss", scope="plane/p1"}'
        values: '0+1000x300 300980+980x299'
      - series: 'railkeeper_sli_events_total{sli="packet-loss", scope="plane/p0"}'
        values: '0+1000x600'
      - series: 'railkeeper_sli_good_events_total{sli="packet-loss", scope="plane/p0"}'
        values: '0+1000x600'
      - series: railkeeper_last_tick_timestamp_seconds
        values: '0+60x600'
    alert_rule_test:
      - {eval_time: 4h50m, alertname: RailkeeperLossBudgetBurn, exp_alerts: []}
      - eval_time: 6h10m
        alertname: RailkeeperLossBudgetBurn
        exp_alerts:
          - exp_labels: {severity: critical, slo: loss, window: 1h, sli: packet-loss, scope: plane/p1}
            exp_annotations:
              summary: The error budget of loss burns 14.4 times quicker than allowed.
              description: 'plane/p1: 2% of packet-loss was bad over 1h; the objective is 0.999.'
              runbook_url: docs/runbooks/slo.md
      - {eval_time: 5h, alertname: RailkeeperSilent, exp_alerts: []}
"""


@promtool
def test_an_alert_fires_where_the_budget_burns_and_nowhere_else(tmp_path):
    slo = Slo("loss", "packet-loss", "plane", 0.999)
    only = Slo(slo.name, slo.sli, slo.scope, slo.objective, alerts=slo.alerts[:1])
    (tmp_path / "rules.yml").write_text(export_rules.as_yaml(export_rules.rules((only,))), encoding="utf-8")
    (tmp_path / "unit.yml").write_text(UNIT, encoding="utf-8")
    done = run("promtool", "test", "rules", str(tmp_path / "unit.yml"))
    assert done.returncode == 0, done.stderr + done.stdout
