"""The journal keeps what it was given, once, and tells people plainly when it can't."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
import sqlalchemy as sa
from response_shapes import SMALL, cleared, fault

from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.respond.actions import ActionStatus
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import IncidentStatus, told
from railkeeper.respond.journal import Journal
from railkeeper.respond.responder import ResponseState, confirm, respond

ON = Limits(dry_run=False)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/state/journal.db"


@pytest.fixture
def journal(url):
    with Journal.open(url) as opened:
        yield opened


def steps(*ticks):
    """Run ticks (time, faults) and return the steps."""
    state, out = ResponseState(), []
    for now, faults in ticks:
        out.append(respond(SMALL, state, faults, ON, now))
        state = out[-1].state
    return out


BAD, WORSE = fault("p0/t1-1"), fault("n3/nic0")
HISTORY = [(100.0, [BAD]), (101.0, [BAD, WORSE]), (110.0, [cleared(BAD), WORSE])]


def test_a_restart_goes_on_from_where_it_was(journal):
    for step in (made := steps(*HISTORY)):
        journal.record_step(step)
    state = journal.restore(110.0)
    last = made[-1].state
    assert dict(last.incidents) == dict(state.incidents)
    assert {k: replace(a, judged_version=-1) for k, a in last.actions.items()} == dict(state.actions)
    assert (last.next_incident, last.version, last.denied) == (state.next_incident, state.version, state.denied)
    assert [f.key for f in journal.open_faults()] == [WORSE.key]
    assert respond(SMALL, state, [WORSE], ON, 111.0).incidents == ()


def test_what_ended_long_ago_is_not_restored_but_kept(journal):
    for step in steps((100.0, [BAD]), (110.0, [cleared(BAD)])):
        journal.record_step(step)
    state = journal.restore(1e6)
    assert not state.incidents
    assert not state.actions
    assert state.next_incident == 2
    assert [i.status for i in journal.incidents()] == [IncidentStatus.CLOSED]


def test_writing_again_changes_nothing(journal):
    made = steps(*HISTORY)
    for step in made:
        journal.record_step(step)
    before = (journal.incidents(), journal.actions(), journal.events())
    for step in made:
        journal.record_step(step)
    assert before == (journal.incidents(), journal.actions(), journal.events())


def test_an_older_revision_never_wins(journal):
    incident = steps(*HISTORY)[0].incidents[0]
    newer = told(incident, 120.0, "newer")
    journal.record(incidents=[newer])
    journal.record(incidents=[incident])
    assert [newer] == journal.incidents()


def test_readers_get_the_newest_first(journal):
    for step in steps(*HISTORY):
        journal.record_step(step)
    assert [i.id for i in journal.incidents()] == ["inc-2", "inc-1"]
    assert [i.id for i in journal.incidents(limit=1)] == ["inc-2"]
    assert [i.id for i in journal.incidents(only_open=True)] == ["inc-2"]
    assert [a.status for a in journal.actions(only_standing=True)] == [ActionStatus.REFUSED]
    assert [a.key for a in journal.actions(incident="inc-1")] == ["inc-1/deny-1"]


def test_ten_comes_after_nine(journal):
    every = [fault(f"p{p}/t0-{i}--p{p}/t1-{j}") for p in range(2) for i in range(2) for j in range(4)]
    (step,) = steps((100.0, every))
    journal.record_step(step)
    assert [i.id for i in journal.incidents()] == [f"inc-{k}" for k in range(16, 0, -1)]
    assert list(journal.restore(100.0).incidents) == [f"inc-{k}" for k in range(1, 17)]


def test_events_tell_the_story_in_order(journal):
    for step in steps(*HISTORY):
        journal.record_step(step)
    events = journal.events()
    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)
    news = [line for e in journal.events(subject="inc-1") for line in e["body"]["news"]]
    assert [line.split(":")[0] for line in news] == [
        "opened", "inc-1/deny-1 approved", "is cleared by evidence", "inc-1/deny-1 lifted", "closed",
    ]  # fmt: skip
    assert journal.events(after=events[-2]["seq"]) == events[-1:]


def test_events_can_only_be_added(journal, url):
    for step in steps(*HISTORY):
        journal.record_step(step)
    path = sa.make_url(url).database
    with sqlite3.connect(path) as db:
        for statement in ("DELETE FROM events", "UPDATE events SET t = 0"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
                db.execute(statement)
    db.close()


def test_own_events_are_kept_once(journal):
    event = {"key": "keeper-start-1", "t": 1.0, "type": "keeper", "subject": "keeper", "body": {"pid": 7}}
    journal.record(events=[event])
    journal.record(events=[event])
    assert [{"seq": 1, **event}] == journal.events()


def test_all_or_nothing(journal):
    incident = steps(*HISTORY)[0].incidents[0]
    broken = {"key": "k", "t": None, "type": "keeper", "subject": "keeper", "body": {}}
    with pytest.raises(OutsideError):
        journal.record(incidents=[incident], events=[broken])
    assert journal.incidents() == []


def test_confirmations_are_recorded(journal):
    step = steps(*HISTORY)[0]
    journal.record_step(step)
    journal.record_step(confirm(step.state, ["sender/n0"], ["sender/n0"], 0, 100.5))
    assert journal.actions()[0].status is ActionStatus.APPLIED


def test_heartbeat_is_replaced(journal):
    assert journal.note("heartbeat") is None
    journal.heartbeat(1.0, {"tick": 2})
    journal.heartbeat(2.0, {"tick": 4})
    assert journal.note("heartbeat") == {"t": 2.0, "tick": 4}


def test_sqlite_is_told_to_be_durable(journal):
    with journal._engine.connect() as db:
        assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_reader_beside_the_writer_sees_what_is_committed(journal, url):
    made = steps(*HISTORY)
    journal.record_step(made[0])
    with Journal.open(url, read_only=True) as reader:
        assert len(reader.incidents()) == 1
        journal.record_step(made[1])
        assert len(reader.incidents()) == 2
        with pytest.raises(OutsideError, match="readonly"):
            reader.record(incidents=made[2].incidents)


def test_a_plain_path_is_a_url(tmp_path):
    with Journal.open(str(tmp_path / "odd name ?#%20" / "j.db")) as journal:
        journal.heartbeat(1.0, {})
    with Journal.open(str(tmp_path / "odd name ?#%20" / "j.db"), read_only=True) as journal:
        assert journal.note("heartbeat") == {"t": 1.0}


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("://", "URL"),
        ("mysql://u@h/d", "neither SQLite nor PostgreSQL"),
        ("sqlite://", "not in a file"),
        ("sqlite:///:memory:", "not in a file"),
    ],
)
def test_bad_urls(bad, problem):
    with pytest.raises(InputError, match=problem):
        Journal.open(bad)


def test_reading_never_creates(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        Journal.open(str(tmp_path / "none.db"), read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_journal(tmp_path, read_only):
    path = tmp_path / "notes.txt"
    path.write_text("this is no database, and long enough to be read as one" * 20)
    with pytest.raises(InputError, match="is no journal"):
        Journal.open(str(path), read_only=read_only)


@pytest.mark.parametrize("read_only", [True, False])
def test_another_database_is_no_journal(tmp_path, read_only):
    db = sqlite3.connect(tmp_path / "other.db")
    db.execute("CREATE TABLE other (x)")
    db.close()
    with pytest.raises(InputError, match="is no journal"):
        Journal.open(str(tmp_path / "other.db"), read_only=read_only)


def test_a_journal_of_a_later_release(journal, url):
    journal.record(notes={"schema": 99})
    for read_only in (True, False):
        with pytest.raises(InputError, match="this release reads schema 1"):
            Journal.open(url, read_only=read_only)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u:secret@127.0.0.1:1/none",
        "postgresql+psycopg://127.0.0.1:1/none?user=u&password=secret",
        "mysql://u:secret@h/none?password=secret",
    ],
)
def test_passwords_are_never_shown(url):
    with pytest.raises((CapabilityError, OutsideError, InputError)) as caught:
        Journal.open(url)
    assert "secret" not in str(caught.value)


def test_a_folder_may_have_any_name(tmp_path):
    url = f"sqlite:///{tmp_path}/50% of #1/journal.db"
    with Journal.open(url) as journal:
        journal.heartbeat(1.0, {})
    with Journal.open(url, read_only=True) as journal:
        assert journal.note("heartbeat") == {"t": 1.0}
