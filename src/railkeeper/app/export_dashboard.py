"""A Grafana dashboard made from the objectives (schema of Grafana 9 and later)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railkeeper.app.export_rules import ratio_name, selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railkeeper.health.slo.objectives import Slo

SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH = 24


def dashboard(slos: tuple[Slo, ...]) -> dict[str, Any]:
    """Return the dashboard as plain values; it asks for a Prometheus when it is imported."""
    panels = [
        *_row(0, _stats(), height=4),
        *_row(4, _budgets()),
        *_row(12, _planes(slos)),
        *_row(20, _detectors()),
        *_row(28, _sources()),
    ]
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "title": "Railkeeper: backend network",
        "uid": "railkeeper",
        "tags": ["railkeeper", "network"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source_variable(), _scope_variable()]},
        "annotations": {"list": []},
        "panels": panels,
    }


def expressions(made: dict[str, Any]) -> list[str]:
    """Return all queries of a dashboard."""
    return [target["expr"] for panel in made["panels"] for target in panel["targets"]]


def _source_variable() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _scope_variable() -> dict[str, Any]:
    query = "label_values(railkeeper_sli_events_total, scope)"
    return {
        "name": "scope", "label": "Scope", "type": "query", "datasource": SOURCE, "query": query, "refresh": 2,
        "multi": True, "includeAll": True, "allValue": ".+", "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _row(y: int, panels: Sequence[dict[str, Any]], height: int = 8) -> list[dict[str, Any]]:
    width = WIDTH // len(panels)
    for k, panel in enumerate(panels):
        panel["gridPos"] = {"x": k * width, "y": y, "w": width, "h": height}
    return list(panels)


def _panel(kind: str, title: str, unit: str, *queries: tuple[str, str], **options: Any) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + k), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
        for k, (expr, legend) in enumerate(queries)
    ]
    return {
        "type": kind, "title": title, "datasource": SOURCE, "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit, **options}, "overrides": []}, "options": {},
    }  # fmt: skip


def _steps(*steps: tuple[float | None, str]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in steps]}


def _stats() -> list[dict[str, Any]]:
    any_bad = _steps((None, "green"), (1, "red"))
    age = _steps((None, "green"), (10, "orange"), (60, "red"))
    return [
        _panel("stat", "Open faults", "short", ("railkeeper_faults_open", ""), thresholds=any_bad),
        _panel("stat", "Open incidents", "short", ("railkeeper_incidents_open", ""), thresholds=any_bad),
        _panel("stat", "Denied links", "short", ("railkeeper_denied_links", "")),
        _panel("stat", "Agents", "percentunit", ("railkeeper_agents_reporting / railkeeper_agents_expected", "")),
        _panel("stat", "Last tick", "s", ("time() - railkeeper_last_tick_timestamp_seconds", ""), thresholds=age),
        _panel("stat", "Sources that answer", "percentunit", ("avg(railkeeper_source_up)", "")),
    ]


def _budgets() -> list[dict[str, Any]]:
    left = 'sort(railkeeper_slo_error_budget_remaining_ratio{scope=~"$scope"})'
    burn = 'railkeeper_slo_burn_rate_ratio{scope=~"$scope", window_seconds="3600"}'
    steps = _steps((None, "red"), (0, "orange"), (0.5, "green"))
    return [
        _panel("bargauge", "Error budget left", "percentunit", (left, "{{slo}} {{scope}}"), thresholds=steps, max=1),
        _panel("timeseries", "Burn rate over an hour", "short", (burn, "{{slo}} {{scope}}")),
    ]


def _planes(slos: tuple[Slo, ...]) -> list[dict[str, Any]]:
    """Return the error ratios of the objectives by plane, which should all look alike."""
    chosen = [slo for slo in slos if slo.scope == "plane"][:4] or list(slos[:4])
    return [
        _panel(
            "timeseries", f"{slo.sli}: bad share, 5 minutes", "percentunit",
            (f"{ratio_name(min(a.short_s for a in slo.alerts))}{selector(slo)}", "{{scope}}"),
        )
        for slo in chosen
        if slo.alerts
    ] or _budgets()[:1]  # fmt: skip


def _detectors() -> list[dict[str, Any]]:
    bad = 'sum by (detector, verdict) (railkeeper_detector_entities{verdict=~"degraded|failed|error"})'
    blind = 'sum by (detector) (railkeeper_detector_entities{verdict="no data"})'
    return [
        _panel("timeseries", "Entities that are not well", "short", (bad, "{{detector}} {{verdict}}")),
        _panel("timeseries", "Entities without data", "short", (blind, "{{detector}}")),
        _panel("table", "Open faults", "short", ("railkeeper_fault_info", "{{target}}")),
    ]


def _sources() -> list[dict[str, Any]]:
    age = "time() - railkeeper_source_last_success_timestamp_seconds"
    lost = "1 - rate(railkeeper_probes_received_total[5m]) / rate(railkeeper_probes_sent_total[5m])"
    return [
        _panel("timeseries", "Age of sources", "s", (age, "{{source}} {{target}}")),
        _panel("timeseries", "Probe loss", "percentunit", (lost, "")),
    ]
