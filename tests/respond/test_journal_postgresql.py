"""The same journal on PostgreSQL; needs psycopg and an empty database.

Give its URL as RAILKEEPER_TEST_POSTGRESQL, e.g. postgresql+psycopg://user@127.0.0.1/empty; its tables are dropped after.
"""

from __future__ import annotations

import os

import pytest
import sqlalchemy as sa
from response_shapes import SMALL, cleared, fault

from railkeeper.base.errors import OutsideError
from railkeeper.respond import journal_tables
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.journal import Journal
from railkeeper.respond.responder import respond

URL = os.environ.get("RAILKEEPER_TEST_POSTGRESQL", "")
pytestmark = pytest.mark.skipif(not URL, reason="RAILKEEPER_TEST_POSTGRESQL names no database")


@pytest.fixture
def empty():
    pytest.importorskip("psycopg")
    yield URL
    engine = sa.create_engine(URL)
    journal_tables.metadata.drop_all(engine)
    engine.dispose()


def test_a_story_over_two_lives(empty):
    bad, worse = fault("p0/t1-1"), fault("n3/nic0")
    for life in range(2):
        start = 100.0 + 50 * life
        with Journal.open(empty) as journal:
            state = journal.restore(start)
            for now, faults in ((start, [bad]), (start + 1, [bad, worse]), (start + 10, [cleared(bad), worse])):
                step = respond(SMALL, state, faults, Limits(dry_run=False), now)
                journal.record_step(step)
                journal.record_step(step)
                state = step.state
            journal.heartbeat(start, {"tick": 1})
    with Journal.open(empty, read_only=True) as journal:
        assert [i.id for i in journal.incidents()] == ["inc-3", "inc-2", "inc-1"]
        assert [f.key for f in journal.open_faults()] == [worse.key]
        assert journal.note("heartbeat") == {"t": 150.0, "tick": 1}
        keys = [e["key"] for e in journal.events()]
        assert len(keys) == len(set(keys))
        assert journal.restore(160.0).version == 4
        with pytest.raises(OutsideError, match="read-only"):
            journal.heartbeat(1.0, {})


@pytest.mark.parametrize("statement", ["DELETE FROM events", "UPDATE events SET t = 0"])
def test_events_can_only_be_added(empty, statement):
    with (
        Journal.open(empty) as journal,
        pytest.raises(OutsideError, match="only ever added"),
        journal._transaction() as db,
    ):
        db.exec_driver_sql(statement)
