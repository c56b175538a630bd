"""Prometheus rules made from the objectives: error ratios as recording rules, burn-rate alerts, and alerts on silence.

The keeper computes the same burn rates itself; the rules are for those who alert from Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from railkeeper.health.slo.objectives import BurnAlert, Slo

RUNBOOKS = "docs/runbooks"
SEVERITY = {"page": "critical", "ticket": "warning"}
# Several missed ticks, and no false alarm at a restart.
SILENT_S = 60


def rules(slos: tuple[Slo, ...], *, runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """Return the rule file as plain values; `runbooks` is where the pages of runbooks stand (a path or a URL)."""
    windows = sorted({int(w) for slo in slos for a in slo.alerts for w in (a.long_s, a.short_s)})
    alerts = [_alert(slo, a, runbooks) for slo in slos for a in slo.alerts]
    groups = [
        {"name": "railkeeper-error-ratios", "rules": [_ratio(w) for w in windows]},
        {"name": "railkeeper-slo-alerts", "rules": alerts},
        {"name": "railkeeper-keeper", "rules": _own(runbooks)},
    ]
    return {"groups": [g for g in groups if g["rules"]]}


def as_yaml(made: dict[str, Any]) -> str:
    """Return the text of a rule file."""
    return str(yaml.safe_dump(made, sort_keys=False, width=120))


def duration(seconds: float) -> str:
    """Return a time as Prometheus writes it: 300 -> 5m."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def ratio_name(window_s: float) -> str:
    """Return the name of the recorded error ratio over a window."""
    return f"sli_scope:railkeeper_sli_errors:ratio_rate{duration(window_s)}"


def _ratio(window_s: int) -> dict[str, Any]:
    w = duration(window_s)
    good = f"sum by (sli, scope) (rate(railkeeper_sli_good_events_total[{w}]))"
    total = f"sum by (sli, scope) (rate(railkeeper_sli_events_total[{w}]))"
    return {"record": ratio_name(window_s), "expr": f"1 - {good} / ({total} > 0)"}


def selector(slo: Slo) -> str:
    """Return the label matchers of the scopes of an objective."""
    scope = 'scope="fabric"' if slo.scope == "fabric" else f'scope=~"{slo.scope}/.+"'
    return f'{{sli="{slo.sli}", {scope}}}'


def _alert(slo: Slo, a: BurnAlert, runbooks: str) -> dict[str, Any]:
    limit = f"{a.burn:g} * (1 - {slo.objective:.12g})"
    parts = [f"{ratio_name(w)}{selector(slo)} >= {limit}" for w in (a.long_s, a.short_s)]
    words = "".join(part.capitalize() for part in slo.name.replace("_", "-").split("-"))
    return {
        "alert": f"Railkeeper{words}BudgetBurn",
        "expr": " and ".join(parts),
        "labels": {"severity": SEVERITY[a.severity], "slo": slo.name, "window": duration(a.long_s)},
        "annotations": {
            "summary": f"The error budget of {slo.name} burns {a.burn:g} times quicker than allowed.",
            "description": "{{ $labels.scope }}: {{ $value | humanizePercentage }} of "
            f"{slo.sli} was bad over {duration(a.long_s)}; the objective is {slo.objective:.6g}.",
            "runbook_url": f"{runbooks}/slo.md",
        },
    }


def _own(runbooks: str) -> list[dict[str, Any]]:
    silent = f"time() - railkeeper_last_tick_timestamp_seconds > {SILENT_S}"
    stale = "time() - railkeeper_source_last_success_timestamp_seconds > 300 or railkeeper_source_up == 0"
    made = [
        _Alert(
            "RailkeeperSilent", f"{silent} or absent(railkeeper_last_tick_timestamp_seconds)", "1m", "critical",
            "The keeper judges no ticks.", "Nothing watches the fabric.", "slo",
        ),
        _Alert(
            "RailkeeperSourceSilent", stale, "5m", "warning", "A source of telemetry does not answer.",
            "{{ $labels.source }} {{ $labels.target }} gives no data: what it covers is not judged.", "source",
        ),
        _Alert(
            "RailkeeperFaultOpen", 'railkeeper_fault_info{network="true"} == 1', "2m", "warning",
            "A fault of the network is open.", "{{ $labels.target }}: {{ $labels.kind }} ({{ $labels.direction }}).",
            "fault",
        ),
        _Alert(
            "RailkeeperAgentsAway", "railkeeper_agents_reporting < 0.9 * railkeeper_agents_expected", "5m", "warning",
            "Many probe agents are away.", "Links that no probe crosses are not judged.", "agent-away",
        ),
    ]  # fmt: skip
    return [_plain(a, runbooks) for a in made]


class _Alert(NamedTuple):
    alert: str
    expr: str
    lasting: str
    severity: str
    summary: str
    description: str
    runbook: str


def _plain(a: _Alert, runbooks: str) -> dict[str, Any]:
    about = {"summary": a.summary, "description": a.description, "runbook_url": f"{runbooks}/{a.runbook}.md"}
    return {
        "alert": a.alert, "expr": a.expr, "for": a.lasting, "labels": {"severity": a.severity}, "annotations": about,
    }  # fmt: skip
