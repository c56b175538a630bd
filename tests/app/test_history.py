"""The history answers the same before, during and after compaction."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from history_shapes import T0, TICK_S, other_record, tick_record

from railkeeper.app import history as module
from railkeeper.app.history import History, compact, connect, query, retain
from railkeeper.app.ticklog import LogRecord, segments
from railkeeper.base.errors import InputError, OutsideError

TICK = int(T0 / TICK_S)
SUMS = "SELECT count(*) AS n, sum(sent) AS sent, sum(received) AS received FROM paths"


def fill(history: History, ticks: range, nodes: int = 2) -> None:
    for k in ticks:
        for node in range(nodes):
            history.append(tick_record(node, TICK + k, seq=k))
        history.sync()


def parts(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.parquet"))


def test_the_answer_does_not_depend_on_compaction(tmp_path):
    with History(tmp_path, segment_s=2.0) as history:
        fill(history, range(20))
        live = query(tmp_path, SUMS)
        assert live == [{"n": 120, "sent": 2400, "received": 2280}]
        done = history.upkeep(T0)
        assert done.compacted >= 4
        assert query(tmp_path, SUMS) == live
        fill(history, range(20, 21))
        assert query(tmp_path, SUMS)[0]["n"] == 126
    with History(tmp_path) as history:
        history.upkeep(T0)
        assert segments(tmp_path / "log") == []
        assert query(tmp_path, SUMS)[0]["n"] == 126


def test_any_engine_can_read_the_archive(tmp_path):
    with History(tmp_path) as history:
        fill(history, range(4))
    with History(tmp_path) as history:
        history.upkeep(T0)
    table = pq.read_table(tmp_path / "archive" / "paths")
    assert {"date", "hour", "tick", "reporter", "sent", "delay_hist"} <= set(table.column_names)
    assert table.num_rows == 24


def test_the_unknown_is_null(tmp_path):
    with History(tmp_path) as history:
        fill(history, range(1), nodes=1)
    row = query(tmp_path, "SELECT * FROM paths ORDER BY t1")[1]
    assert row["delay_min_ns"] is None
    assert row["train_bps"] is None
    assert row["sent"] == 20
    assert list(row["delay_hist"])[4] == 20
    report = query(tmp_path, "SELECT * FROM reports")[0]
    assert (report["port_state"], report["port_downs"], report["stray"]) == ([1, None], [0, None], 2)


def test_rows_go_to_the_hour_of_their_tick(tmp_path):
    with History(tmp_path) as history:
        fill(history, range(-3, 3), nodes=1)
    with History(tmp_path) as history:
        history.upkeep(T0)
    assert len({p.rpartition("/")[0] for p in parts(tmp_path) if "/paths/" in p}) == 2
    assert query(tmp_path, SUMS)[0]["n"] == 18


def test_a_tick_that_was_sent_again_counts_once(tmp_path):
    with History(tmp_path) as history:
        fill(history, range(4))
        fill(history, range(4))
        assert query(tmp_path, SUMS)[0]["n"] == 24
    with History(tmp_path) as history:
        history.upkeep(T0)
        fill(history, range(2, 6))
        assert query(tmp_path, SUMS)[0]["n"] == 36
    with History(tmp_path) as history:
        history.upkeep(T0)
    assert query(tmp_path, SUMS)[0]["n"] == 36
    assert query(tmp_path, "SELECT count(*) AS n FROM reports") == [{"n": 12}]


def test_messages_without_a_decoder_are_kept(tmp_path):
    with History(tmp_path) as history:
        history.append(other_record(T0 + 1.0, 1, b"abc"))
        history.append(LogRecord(T0 + 2.0, "tick", "agent/n9", 1, b"no report"))
    asked = "SELECT kind, name, seq, body FROM messages ORDER BY t"
    live = query(tmp_path, asked)
    with History(tmp_path) as history:
        history.upkeep(T0)
    assert live == query(tmp_path, asked)
    assert [(r["kind"], bytes(r["body"])) for r in live] == [("denied", b"abc"), ("tick", b"no report")]


def test_a_decoder_makes_a_table_of_its_own(tmp_path):
    def flows(records):
        return {"flows": pa.table({"t": [r.t for r in records], "bytes": [len(r.body) for r in records]})}

    decoders = {"flows": flows}
    with History(tmp_path, decoders=decoders) as history:
        history.append(LogRecord(T0 + 1.0, "flows", "sender/n0", 1, b"12345"))
        history.sync()
        assert query(tmp_path, "SELECT bytes FROM flows", decoders) == [{"bytes": 5}]
    with History(tmp_path, decoders=decoders) as history:
        history.upkeep(T0)
    assert query(tmp_path, "SELECT bytes FROM flows") == [{"bytes": 5}]


def test_an_empty_history_has_empty_tables(tmp_path):
    with History(tmp_path):
        pass
    for table in ("paths", "reports", "messages"):
        assert query(tmp_path, f"SELECT count(*) AS n FROM {table}") == [{"n": 0}]


def test_a_wrong_question_names_the_tables(tmp_path):
    with History(tmp_path):
        pass
    with pytest.raises(InputError, match="tables: events, messages, paths, reports"):
        query(tmp_path, "SELECT * FROM nowhere")


def test_a_history_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        connect(tmp_path / "none")


@pytest.mark.parametrize("fails_at", range(1, 7))
def test_compaction_that_dies_half_way_is_done_again(tmp_path, monkeypatch, fails_at):
    with History(tmp_path) as history:
        fill(history, range(-2, 2))
        history.append(other_record(T0 + 1.0, 1))
    before = query(tmp_path, SUMS)
    real, count = module._write_part, [0]

    def dies(path, table):
        count[0] += 1
        if count[0] == fails_at:
            raise RuntimeError("dead")
        real(path, table)

    monkeypatch.setattr(module, "_write_part", dies)
    (segment,) = segments(tmp_path / "log")
    try:
        compact(tmp_path, segment, {})
    except RuntimeError:
        assert segment.exists()
    monkeypatch.undo()
    assert query(tmp_path, SUMS) == before
    with History(tmp_path) as history:
        history.upkeep(T0)
    assert query(tmp_path, SUMS) == before
    assert query(tmp_path, "SELECT count(*) AS n FROM messages") == [{"n": 1}]


def test_a_segment_that_can_not_be_compacted_keeps_neither_others_nor_old_hours(tmp_path, monkeypatch):
    with History(tmp_path, keep_s=3600.0) as history:
        fill(history, range(-2, 2), nodes=1)
    with History(tmp_path, keep_s=3600.0) as history:
        history.upkeep(T0)
    for tick in (2, 3):
        with History(tmp_path) as history:
            fill(history, range(tick, tick + 1), nodes=1)
    bad = segments(tmp_path / "log")[0]
    real = module.compact
    monkeypatch.setattr(module, "compact", lambda f, path, d: 1 / 0 if path == bad else real(f, path, d))
    with History(tmp_path, keep_s=3600.0) as history, pytest.raises(ZeroDivisionError):
        history.upkeep(T0 + 3600)
    monkeypatch.undo()

    assert segments(tmp_path / "log") == [bad]
    assert query(tmp_path, "SELECT tick FROM reports ORDER BY tick") == [{"tick": TICK + k} for k in range(4)]


def test_a_disk_that_refuses_is_told_by_sync_alone(tmp_path, monkeypatch):
    """Whoever takes in messages has no answer to a full disk, also where a segment has become old."""
    with History(tmp_path, segment_s=1.0) as history:
        fill(history, range(1), nodes=1)
        history.append(tick_record(0, TICK + 1, seq=1))
        monkeypatch.setattr(history._log, "_write", lambda _data: (_ for _ in ()).throw(OSError(28, "full")))
        history.append(tick_record(0, TICK + 100, seq=2))
        with pytest.raises(OutsideError, match="full"):
            history.sync()
        monkeypatch.undo()
        assert history.sync() == 2
    assert query(tmp_path, "SELECT count(*) AS n FROM reports") == [{"n": 3}]


def test_a_damaged_segment_is_set_aside_and_the_rest_of_it_kept(tmp_path):
    with History(tmp_path) as history:
        fill(history, range(4))
    (segment,) = segments(tmp_path / "log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    with History(tmp_path) as history:
        assert history.upkeep(T0).damaged_frames == 1
    assert segment.with_suffix(".damaged").exists()
    assert query(tmp_path, "SELECT count(*) AS n FROM reports") == [{"n": 7}]


def test_old_hours_are_removed_and_young_ones_stay(tmp_path):
    with History(tmp_path, keep_s=3600.0) as history:
        fill(history, range(-2, 2), nodes=1)
    with History(tmp_path, keep_s=3600.0) as history:
        assert history.upkeep(T0 + 3599).removed == ()
        assert len(history.upkeep(T0 + 3600).removed) == 1
    assert query(tmp_path, SUMS)[0]["n"] == 6


def test_too_much_is_removed_oldest_first(tmp_path):
    with History(tmp_path) as history:
        for hour in range(4):
            fill(history, range(hour * 7200, hour * 7200 + 2), nodes=1)
    with History(tmp_path) as history:
        history.upkeep(T0)
    sizes = sum(p.stat().st_size for p in tmp_path.rglob("*.parquet"))
    removed = retain(tmp_path, 0.0, sizes // 2 + 1)
    assert len(removed) == 2
    assert removed == sorted(removed)
    assert query(tmp_path, "SELECT min(tick) AS first FROM paths") == [{"first": TICK + 2 * 7200}]


def test_numbers_are_never_used_again(tmp_path):
    for _ in range(3):
        with History(tmp_path) as history:
            fill(history, range(2), nodes=1)
        with History(tmp_path) as history:
            history.upkeep(T0)
    with History(tmp_path) as history:
        history.append(other_record(T0 + 9.0, 1))
    with History(tmp_path) as history:
        history.upkeep(T0)
    assert query(tmp_path, "SELECT count(*) AS n FROM messages") == [{"n": 1}]
    assert query(tmp_path, SUMS)[0]["n"] == 6


def test_one_keeper_at_a_time(tmp_path):
    with History(tmp_path), pytest.raises(OutsideError, match="in use by another keeper"):
        History(tmp_path)
