"""SIGKILL at any moment, compaction included: every acknowledged record is there, exactly once."""

from __future__ import annotations

import os
import random
import signal
import time

from history_shapes import T0, TICK_S, tick_record

from railkeeper.app.closed import CLOSED
from railkeeper.app.history import History, query
from railkeeper.app.ticklog import LogRecord, read_log

ROUNDS = 20
TICK = int(T0 / TICK_S)


def keeper(folder, first: int, pipe: int) -> None:
    """Log ticks as fast as it goes, acknowledge each after its sync, compact every now and then."""
    with History(folder, segment_bytes=20_000) as history:
        for k in range(first, first + 10**9):
            history.append(tick_record(0, TICK + k, seq=k))
            history.append(tick_record(1, TICK + k, seq=k))
            history.append(LogRecord(T0, CLOSED, f"keeper/{history.run}", k, b"what tick k was made of"))
            history.sync()
            os.write(pipe, f"{k}\n".encode())
            if k % 40 == 0:
                history.upkeep(T0)


def life(folder, first: int, seconds: float) -> list[int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            keeper(folder, first, writer)
        finally:
            os._exit(1)
    os.close(writer)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        return [int(line) for line in pipe.read().rpartition(b"\n")[0].split()]


def test_nothing_acknowledged_is_lost_or_doubled(tmp_path):
    chance = random.Random(11)
    acknowledged: list[int] = []
    for _ in range(ROUNDS):
        # An agent whose last ticks were not acknowledged sends them again: so each life begins a little earlier.
        first = max(0, (acknowledged[-1] if acknowledged else 0) - 3)
        acknowledged += life(tmp_path, first, chance.uniform(0.0, 0.3))
        rows = query(tmp_path, "SELECT tick, count(*) AS n FROM reports GROUP BY tick")
        found = {r["tick"] - TICK: r["n"] for r in rows}
        assert set(acknowledged) <= set(found)
        assert set(found.values()) <= {1, 2}
        assert all(found[k] == 2 for k in acknowledged)
        rows = query(tmp_path, "SELECT name, seq, count(*) AS n FROM messages WHERE kind = 'closed' GROUP BY ALL")
        assert {r["n"] for r in rows} <= {1}
        assert set(acknowledged) <= {r["seq"] for r in rows}
        assert query(tmp_path, "SELECT count(*) AS n FROM paths")[0]["n"] == 3 * sum(found.values())
    assert len(acknowledged) > 50


def test_the_log_opens_again_and_goes_on(tmp_path):
    life(tmp_path, 0, 0.2)
    with History(tmp_path) as history:
        history.append(tick_record(5, TICK, seq=1))
        history.sync()
    assert [r.name for r in read_log(tmp_path / "log")][-1] == "agent/n5"
