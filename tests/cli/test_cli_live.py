"""A live keeper and agents that reach it over TCP: heard, acknowledged once durable, and gone on with after a kill."""

from __future__ import annotations

import json
import signal
import socket
import time
from dataclasses import replace

import pytest
import zmq
from commands import Command
from synthetic_world import SHAPE, TICK_S, SynthWorld, make_fabric

from railkeeper.app import history
from railkeeper.probe.link import KeeperLink
from railkeeper.probe.pathstats import encode_report

FABRIC = make_fabric()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def endpoint():
    return f"tcp://127.0.0.1:{free_port()}"


@pytest.fixture
def config(tmp_path, endpoint):
    shape = "\n".join(f"{k} = {v}" for k, v in SHAPE.items())
    (tmp_path / "f.toml").write_text(f"[fabric]\n{shape}\n")
    path = tmp_path / "keeper.toml"
    path.write_text(f'[keeper]\nfabric = "f.toml"\nstate = "{tmp_path}/state"\nlisten = "{endpoint}"\n')
    return path


class Agents:
    """Agents of a healthy fabric, in this process: each says each tick once it is over."""

    def __init__(self, endpoint, nodes):
        self.links = {n: KeeperLink(endpoint, f"agent/n{n}") for n in nodes}
        self.world, self.next = SynthWorld(FABRIC, ticks=10**9), int(time.time() / TICK_S) + 1
        self.said = {n: [] for n in nodes}

    def go(self, condition, patience_s=40.0):
        """Report, until a condition holds."""
        deadline = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline
            if time.time() > (self.next + 1) * TICK_S + 0.2:
                self._say(self.next)
                self.next += 1
            for link in self.links.values():
                link.poll()
            time.sleep(0.02)

    def _say(self, tick):
        for report in self.world.next_tick().reports:
            if report.node in self.links:
                self.links[report.node].send("tick", encode_report(replace(report, tick=tick)))
                self.said[report.node].append(tick)

    def close(self):
        for link in self.links.values():
            link.close()


@pytest.fixture
def agents(endpoint):
    made = Agents(endpoint, range(FABRIC.n_nodes))
    yield made
    made.close()


def all_heard(keeper, n=FABRIC.n_nodes):
    return keeper.events("tick", agents=n)


def test_what_agents_were_acknowledged_is_in_the_history_whatever_happens_to_the_keeper(config, agents, tmp_path):
    acknowledged = set()
    for _ in range(3):
        with Command("run", "--world", "live", "--config", config, "--json") as keeper:
            agents.go(lambda k=keeper: len(all_heard(k)) > 3)
            keeper.stop(signal.SIGKILL)
        waiting = {n: link.waiting for n, link in agents.links.items()}
        for node, ticks in agents.said.items():
            acknowledged |= {(node, t) for t in ticks[: len(ticks) - waiting[node]]}
        rows = history.query(tmp_path / "state" / "history", "select reporter, tick from reports")
        found = [(r["reporter"], r["tick"]) for r in rows]
        assert len(found) == len(set(found))
        assert acknowledged <= set(found)
    assert acknowledged

    with Command("run", "--world", "live", "--config", config, "--json") as keeper:
        agents.go(lambda: all_heard(keeper) and not any(link.waiting for link in agents.links.values()))
        assert keeper.stop() == 130
        assert not [e for e in keeper.events("fault") if e["network"]]
    rows = history.query(tmp_path / "state" / "history", "select reporter, tick from reports")
    assert {(r["reporter"], r["tick"]) for r in rows} == {(n, t) for n, ticks in agents.said.items() for t in ticks}


def test_strangers_on_the_line_are_named_once_and_change_nothing(config, agents, endpoint):
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.set(zmq.LINGER, 0)
    stranger.connect(endpoint)
    other = KeeperLink(endpoint, "agent/n7")
    try:
        with Command("run", "--world", "live", "--config", config, "--json") as keeper:

            def disturbed():
                stranger.send(b"\xc1 no message")
                stranger.send_multipart([b"a", b"b", b"c"])
                other.send("tick", b"no report")
                other.poll()
                return len(all_heard(keeper)) > 4

            agents.go(disturbed)
            assert keeper.stop() == 130
    finally:
        other.close()
        stranger.close()
        context.term()

    assert len(keeper.errors) == 2, keeper.errors
    assert "a message can't be used: agent/n7: is not a tick report" in keeper.errors[1]
    assert not keeper.events("fault", network=True)
    assert [json.loads(line) for line in keeper.lines]


def test_a_port_that_is_taken_is_said(config, endpoint):
    with socket.socket() as s:
        s.bind(("127.0.0.1", int(endpoint.rpartition(":")[2])))
        s.listen()
        with Command("run", "--world", "live", "--config", config, "--json") as keeper:
            assert keeper.process.wait(30) == 3
            keeper.stop()

    assert keeper.lines == []
    assert "can't be opened" in "".join(keeper.errors)
