"""The keeper on real packets: drills, keepers and agents that are killed, labs that lose their owner, live fabrics."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import MAIN, Command

from railkeeper.app import history
from railkeeper.app.compose import LAB_FOLDER
from railkeeper.base.errors import CapabilityError
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import read_spec
from railkeeper.lab import client, names, state
from railkeeper.lab.build import build
from railkeeper.lab.capability import check_capability
from railkeeper.lab.faults import Injector

pytestmark = pytest.mark.lab

SPEC = """
[fabric]
name = "tiny"
planes = 2
t0_per_plane = 2
t1_per_plane = 4
nics_per_t0 = 2
"""
NODES = 4
BLACKHOLE = {"id": "hole", "kind": "blackhole", "target": "p1/t1-1"}
_count = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def _capable():
    try:
        check_capability()
    except CapabilityError as e:
        pytest.skip(str(e))


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "tiny.toml"
    path.write_text(SPEC)
    return path


def unique_prefix():
    return f"k{os.getpid()}x{next(_count)}"


@pytest.fixture
def prefix():
    mine = unique_prefix()
    yield mine
    assert spaces_of(mine) == []
    assert not (LAB_FOLDER / mine).exists()


@pytest.fixture(scope="module")
def standing(spec):
    """The prefix of a lab that stands while keepers come and go."""
    mine = unique_prefix()
    with Command("lab", "up", "--fabric", spec, "--prefix", mine) as lab:
        lab.until(lambda c: "is up" in "".join(c.errors), "lab up")
        yield mine
        assert lab.stop() == 0
    assert spaces_of(mine) == []


@pytest.fixture
def lab(standing):
    with client.find(LAB_FOLDER / standing) as found:
        yield found
        found.ask("clear_all")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "keeper.toml"
    path.write_text(f'[keeper]\nstate = "{tmp_path}/state"\n')
    return path


def spaces_of(prefix):
    return [p.name for p in Path("/run/netns").glob(f"{prefix}-*")] if Path("/run/netns").is_dir() else []


def keeper_of(prefix, config, *more):
    return Command("run", "--world", "lab", "--prefix", prefix, "--config", config, "--json", *more)


def reported(tmp_path):
    """Return the ticks that the history has of each reporter."""
    ticks = {}
    for row in history.query(tmp_path / "state" / "history", "select reporter, tick from reports order by tick"):
        ticks.setdefault(row["reporter"], []).append(row["tick"])
    return ticks


def test_a_small_drill(spec, prefix, tmp_path):
    faults = tmp_path / "faults.jsonl"
    faults.write_text(
        '{"id":"a","kind":"blackhole","target":"p0/t1-1"}\n'
        '{"id":"b","kind":"down","target":"n1/nic0/p1","group":"g"}\n'
        '{"id":"c","kind":"loss","target":"p0/t0-0--p0/t1-2","rate":0.2,"group":"g"}\n'
    )
    done = subprocess.run(
        [
            sys.executable, "-c", MAIN, "lab", "drill", "--fabric", spec, "--faults", faults, "--prefix", prefix,
            "--quiet", "2", "--patience", "40", "--json", "--record", tmp_path / "drill.rkrec",
        ],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") == 1, done.stderr
    answer = json.loads(done.stdout)
    assert done.returncode == 0, (answer, done.stderr)
    assert answer["schema"] == 1
    assert [(r["id"], r["right"]) for r in answer["results"]] == [("a", True), ("b", True), ("c", True)]
    for r in answer["results"]:
        assert r["seconds_to_locate"] <= r["seconds_to_mitigate"]
        assert r["seconds_to_clear"] is not None
    assert answer["false_alarms"] == []
    assert answer["quiet_seconds"] >= 2
    replay = Command("run", "--world", "recording", "--recording", tmp_path / "drill.rkrec", "--json")
    assert replay.process.wait(60) == 0


def test_a_keeper_killed_in_an_incident_goes_on_after_it(standing, lab, config, tmp_path):
    with keeper_of(standing, config) as keeper:
        keeper.until_warm(NODES)
        lab.ask("inject", fault=BLACKHOLE)
        keeper.until(lambda c: c.events("action", status="applied"), "denial")
        keeper.stop(signal.SIGKILL)
        first = keeper
    time.sleep(1.2)
    with keeper_of(standing, config) as keeper:
        keeper.until_warm(NODES)
        seen = len(keeper.events("tick"))
        keeper.until(lambda c: len(c.events("tick")) > seen + 4, "ticks")
        assert {e["denied_links"] for e in keeper.events("tick")} == {first.events("tick")[-1]["denied_links"]} != {0}
        lab.ask("clear", fault="hole")
        keeper.until(lambda c: c.events("incident", status="closed"), "the end")
        keeper.until(lambda c: c.events("tick")[-1]["denied_links"] == 0, "lifting")
        assert keeper.stop() == 130
        assert keeper.errors == []

    both = [*first.events("fault"), *keeper.events("fault")]
    assert {(e["target"], e["kind"]) for e in both if e["network"]} == {("p1/t1-1", "blackhole")}
    assert {e["id"] for k in (first, keeper) for e in k.events("incident")} == {"inc-1"}
    assert keeper.events("action")[-1]["status"] == "lifted"
    assert_nothing_acknowledged_is_lost(tmp_path, [*first.events("tick"), *keeper.events("tick")])


def assert_nothing_acknowledged_is_lost(tmp_path, ticks):
    """What the agents did not get acknowledged they have said again, so no tick is missing from first to last."""
    known = reported(tmp_path)
    assert sorted(known) == list(range(NODES))
    for mine in known.values():
        assert mine == list(range(mine[0], mine[-1] + 1))
    judged = [e["tick"] for e in ticks if e["agents"] == NODES]
    assert all(set(judged) <= set(mine) for mine in known.values())


def test_an_agent_and_a_sender_that_are_killed_come_back_and_blame_nobody(standing, lab, config):
    def process(role, node):
        return next((pid for r, n, pid in lab.ask("processes") if (r, n) == (role, node)), 0)

    with keeper_of(standing, config) as keeper:
        keeper.until_warm(NODES)
        before = {role: process(role, 2) for role in ("agent", "sender")}
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        keeper.until(lambda c: c.events("finding", entity="n2"), "silence")
        gone = keeper.events("tick")[-1]["tick"]
        keeper.until(lambda c: [e for e in c.events("tick", silent=0) if e["tick"] > gone], "the agent's return")
        back = keeper.events("tick")[-1]["tick"]
        keeper.until(lambda c: c.events("tick")[-1]["tick"] > back + 6, "ticks")
        assert keeper.stop() == 130

    assert all(process(role, 2) not in {0, before[role]} for role in before)
    assert [e for e in keeper.events("fault") if e["network"]] == []
    assert keeper.events("tick")[-1]["silent"] == 0
    assert keeper.events("tick")[-1]["denied_links"] == 0


def test_a_second_keeper_or_lab_of_the_same_name_is_refused(standing, lab, spec, config, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(SPEC.replace("t1_per_plane = 4", "t1_per_plane = 2"))
    own = ("--fabric", spec, "--prefix", standing)
    faults = tmp_path / "faults.jsonl"
    faults.write_text(json.dumps(BLACKHOLE))
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(f'[keeper]\nstate = "{tmp_path}/elsewhere"\n')
    wrong = {
        ("lab", "up", *own): (2, "belongs to a lab that runs already"),
        ("lab", "drill", *own, "--faults", faults): (2, "belongs to a lab that runs already"),
        ("run", "--fabric", other, "--prefix", standing): (2, "is not the fabric of the lab"),
        ("run", *own, "--config", elsewhere): (3, "another keeper listens"),
        ("lab", "inject", '{"id":"x","kind":"loss"}', "--prefix", standing): (2, "target"),
        ("lab", "inject", "[1]", "--prefix", standing): (2, "a JSON object"),
        ("lab", "clear", "no-such", "--prefix", standing): (2, "'no-such' is not active; active: none"),
    }
    with keeper_of(standing, config) as keeper:
        keeper.until_warm(NODES)
        running = {args: Command(*args) for args in wrong}
        for args, (code, words) in wrong.items():
            assert running[args].process.wait(60) == code, (args, running[args].errors)
            running[args].stop()
            assert words in "".join(running[args].errors), args
        last = keeper.events("tick")[-1]["tick"]
        keeper.until(lambda c: [e for e in c.events("tick", agents=NODES, silent=0) if e["tick"] > last + 1], "ticks")

    with Command("lab", "status", "--prefix", standing, "--json") as status:
        assert status.process.wait(60) == 0
        status.stop()
        told = json.loads("".join(status.lines))
    assert (told["processes"], told["faults"], told["schema"]) == (2 * NODES, [], 1)


@pytest.mark.parametrize("also_its_lab", [False, True])
def test_a_lab_whose_owner_was_killed_is_cleaned_by_the_next(spec, prefix, config, also_its_lab):
    whole = ("--fabric", spec)
    with keeper_of(prefix, config, *whole) as keeper:
        keeper.until(lambda c: c.events("tick"), "ticks")
        assert spaces_of(prefix)
        if also_its_lab:
            os.kill(state.owner_of(prefix).pid, signal.SIGKILL)
        keeper.stop(signal.SIGKILL)
    with keeper_of(prefix, config, *whole) as keeper:
        keeper.until_warm(NODES)
        assert keeper.stop() == 130
        assert "Traceback" not in "".join(keeper.errors)


def test_agents_of_a_live_fabric_are_heard_and_nothing_is_done_to_it(spec, prefix, tmp_path):
    fabric = Fabric(read_spec(spec))
    config = tmp_path / "keeper.toml"
    config.write_text(f'[keeper]\nfabric = "{spec}"\nstate = "{tmp_path}/state"\nlisten = "ipc://{tmp_path}/k.sock"\n')
    with build(fabric, prefix) as built, Command("run", "--world", "live", "--config", config, "--json") as keeper:
        agents = [agent_of(spec, prefix, node, f"ipc://{tmp_path}/k.sock") for node in range(NODES)]
        try:
            keeper.until_warm(NODES, senders=False)
            Injector(built).inject(parse_fault(fabric, BLACKHOLE, where="test"))
            keeper.until(lambda c: c.events("action"), "a proposal")
            assert [a.stop(signal.SIGTERM) for a in agents] == [0] * NODES
        finally:
            for a in agents:
                a.stop(signal.SIGKILL)
        assert keeper.stop() == 130

    (fault,) = [e for e in keeper.events("fault", status="open") if e["network"]][:1]
    assert fault["target"] == "p1/t1-1"
    assert "blackhole" in {fault["kind"], *fault["also_kinds"]}  # without a switch's word it may as well be down
    assert {e["status"] for e in keeper.events("action")} == {"dry-run"}
    assert {e["denied_links"] for e in keeper.events("tick")} == {0}


def agent_of(spec, prefix, node, endpoint):
    ports = [f"--interface=nic0/p{p}=nic0p{p}" for p in range(2)]
    enter = ("ip", "netns", "exec", names.node_ns(prefix, node))
    return Command("agent", "--fabric", spec, "--node", f"n{node}", "--keeper", endpoint, *ports, before=enter)
