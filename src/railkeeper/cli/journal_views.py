"""The read commands `incidents`, `actions` and `status`: plain dictionaries for scripts, tables for people.

Everything is read from the journal alone, so the commands work beside a running keeper and after its death.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from railkeeper.respond.actions import Action, ActionStatus
from railkeeper.respond.incidents import Incident, IncidentStatus, Severity
from railkeeper.respond.journal import Journal
from railkeeper.respond.success import success

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1
# A keeper that has not said anything for this long, and for so many of its heartbeats, is not known to be there.
STALE_S, STALE_BEATS = 5.0, 2.5
# Success is counted over the newest so many incidents and actions: a journal of years holds many more.
RECENT = 1000
_COLOUR = {"critical": "bold red", "major": "red", "minor": "yellow", "info": "cyan"}
_STATUS_COLOUR = {
    "open": "red", "recovering": "yellow", "closed": "green", "refused": "magenta", "dry-run": "cyan",
    "approved": "yellow", "applied": "green", "failed": "red", "degraded": "yellow", "ok": "green",
    "no data": "magenta",
}  # fmt: skip


# -- for scripts ------------------------------------------------------------------------------------
def incidents(url: str, *, only_open: bool = False, limit: int | None = None) -> dict[str, Any]:
    """Return `{"schema", "incidents": [...]}`, newest first."""
    with Journal.open(url, read_only=True) as journal:
        found = journal.incidents(only_open=only_open, limit=limit)
    return {"schema": SCHEMA, "incidents": [_incident(i) for i in found]}


def actions(url: str, *, only_standing: bool = False, limit: int | None = None) -> dict[str, Any]:
    """Return `{"schema", "actions": [...]}`, newest first."""
    with Journal.open(url, read_only=True) as journal:
        found = journal.actions(only_standing=only_standing, limit=limit)
    return {"schema": SCHEMA, "actions": [_action(a) for a in found]}


def status(url: str, *, now: float) -> dict[str, Any]:
    """Return the state of the fabric as the journal knows it at `now` (unix seconds).

    `verdict` is ok, degraded (an incident that is minor, or whose paths are all denied), failed (a major or critical
    one that nothing avoids), or `no data` where the keeper has been silent (its last word is no health), no agent
    reports, or nothing of what they report can be used. While some agents are away, or some links are seen by no probe,
    the verdict is degraded at best: what nobody sees is not known to be well.
    """
    with Journal.open(url, read_only=True) as journal:
        live, unended = journal.incidents(only_open=True), journal.actions(only_standing=True)
        told, done = journal.incidents(limit=RECENT), journal.actions(limit=RECENT)
        heartbeat, version = journal.note("heartbeat"), journal.note("deny_version")
    standing = [a for a in unended if a.in_force]
    age_s = None if heartbeat is None else round(max(0.0, now - float(heartbeat["t"])), 3)
    return {
        "schema": SCHEMA,
        "verdict": "no data" if _blind(heartbeat, age_s) else _verdict(live, standing, _unseen(heartbeat)),
        "keeper": {"age_s": age_s, "last": heartbeat},
        "incidents": [_incident(i) for i in live],
        "denials": [_action(a) for a in standing],
        "held_back": [_action(a) for a in unended if a.status in {ActionStatus.REFUSED, ActionStatus.DRY_RUN}],
        "denied_links": len({link for a in standing for link in a.links}),
        "deny_version": version or 0,
        "success": success(told, done),
    }


def _blind(heartbeat: dict[str, Any] | None, age_s: float | None) -> bool:
    """Return whether nothing is known of the fabric now."""
    if heartbeat is None or age_s is None or age_s > max(STALE_S, STALE_BEATS * float(heartbeat.get("every_s", 0.0))):
        return True
    return _unseen(heartbeat) >= 1 or heartbeat.get("paths") == 0


def _unseen(heartbeat: dict[str, Any] | None) -> float:
    """Return the share of nodes without reports, or of links that nobody sees; all where nothing is known."""
    if not heartbeat or not heartbeat.get("nodes"):
        return 1.0
    away = 1 - float(heartbeat["agents"]) / float(heartbeat["nodes"])
    return max(away, float(heartbeat.get("links_unseen", 0)) / float(heartbeat.get("links", 1)))


def _verdict(live: Sequence[Incident], standing: Sequence[Action], unseen: float) -> str:
    avoided = {a.incident for a in standing if a.status is ActionStatus.APPLIED}
    bad = {Severity.MAJOR, Severity.CRITICAL}
    here = [i for i in live if i.status is IncidentStatus.OPEN]
    if any(i.impact.severity in bad and i.id not in avoided for i in here):
        return "failed"
    return "degraded" if unseen or any(i.impact.severity is not Severity.INFO for i in live) else "ok"


def _incident(i: Incident) -> dict[str, Any]:
    f = i.fault
    return {
        "id": i.id, "status": i.status.value, "severity": i.impact.severity.value, "target": f.target, "kind": f.kind,
        "direction": f.direction, "rate": f.rate, "delay_ms": f.delay_ms, "gbps": f.gbps, "confidence": f.confidence,
        "indistinguishable": list(f.indistinguishable), "evidence": list(f.evidence),
        "plane": i.impact.plane, "plane_capacity_left": i.impact.plane_left,
        "nic": i.impact.nic, "nic_capacity_left": i.impact.nic_left,
        "opened_at": i.opened_at, "updated_at": i.updated_at, "cleared_at": i.cleared_at, "closed_at": i.closed_at,
        "fault_key": f.key, "timeline": [{"t": e.t, "text": e.text} for e in i.timeline],
    }  # fmt: skip


def _action(a: Action) -> dict[str, Any]:
    return {
        "key": a.key, "incident": a.incident, "intent": a.intent, "status": a.status.value, "target": a.target,
        "links": list(a.links), "reason": a.reason, "evidence": list(a.evidence),
        "verdicts": [
            {"rule": v.rule, "ok": v.ok, "reason": v.reason, "value": v.value, "limit": v.limit} for v in a.verdicts
        ],
        "diff": a.diff, "asked": list(a.asked), "confirmed": list(a.confirmed), "kept_by_floor": a.kept_by_floor,
        "verification": a.verification, "undo": a.undo, "undone": a.undone, "note": a.note,
        "proposed_at": a.proposed_at,
        "approved_at": a.approved_at, "applied_at": a.applied_at, "ended_at": a.ended_at,
    }  # fmt: skip


# -- for people -------------------------------------------------------------------------------------
def incidents_table(answer: dict[str, Any]) -> Table:
    """Return the table of an answer of `incidents` (or of `status`)."""
    table = _table("Incidents", "id", "severity", "what, where", "capacity left", "since, for")
    for i in answer["incidents"]:
        end = i["closed_at"] if i["closed_at"] is not None else i["updated_at"]
        table.add_row(
            _lines(Text(i["id"]), _coloured(i["status"])), _coloured(i["severity"]),
            _lines(_what(i), Text(i["target"])), _left(i).replace(", ", "\n"),
            f"{_time(i['opened_at'])}\n{end - i['opened_at']:.1f} s",
        )  # fmt: skip
    return table


def actions_table(answer: dict[str, Any]) -> Table:
    """Return the table of an answer of `actions`."""
    table = _table("Actions", "key", "target, links, senders", "why", "result")
    for a in answer["actions"]:
        table.add_row(
            _lines(Text(a["key"]), _coloured(a["status"]), Text(_time(a["proposed_at"]))),
            _lines(
                Text(a["target"]), Text(f"{len(a['links'])} directed link(s)"),
                Text(f"{len(a['confirmed'])} of {len(a['asked'])} senders"),
            ),
            Text(_why(a)), Text(_result(a)),
        )  # fmt: skip
    return table


def status_table(answer: dict[str, Any]) -> Table:
    """Return the overview of an answer of `status`."""
    table = Table(title="Railkeeper", show_header=False, title_justify="left")
    age = answer["keeper"]["age_s"]
    table.add_row("fabric", _coloured(answer["verdict"]))
    table.add_row("keeper", "never heard of" if age is None else f"last heard of {age:.1f} s ago")
    last = answer["keeper"]["last"] or {}
    if last.get("nodes"):
        table.add_row("agents that report", f"{last['agents']} of {last['nodes']}")
    if last.get("links_unseen"):
        table.add_row("links that no probe sees", f"{last['links_unseen']} of {last['links']}")
    table.add_row("open incidents", str(len(answer["incidents"])))
    table.add_row("denials in force", f"{len(answer['denials'])} ({answer['denied_links']} directed links)")
    table.add_row("held back", str(len(answer["held_back"])))
    for name, value in answer["success"].items():
        if name.startswith("median") and value is not None:
            table.add_row(name.replace("_", " "), f"{value:g}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", show_lines=True)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _lines(*texts: Text) -> Text:
    return Text("\n").join(texts)


def _coloured(word: str) -> Text:
    return Text(word, style=_COLOUR.get(word) or _STATUS_COLOUR.get(word, ""))


def _what(i: dict[str, Any]) -> Text:
    size = {
        "loss": ("rate", ".2%", ""), "corrupt": ("rate", ".2%", ""),
        "delay": ("delay_ms", ".1f", " ms"), "slow": ("gbps", ".1f", " Gb/s"),
    }.get(i["kind"])  # fmt: skip
    # Counters alone tell no size, and 0 is not one.
    told = f" {i[size[0]]:{size[1]}}{size[2]}" if size and i[size[0]] else ""
    way = "" if i["direction"] == "both" else f" ({i['direction']})"
    return Text(f"{i['kind']}{told}{way}")


def _left(i: dict[str, Any]) -> str:
    if not i["plane"]:
        return "all"
    return f"{i['plane']} {i['plane_capacity_left']:.0%}, {i['nic']} {i['nic_capacity_left']:.0%}"


def _why(a: dict[str, Any]) -> str:
    refused = [v["reason"] for v in a["verdicts"] if not v["ok"]]
    return "; ".join(refused) or str(a["reason"])


def _result(a: dict[str, Any]) -> str:
    return str(a["verification"]["outcome"]) if a["verification"] else str(a["note"])


def _time(t: float) -> str:
    return f"{datetime.fromtimestamp(t, tz=UTC):%Y-%m-%d %H:%M:%S}Z"
