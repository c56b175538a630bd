"""The read commands, from a journal that a run has left."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from railkeeper.base.errors import InputError
from railkeeper.cli import journal_views as views
from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.spec import parse_spec
from railkeeper.respond.faultview import FaultRecord
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.journal import Journal
from railkeeper.respond.responder import ResponseState, confirm, respond, verification
from railkeeper.respond.verify import Traffic, verify

FABRIC = Fabric(parse_spec("[fabric]\nplanes=2\nt0_per_plane=4\nt1_per_plane=4\nnics_per_t0=4\n"))
ON = Limits(dry_run=False)


def fault(target, status="open"):
    links = links_of(FABRIC, parse_name(FABRIC, target)).tolist()
    denied = tuple(sorted([2 * x for x in links] + [2 * x + 1 for x in links]))
    return FaultRecord(f"loss@{target}", target, "loss", rate=0.05, denied_links=denied, status=status)


class Run:
    def __init__(self, url):
        self.url, self.state = url, ResponseState()

    def tick(self, now, *faults):
        with Journal.open(self.url) as journal:
            step = respond(FABRIC, self.state, faults, ON, now)
            journal.record_step(step)
            step = confirm(step.state, ["sender/n0"], ["sender/n0"], 0, now + 0.2)
            journal.record_step(step)
            journal.heartbeat(now, {"tick": int(now * 2)})
        self.state = step.state
        return self


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/journal.db"


def shown(table):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_incidents(url):
    Run(url).tick(100.0, fault("p0/t1-1"), fault("n3/nic0")).tick(110.0, fault("p0/t1-1", "cleared"), fault("n3/nic0"))
    answer = views.incidents(url)
    assert answer["schema"] == 1
    first = answer["incidents"][-1]
    assert (first["id"], first["status"], first["severity"], first["target"]) == ("inc-1", "closed", "major", "p0/t1-1")
    assert first["timeline"][0]["text"].startswith("opened: loss 5.00% on p0/t1-1")
    assert [i["id"] for i in views.incidents(url, only_open=True)["incidents"]] == ["inc-2"]
    assert len(views.incidents(url, limit=1)["incidents"]) == 1
    text = shown(views.incidents_table(answer))
    assert "p0/t1-1" in text
    assert "critical" in text


def test_actions(url):
    run = Run(url).tick(100.0, fault("p0/t1-1"), fault("n3/nic0"))
    with Journal.open(url) as journal:
        journal.record_step(verification(run.state, "inc-1/deny-1", verify(Traffic(1000, 50), Traffic(1000, 0)), 103.0))
    answer = views.actions(url)
    by_key = {a["key"]: a for a in answer["actions"]}
    assert (by_key["inc-1/deny-1"]["status"], by_key["inc-1/deny-1"]["verification"]["outcome"]) == (
        "applied",
        "helped",
    )
    assert by_key["inc-2/deny-1"]["status"] == "refused"
    assert [v["rule"] for v in by_key["inc-2/deny-1"]["verdicts"] if not v["ok"]] == ["pair-floor"]
    text = shown(views.actions_table(answer))
    assert "helped" in text
    assert "would keep 0 of 2 planes" in text


@pytest.mark.parametrize(
    ("faults", "agents", "now", "verdict"),
    [
        ([], 16, 100.5, "ok"),
        ([], 15, 100.5, "degraded"),
        ([], 0, 100.5, "no data"),
        (["p0/t0-0--p0/t1-0"], 16, 100.5, "degraded"),
        (["p0/t1-1"], 16, 100.5, "degraded"),
        (["n3/nic0"], 16, 100.5, "failed"),
        (["n3/nic0"], 15, 100.5, "failed"),
        ([], 16, 200.0, "no data"),
        (["p0/t1-1"], 16, 200.0, "no data"),
    ],
)
def test_status_verdict(url, faults, agents, now, verdict):
    Run(url).tick(100.0, *map(fault, faults))
    with Journal.open(url) as journal:
        journal.heartbeat(100.0, {"agents": agents, "nodes": 16})
    answer = views.status(url, now=now)
    assert (answer["schema"], answer["verdict"]) == (1, verdict)
    assert verdict in shown(views.status_table(answer))


@pytest.mark.parametrize(
    ("beat", "age_s", "verdict"),
    [
        ({"every_s": 8.0}, 15.0, "ok"),
        ({"every_s": 8.0}, 21.0, "no data"),
        ({"every_s": 0.4}, 4.0, "ok"),
        ({"every_s": 0.4}, 6.0, "no data"),
        ({"paths": 0}, 1.0, "no data"),
        ({"paths": 5}, 1.0, "ok"),
        ({"links": 64, "links_unseen": 0}, 1.0, "ok"),
        ({"links": 64, "links_unseen": 3}, 1.0, "degraded"),
        ({"links": 64, "links_unseen": 64}, 1.0, "no data"),
    ],
)
def test_health_needs_a_keeper_that_beats_and_paths_that_were_judged(url, beat, age_s, verdict):
    with Journal.open(url) as journal:
        journal.heartbeat(100.0, {"agents": 16, "nodes": 16, **beat})
    assert views.status(url, now=100.0 + age_s)["verdict"] == verdict


def test_a_keeper_that_never_spoke_is_no_data(url):
    with Journal.open(url):
        pass
    answer = views.status(url, now=1.0)
    assert (answer["verdict"], answer["keeper"]["age_s"]) == ("no data", None)
    assert "never heard of" in shown(views.status_table(answer))


def test_status_counts(url):
    Run(url).tick(100.0, fault("p0/t1-1"), fault("n3/nic0"))
    answer = views.status(url, now=100.5)
    assert (answer["denied_links"], answer["deny_version"]) == (8, 1)
    assert [a["key"] for a in answer["denials"]] == ["inc-1/deny-1"]
    assert [a["key"] for a in answer["held_back"]] == ["inc-2/deny-1"]
    assert answer["success"]["median_seconds_to_deny"] == 0.2


def test_answers_are_json(url):
    Run(url).tick(100.0, fault("p0/t1-1"), fault("n3/nic0"))
    for answer in (views.incidents(url), views.actions(url), views.status(url, now=101.0)):
        assert answer == json.loads(json.dumps(answer, allow_nan=False))


def test_a_journal_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        views.status(str(tmp_path / "none.db"), now=1.0)
