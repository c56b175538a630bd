"""`railkeeper run` and the commands that read what it wrote, as a user types them: exit codes, JSON, words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from recordings import TICKS, record, recorded

from railkeeper.app.ticklog import MAGIC, frame, read_segment
from railkeeper.cli.errors import run
from railkeeper.cli.main import app
from railkeeper.cli.output import _plain, clock, sentence

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = str(EXAMPLES / "small.toml")
MAIN = "from railkeeper.cli.main import main; main()"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def recording(here):
    path = here / "r.rkrec"
    path.write_bytes(recorded())
    return path


def call(capsys, *args):
    """Return exit code, standard output and standard error of a command."""
    code = run(app, [str(a) for a in args])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def document(text):
    assert text.count("\n") == 1
    return json.loads(text)


# -- replays ------------------------------------------------------------------------------------------
def test_a_replay_prints_json_lines_and_nothing_else(recording, capsys):
    code, out, err = call(capsys, "run", "--world", "recording", "--recording", recording, "--json")
    events = lines(out)

    assert code == 0
    assert {e["schema"] for e in events} == {1}
    assert [e["type"] for e in events].count("tick") == TICKS
    assert {"tick", "fault", "impact", "incident", "action"} <= {e["type"] for e in events}
    assert err == f"railkeeper: {TICKS} ticks replayed: all answers as recorded, bit for bit\n"


def test_a_replay_without_screen_is_told_in_lines(recording, capsys):
    code, out, err = call(capsys, "run", "--world", "recording", "--recording", recording)

    assert code == 0
    assert "inc-1/deny-1 applied (4/4 senders)" in out
    assert "4 agents, " in out
    assert "▶" not in err


def test_a_replay_ends_after_seconds_of_the_recording(recording, capsys):
    code, out, err = call(capsys, "run", "--world", "recording", "--recording", recording, "--json", "--for", 1.5)

    assert code == 0
    assert sum(json.loads(line)["type"] == "tick" for line in out.splitlines()) == 3
    assert "3 ticks replayed" in err


def test_other_answers_are_exit_1(recording, capsys):
    records = list(read_segment(recording))
    at = [i for i, r in enumerate(records) if r.kind == "digest"][7]
    records[at] = records[at]._replace(body=bytes(32))
    recording.write_bytes(MAGIC + b"".join(map(frame, records)))
    code, out, err = call(capsys, "run", "--world", "recording", "--recording", recording, "--json")

    assert code == 1
    assert lines(out)
    assert "1 answers differ from the recorded ones" in err


def test_damage_is_exit_2(recording, capsys):
    data = bytearray(recorded())
    data[len(data) // 2] ^= 0x40
    recording.write_bytes(data)
    code, out, err = call(capsys, "run", "--world", "recording", "--recording", recording, "--json")

    assert code == 2
    assert lines(out)
    assert "damaged frame" in err
    assert str(recording) in err


def test_a_torn_tail_is_no_damage(recording, capsys):
    recording.write_bytes(recorded()[:-7])
    code, _, err = call(capsys, "run", "--world", "recording", "--recording", recording, "--json")

    assert code == 0
    assert "all answers as recorded" in err


def test_the_reader_may_leave(recording):
    command = [sys.executable, "-c", MAIN, "run", "--world", "recording", "--recording", str(recording), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()

    assert "Traceback" not in err
    assert process.returncode == 0


# -- what is asked wrongly ----------------------------------------------------------------------------
AGENT = ("agent", "--fabric", SMALL, "--node", "n0")
WRONG = [
    (("run", "--world", "recording"), "--recording: is missing"),
    (("run", "--world", "recording", "--recording", "no.rkrec"), "no.rkrec: can't be read"),
    (("run", "--world", "recording", "--recording", SMALL), "is not a recording"),
    (("run", "--world", "recording", "--recording", "x", "--record", "y"), "--record: makes no sense"),
    (("run", "--world", "live", "--fabric", SMALL, "--recording", "x"), "--recording: makes no sense"),
    (("run", "--world", "twin"), "not part of this release"),
    (("run", "--world", "mars"), "mars"),
    (("run", "--world", "live"), "--fabric: is missing"),
    (("run", "--world", "live", "--fabric", "no.toml"), "no.toml: can't be read"),
    (("run", "--world", "live", "--fabric", SMALL, "--for", "-1"), "--for"),
    (("run", "--world", "live", "--fabric", SMALL, "--config", "no.toml"), "no.toml: can't be read"),
    (("run", "--world", "live", "--fabric", SMALL, "--record", "/no/such/folder/r"), "folder that exists"),
    (("run", "--world", "live", "--fabric", SMALL, "--record", SMALL), "is there already"),
    (("run", "--world", "lab", "--prefix", "nosuchlab"), "no lab runs"),
    (("run", "--world", "lab", "--prefix", "../../tmp", "--fabric", SMALL), "lab prefix"),
    (("lab", "status", "--prefix", "nosuchlab"), "no lab 'nosuchlab' runs"),
    (("lab", "status", "--prefix", "a/b"), "lab prefix"),
    (("lab", "clear", "--prefix", "nosuchlab"), "no lab 'nosuchlab' runs"),
    (("lab", "inject", "{}", "--prefix", "nosuchlab"), "no lab 'nosuchlab' runs"),
    (("lab", "up", "--fabric", "no.toml"), "no.toml: can't be read"),
    (("lab", "up", "--fabric", SMALL, "--prefix", "x y"), "lab prefix"),
    (("lab", "drill", "--fabric", SMALL, "--faults", "no.jsonl"), "no.jsonl: can't be read"),
    (("lab", "drill", "--fabric", SMALL, "--faults", SMALL), "is not JSON"),
    (("lab", "drill", "--fabric", SMALL, "--faults", os.devnull), "holds no fault"),
    (("status",), "is not there"),
    (("incidents", "--state", "nowhere"), "is not there"),
    (("actions", "--config", "no.toml"), "no.toml: can't be read"),
    (("query", "select 1"), "is not there"),
    (("agent", "--fabric", SMALL, "--node", "x9", "--keeper", "tcp://k:1", "--interface", "nic0/p0=lo"), "--node"),
    (("agent", "--fabric", SMALL, "--node", "p0/t1-0", "--keeper", "tcp://k:1", "--interface", "a=b"), "is no node"),
    (
        ("agent", "--fabric", SMALL, "--node", "n0", "--keeper", "tcp://k:1", "--interface", "nic0/p0=lo"),
        "nic0/p1",
    ),
    (("agent", "--fabric", SMALL, "--node", "n0", "--keeper", "tcp://k:1", "--interface", "p0=lo"), "--interface: "),
    (
        (
            *AGENT,
            "--keeper",
            "tcp://k:1",
            "--interface",
            "nic0/p0=lo",
            "--interface",
            "nic0/p0=x",
            "--interface",
            "nic0/p1=lo",
        ),
        "nic0/p0",
    ),
    (
        (*AGENT, "--keeper", "keeper:7400", "--interface", "nic0/p0=lo", "--interface", "nic0/p1=lo"),
        "tcp://ADDRESS:PORT",
    ),
]


@pytest.mark.parametrize(("args", "words"), WRONG, ids=[" ".join(w[0])[:60].replace(str(EXAMPLES), "") for w in WRONG])
def test_what_is_asked_wrongly_is_exit_2_with_a_word(here, capsys, args, words):
    code, out, err = call(capsys, *args)

    assert code == 2
    assert not out
    assert words in " ".join(err.split())
    assert "bug" not in err
    assert list(here.iterdir()) == []


# -- a keeper of a live fabric that nobody has joined yet ------------------------------------------------
CONFIG = """
[keeper]
fabric = "f.toml"
state = "state"
listen = "ipc://sock"
tick_s = 0.1
"""


@pytest.fixture
def config(here):
    (here / "f.toml").write_bytes(Path(SMALL).read_bytes())
    path = here / "keeper.toml"
    path.write_text(CONFIG)
    return path


def test_a_live_keeper_says_no_data_and_leaves_a_journal(config, capsys):
    code, out, err = call(capsys, "run", "--world", "live", "--config", config, "--for", 1, "--json", "--record", "r")
    events = lines(out)

    assert code == 0
    assert err == "railkeeper: listening on ipc://sock\n"
    assert {e["type"] for e in events} == {"tick", "finding"}
    assert {e["verdict"] for e in events if e["type"] == "finding"} == {"no data"}
    code, out, _ = call(capsys, "status", "--config", config, "--json")
    status = document(out)
    assert (code, status["schema"]) == (0, 1)
    assert status["keeper"]["last"]["dry_run"] is True
    assert status["keeper"]["last"]["world"] == "live"
    for command in ("incidents", "actions"):
        code, out, _ = call(capsys, command, "--config", config, "--json")
        assert (code, document(out)) == (0, {"schema": 1, command: []})
        assert call(capsys, command, "--config", config)[0] == 0
    code, _, err = call(capsys, "run", "--world", "recording", "--recording", "r", "--json")
    assert (code, "bit for bit" in err) == (0, True)


def test_agents_that_nobody_has_set_up_are_no_fault_where_there_are_sources(config, here, capsys):
    (here / "root" / "sys").mkdir(parents=True)
    config.write_text(CONFIG + '[[source]]\nkind = "host"\nname = "here"\nroot = "root"\n')
    code, out, _ = call(capsys, "run", "--world", "live", "--config", config, "--for", 4, "--json")
    told = [e for e in lines(out) if e["type"] != "tick" and "detector" not in e]

    assert (code, told) == (0, [])
    assert lines(out)[0]["silent"] > 0


@pytest.mark.parametrize(
    ("options", "dry"),
    [((), True), (("--act",), False), (("--dry-run",), True), (("--config", "acts.toml", "--dry-run"), True)],
)
def test_dry_run_is_on_in_live_unless_told_otherwise(config, capsys, options, dry):
    Path("acts.toml").write_text(CONFIG + "[limits]\ndry_run = false\n")
    where = () if "--config" in options else ("--config", config)
    assert call(capsys, "run", "--world", "live", *where, *options, "--for", "0.5", "--json")[0] == 0

    _, out, _ = call(capsys, "status", "--config", config, "--json")
    assert document(out)["keeper"]["last"]["dry_run"] is dry


def start(*args, **more):
    command = [sys.executable, "-c", MAIN, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_a_second_keeper_is_told_of_the_first(config, capsys):
    with start("run", "--world", "live", "--config", config, "--for", 60, "--json") as first:
        assert first.stdout.readline()
        code, out, err = call(capsys, "run", "--world", "live", "--config", config, "--for", 1)
        assert (code, out) == (3, "")
        assert "another keeper listens on ipc://sock" in err
        Path("other.toml").write_text(CONFIG.replace('"state"', '"elsewhere"'))
        assert "another keeper listens" in call(capsys, "run", "--world", "live", "--config", "other.toml")[2]
        Path("same.toml").write_text(CONFIG.replace("ipc://sock", "ipc://sock2"))
        code, _, err = call(capsys, "run", "--world", "live", "--config", "same.toml")
        assert (code, f"process {first.pid}" in err) == (3, True)
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=20)

    assert first.returncode == 130
    assert "Traceback" not in err
    assert call(capsys, "run", "--world", "live", "--config", config, "--for", "0.3", "--json")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_keeper_that_is_stopped_ends_in_order(config, number):
    with start("run", "--world", "live", "--config", config, "--json", "--record", "r") as keeper:
        for _ in range(30):
            keeper.stdout.readline()
        keeper.send_signal(number)
        out, err = keeper.communicate(timeout=20)

    assert keeper.returncode == 130
    assert lines(out.rpartition("\n")[0]) or not out
    assert err == "railkeeper: listening on ipc://sock\n"
    replayed = start("run", "--world", "recording", "--recording", "r", "--json")
    assert "all answers as recorded" in replayed.communicate(timeout=20)[1]


def test_a_journal_of_another_fabric_is_not_gone_on_from(config, capsys):
    from railkeeper.respond.journal import Journal  # noqa: PLC0415 (the state of an earlier run, made by hand)

    assert call(capsys, "run", "--world", "live", "--config", config, "--for", "0.3", "--json")[0] == 0
    Path("f.toml").write_bytes((EXAMPLES / "rails.toml").read_bytes())
    assert call(capsys, "run", "--world", "live", "--config", config, "--for", "0.3", "--json")[0] == 0
    keeper, _ = record(Path("r"))
    with Journal.open("sqlite:///state/journal.db") as journal:
        journal.record(incidents=keeper.state.response.incidents.values())
    Path("f.toml").write_bytes(Path(SMALL).read_bytes())
    code, out, err = call(capsys, "run", "--world", "live", "--config", config, "--for", "0.3", "--json")

    assert (code, out) == (2, "")
    assert "fabric: is another one than that of the open incidents" in err


# -- queries ------------------------------------------------------------------------------------------
@pytest.fixture
def history(here):
    from history_shapes import T0, tick_record  # noqa: PLC0415

    from railkeeper.app.history import History  # noqa: PLC0415

    with History(here / "state" / "history") as h:
        for n in range(3):
            h.append(tick_record(n, T0 * 2 + n))
        h.sync()
    return here / "state"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select count(*) as n from reports", [{"n": 3}]),
        ("select train_bps, null as x, 'nan'::double as y, 'inf'::double as z from paths limit 1",
         [{"train_bps": None, "x": None, "y": None, "z": None}]),
        ("select port_state, {'a': 1.5, 'b': ['x']} as s from reports limit 1",
         [{"port_state": [1, None], "s": {"a": 1.5, "b": ["x"]}}]),
        ("select '\\x01\\xFF'::blob as b, date '2026-05-06' as d, 1.5::decimal(4,2) as e", [{"b": "01ff", "d": "2026-05-06", "e": 1.5}]),
        ("select 1 as a where false", []),
    ],
    ids=range(5),
)  # fmt: skip
def test_a_query_answers_in_plain_json(history, capsys, sql, rows):
    code, out, err = call(capsys, "query", sql, "--state", history, "--json")

    assert (code, err) == (0, "")
    assert document(out) == {"schema": 1, "rows": rows}
    assert "NaN" not in out
    assert call(capsys, "query", sql, "--state", history)[0] == 0


@pytest.mark.parametrize("sql", ["selec", "select * from nowhere", "", ";", "select 1/", "/* nothing */"])
def test_a_bad_query_is_exit_2(history, capsys, sql):
    code, out, err = call(capsys, "query", sql, "--state", history, "--json")

    assert (code, out) == (2, "")
    assert "query: " in err


# -- small things -------------------------------------------------------------------------------------
def test_lines_for_people_of_a_slow_keeper(capsys):
    """A tick may be longer than the time between two summaries."""
    from recordings import SETUP  # noqa: PLC0415
    from synthetic_world import SynthWorld  # noqa: PLC0415

    from railkeeper.app.keeper import Keeper  # noqa: PLC0415

    for tick_s, summaries in ((60.0, 3), (0.5, 1)):
        setup = type(SETUP)(SETUP.fabric, "lab", tick_s=tick_s)
        show, keeper = _plain(setup), Keeper(SETUP, SynthWorld(SETUP.fabric, ticks=3))
        keeper.run(lambda state, outcome, show=show: show(state, outcome, ("note",)) or True)
        out = capsys.readouterr().out
        assert out.count("agents") == summaries
        assert out.count("▶ note") == 1


def test_sentences():
    action = {
        "type": "action", "t": 3600.0, "key": "inc-1/deny-1", "status": "applied", "refusals": [], "note": "", "reason": "loss",
        "verification": {"outcome": "helped", "reason": "less"}, "confirmed": 1, "asked": 2,
    }  # fmt: skip
    assert sentence(action) == "01:00:00.0 inc-1/deny-1 applied (1/2 senders): helped: less"
    assert sentence(action | {"status": "lifted", "note": "gone"}).endswith("lifted (1/2 senders): gone")
    assert sentence({"type": "tick", "t": 0.0}) == ""
    assert clock(86399.95) == "23:59:60.0" or clock(86399.9) == "23:59:59.9"
