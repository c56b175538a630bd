"""A switch's Redis and a gNMI target in the real runner: both come back by themselves after they have died."""

from __future__ import annotations

import time

import pytest
from gnmi_target import GnmiTarget
from redis_server import RedisServer
from sonic_content import SwitchContent

from railkeeper.adapters.gnmi import GnmiSettings, GnmiStream, GnmiSubscription
from railkeeper.adapters.hostread import HostTarget
from railkeeper.adapters.runner import Runner
from railkeeper.adapters.sonic_redis import SonicSettings, SonicTarget
from railkeeper.adapters.sonic_redis_link import Address


def until(wanted, limit_s: float = 30.0):
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        if found := wanted():
            return found
        time.sleep(0.05)
    pytest.fail("it did not come")
    return None


def test_dead_ones_come_back_and_live_ones_do_not_notice(tmp_path):
    redis, gnmi = RedisServer(tmp_path), GnmiTarget()
    try:
        SwitchContent(redis, 4).write()
        gnmi.set({"/a[name=x]/b": 1})
        switch = SonicTarget(SonicSettings("sonic", "t0-7", Address(host="127.0.0.1", port=redis.port), interval_s=0.2))
        wanted = (GnmiSubscription("/a", sample_s=0.2),)
        stream = GnmiStream(GnmiSettings("gnmi", "t1-3", gnmi.address, wanted, tls=False))
        host = HostTarget(host="here", interval_s=0.2)
        with Runner([switch, host], [stream]) as runner:
            states = lambda: {s.source: s.state for s in runner.statuses()}  # noqa: E731
            heard = lambda source: any(r.source == source for r in runner.drain())  # noqa: E731
            until(lambda: set(states().values()) == {"ok"})
            redis.kill()
            gnmi.kill()
            until(lambda: states() == {"sonic": "failing", "gnmi": "failing", "host": "ok"})
            told = {s.source: s.error for s in runner.statuses()}
            assert str(redis.port) in told["sonic"]
            assert gnmi.address in told["gnmi"]
            runner.drain()
            redis.start()
            SwitchContent(redis, 4, epoch=2).write()
            gnmi.start()
            gnmi.set({"/a[name=x]/b": 2})
            until(lambda: set(states().values()) == {"ok"})
            until(lambda: heard("sonic"))
            until(lambda: heard("gnmi"))
    finally:
        redis.kill()
        gnmi.kill()
