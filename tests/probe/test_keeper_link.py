from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgpack
import pytest
import zmq

from railkeeper.base.errors import OutsideError
from railkeeper.probe.link import Curve, Hub, KeeperLink

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def endpoint(tmp_path: Path):
    return f"ipc://{tmp_path}/keeper"


def until(condition, *, patience_s=10.0):
    """Call `condition` until it gives something true, and return that."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if got := condition():
            return got
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def collect(hub, link, kinds, *, n):
    """Messages of `kinds` that reach the hub, until there are n."""
    got = []

    def step():
        link.poll()
        got.extend(m for m in hub.poll() if m.type in kinds)
        return len(got) >= n

    until(step)
    return got


def test_hello_then_messages_in_order_then_acknowledged(endpoint):
    hub, link = Hub(endpoint), KeeperLink(endpoint, "agent/n3")
    for i in range(5):
        link.send("tick", bytes([i]))
    got = collect(hub, link, {"hello", "tick"}, n=6)

    assert [m.type for m in got] == ["hello"] + ["tick"] * 5
    assert [m.body for m in got[1:]] == [bytes([i]) for i in range(5)]
    assert link.waiting == 5
    for m in got[1:]:
        hub.ack(m)
    until(lambda: link.poll() == [] and link.waiting == 0)
    assert hub.peers["agent/n3"].pid > 0
    link.close()
    hub.close()


def test_whole_denied_set_on_hello_and_on_change(endpoint):
    hub, link = Hub(endpoint), KeeperLink(endpoint, "sender/n1")
    hub.deny(1, [4, 5])
    seen = []

    def step():
        hub.poll()
        seen.extend(link.poll())
        return seen

    until(step)
    assert seen[-1] == {"type": "deny", "version": 1, "links": [4, 5]}
    assert hub.deny(2, []) == 1
    until(lambda: step() and seen[-1]["version"] == 2)
    link.close()
    hub.close()


def test_unacknowledged_ticks_survive_a_keeper_that_dies(endpoint):
    hub, link = Hub(endpoint), KeeperLink(endpoint, "agent/n0")
    link.send("tick", b"first")
    link.send("tick", b"second")
    first = collect(hub, link, {"tick"}, n=2)[0]
    hub.ack(first)
    until(lambda: link.poll() == [] and link.waiting == 1)
    hub.close()
    until(lambda: link.poll() == [] and not link.connected)
    link.send("tick", b"third")

    hub = Hub(endpoint)
    got = collect(hub, link, {"tick"}, n=2)
    assert [m.body for m in got] == [b"second", b"third"]
    link.close()
    hub.close()


def test_a_full_buffer_forgets_the_oldest_and_says_how_many(endpoint):
    link = KeeperLink(endpoint, "agent/n0", buffer=3)
    for i in range(5):
        link.send("tick", bytes([i]))
    assert link.take_forgotten() == 2
    assert link.take_forgotten() == 0
    link.send("tick", b"tells of 2", weight=3)
    assert link.take_forgotten() == 1
    for _ in range(3):
        link.send("tick", b"")
    assert link.take_forgotten() == 2 + 3  # ticks 3, 4 and the one that told of 2 others
    link.close()


def test_a_repeat_is_acknowledged_again_but_not_returned(endpoint):
    hub, link = Hub(endpoint), KeeperLink(endpoint, "agent/n0")
    link.send("tick", b"x")
    (m,) = collect(hub, link, {"tick"}, n=1)
    hub.ack(m)
    link._push_all()  # as if the acknowledgement had been lost
    until(lambda: link.poll() == [] and link.waiting == 0)
    time.sleep(0.05)
    assert hub.poll() == []
    link.close()
    hub.close()


def test_a_restarted_peer_is_a_new_session(endpoint):
    hub, link = Hub(endpoint), KeeperLink(endpoint, "agent/n0")
    link.send("tick", b"x")
    (m,) = collect(hub, link, {"tick"}, n=1)
    hub.ack(m)
    link.close()
    link = KeeperLink(endpoint, "agent/n0")
    link.send("tick", b"y")  # sequence number 1 again
    (m,) = collect(hub, link, {"tick"}, n=1)
    assert m.body == b"y"
    link.close()
    hub.close()


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x00" * 40, msgpack.packb([1]), msgpack.packb({"type": 3}), msgpack.packb({"type": "tick"}),
     msgpack.packb({"type": "tick", "name": "a", "seq": "x"}), msgpack.packb({"type": "hello", "name": "a", "pid": "x"}),
     msgpack.packb({"type": "tick", "name": "a", "session": None}), b"\x81" * 5000],
)  # fmt: skip
def test_garbage_is_counted_and_nothing_else(endpoint, data):
    hub, context = Hub(endpoint), zmq.Context()
    s = context.socket(zmq.DEALER)
    s.connect(endpoint)
    s.send(data)
    until(lambda: hub.poll() == [] and hub.malformed == 1)
    s.close(0)
    context.term()
    hub.close()


def test_encrypted_line_works_and_keeps_plain_peers_out():
    public, secret = zmq.curve_keypair()
    mine_public, mine_secret = zmq.curve_keypair()
    hub = Hub("tcp://127.0.0.1:*", curve=Curve(public, secret))
    link = KeeperLink(hub.endpoint, "agent/n0", curve=Curve(mine_public, mine_secret, public))
    plain = KeeperLink(hub.endpoint, "agent/evil")
    plain.send("tick", b"x")
    link.send("tick", b"y")
    got = collect(hub, link, {"tick"}, n=1)
    plain.poll(0.2)

    assert [m.name for m in got + hub.poll(0.1)] == ["agent/n0"]
    assert "secret" not in repr(Curve(public, secret))
    link.close()
    plain.close()
    hub.close()


def test_an_endpoint_that_is_taken_is_an_outside_error():
    hub = Hub("tcp://127.0.0.1:*")
    with pytest.raises(OutsideError):
        Hub(hub.endpoint)
    hub.close()
