"""SIGKILL at any moment: what the journal has acknowledged is there, and it opens again."""

from __future__ import annotations

import os
import random
import signal
import time

from response_shapes import SMALL, cleared, fault

from railkeeper.respond.guardrails import Limits
from railkeeper.respond.journal import Journal
from railkeeper.respond.responder import respond

ON = Limits(dry_run=False, hold_s=0, cooldown_s=0, max_per_minute=10**6)
ROUNDS = 25


def keeper(url: str, pipe: int) -> None:
    """Go on from the journal; open, deny, lift and close incidents for ever; acknowledge each step's revisions."""
    with Journal.open(url) as journal:
        now = 1000.0 * (1 + (journal.note("life") or 0))
        journal.record(notes={"life": int(now // 1000)})
        state = journal.restore(now)
        for k in range(10**9):
            bad = fault(f"p{k % 2}/t1-{k % 3}")
            for faults in ([bad], [cleared(bad)]):
                now += 0.01
                step = respond(SMALL, state, faults, ON, now)
                journal.record_step(step)
                state = step.state
                said = [f"{i.id}@{i.revision}" for i in step.incidents] + [
                    f"{a.key}@{a.revision}" for a in step.actions
                ]
                os.write(pipe, "".join(f"{key}\n" for key in said).encode())


def in_child(work, *args) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            work(*args, writer)
        finally:
            os._exit(1)
    os.close(writer)
    return pid, reader


def kill_after(pid: int, reader: int, seconds: float) -> list[str]:
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        whole = pipe.read().rpartition(b"\n")[0]
    return whole.decode().split()


def test_nothing_acknowledged_is_lost(tmp_path):
    url = f"sqlite:///{tmp_path}/journal.db"
    chance = random.Random(7)
    acknowledged: list[str] = []
    for _ in range(ROUNDS):
        pid, reader = in_child(keeper, url)
        acknowledged += kill_after(pid, reader, chance.uniform(0.0, 0.25))
        with Journal.open(url) as journal:
            holds(journal, acknowledged)
    assert len(acknowledged) > 100


def holds(journal: Journal, acknowledged: list[str]) -> None:
    keys = {e["key"] for e in journal.events()}
    assert set(acknowledged) <= keys
    incidents = {i.id: i for i in journal.incidents()}
    for key in acknowledged:
        name, _, revision = key.rpartition("@")
        if name in incidents:
            assert incidents[name].revision >= int(revision)
    # Whatever was being written when it died is there as a whole or not at all.
    actions = {a.key: a for a in journal.actions()}
    assert {a.incident for a in actions.values()} <= set(incidents)
    for incident in incidents.values():
        assert sum(a.incident == incident.id for a in actions.values()) == incident.denials
    state = journal.restore(0.0)
    assert len(incidents) == state.next_incident - 1


def test_a_reader_can_open_what_a_killed_writer_left(tmp_path):
    url = f"sqlite:///{tmp_path}/journal.db"
    with Journal.open(url):
        pass
    pid, reader = in_child(keeper, url)
    acknowledged = kill_after(pid, reader, 0.3)
    with Journal.open(url, read_only=True) as journal:
        holds(journal, acknowledged)
