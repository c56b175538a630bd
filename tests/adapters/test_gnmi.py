"""gNMI: a stream from a real target of a process of its own, over TLS and with an account."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest
from gnmi_target import GnmiTarget, make_certificates

from railkeeper.adapters import gnmi
from railkeeper.adapters.gnmi import GnmiSettings, GnmiStream, GnmiSubscription
from railkeeper.adapters.secret import Secret
from railkeeper.base.errors import InputError, OutsideError

COUNTERS = "/interfaces/interface[name={}]/state/counters/in-octets"
STATUS = "/interfaces/interface[name=Ethernet0]/state/oper-status"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    make_certificates(directory)
    return directory


@pytest.fixture
def switch(certificates):
    # fmt: off
    target = GnmiTarget("--cert", str(certificates / "cert.pem"), "--key", str(certificates / "key.pem"),
                        "--username", "reader", "--password", "correct horse")
    # fmt: on
    yield target
    target.kill()


def settings(target, certificates, *subscriptions: GnmiSubscription, **changes) -> GnmiSettings:
    values = {
        "source": "switches",
        "switch": "t0-7",
        "address": target.address,
        "subscriptions": subscriptions or (GnmiSubscription("/interfaces", sample_s=0.2),),
        "ca_file": str(certificates / "ca.pem"),
        "server_name": "switch.test",
        "username": "reader",
        "password": Secret("correct horse"),
    }
    return GnmiSettings(**{**values, **changes})


class Heard:
    """Runs a stream and waits for what it says."""

    def __init__(self, one: GnmiSettings) -> None:
        self.stream = GnmiStream(one)
        self.readings = []
        self.came = asyncio.Event()

    def emit(self, readings) -> None:
        self.readings += readings
        self.came.set()

    async def until(self, wanted, limit_s: float = 10.0) -> None:
        async with asyncio.timeout(limit_s):
            while not any(wanted(r) for r in self.readings):
                self.came.clear()
                await self.came.wait()

    async def __aenter__(self):
        self.task = asyncio.create_task(self.stream.run(self.emit))
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.stream.close()


def says(name: str, value, **labels):
    return lambda r: r.values.get(name, "absent") == value and labels.items() <= r.labels.items()


def error_of(one: GnmiSettings) -> OutsideError:
    async def go():
        await asyncio.wait_for(GnmiStream(one).run(lambda _: None), 20)

    with pytest.raises(OutsideError) as error:
        asyncio.run(go())
    return error.value


OCTETS = "/interfaces/interface/state/counters/in-octets"
OPER = "/interfaces/interface/state/oper-status"


def test_samples_come_at_their_interval_with_the_targets_own_time(switch, certificates):
    switch.set({COUNTERS.format("Ethernet0"): 100, COUNTERS.format("Ethernet4"): 200})

    async def go():
        async with Heard(settings(switch, certificates)) as heard:
            await heard.until(says(OCTETS, 200, port="Ethernet4"))
            switch.set({COUNTERS.format("Ethernet0"): 150})
            await heard.until(says(OCTETS, 150, port="Ethernet0"))
            await asyncio.sleep(1.0)
            return [r for r in heard.readings if r.labels.get("port") == "Ethernet0"]

    readings = asyncio.run(go())
    assert {r.dialect for r in readings} == {"openconfig"}
    assert all(r.labels["switch"] == "t0-7" for r in readings)
    assert len(readings) >= 5
    gaps_s = [(b.t_ns - a.t_ns) / 1e9 for a, b in pairwise(readings)]
    assert 0.1 < sorted(gaps_s)[len(gaps_s) // 2] < 0.5
    assert abs(readings[-1].t_ns - time.time_ns()) < 60e9


def test_a_change_is_told_within_a_second(switch, certificates):
    switch.set({STATUS: "UP"})

    async def go():
        async with Heard(settings(switch, certificates, GnmiSubscription("/interfaces", mode="on_change"))) as heard:
            await heard.until(says(OPER, "UP"))
            start_s = time.monotonic()
            switch.set({STATUS: "DOWN"})
            await heard.until(says(OPER, "DOWN"))
            return time.monotonic() - start_s

    assert asyncio.run(go()) < 1.0


def test_a_deleted_leaf_has_no_data_from_now_on(switch, certificates):
    switch.set({STATUS: "UP", COUNTERS.format("Ethernet0"): 5, COUNTERS.format("Ethernet4"): 6})

    async def go():
        async with Heard(settings(switch, certificates, GnmiSubscription("/interfaces", mode="on_change"))) as heard:
            await heard.until(says(OCTETS, 6))
            heard.readings.clear()
            switch.say(delete="/interfaces/interface[name=Ethernet0]")
            await heard.until(says(OPER, None, port="Ethernet0"))
            return list(heard.readings)

    readings = asyncio.run(go())
    assert {r.labels["port"]: dict(r.values) for r in readings} == {"Ethernet0": {OPER: None, OCTETS: None}}


def test_heartbeats_repeat_what_does_not_change(switch, certificates):
    switch.set({STATUS: "UP"})
    wanted = GnmiSubscription("/interfaces", mode="on_change", heartbeat_s=0.2)

    async def go():
        async with Heard(settings(switch, certificates, wanted)) as heard:
            async with asyncio.timeout(10):
                while len(heard.readings) < 4:
                    heard.came.clear()
                    await heard.came.wait()

    asyncio.run(go())


def test_all_kinds_of_values(switch, certificates):
    at = "/components/component[name=Ethernet0]"
    lane = f"{at}/transceiver/physical-channels/channel[index=3]/state"
    switch.set(
        {
            f"{at}/state": {
                "json_ietf": {"openconfig-platform:oper-status": "ACTIVE", "temperature": {"instant": "41.5"}}
            },
            f"{lane}/input-power/instant": {"decimal": [-271, 2]},
            f"{lane}/output-power": {"json": {"instant": -1.5}},
            f"{at}/transceiver/state/fec-corrected-bits": {"json_ietf": "18446744073709551615"},
            f"{at}/transceiver/state/serial-no": "0012",
            f"{at}/state/last-reboot-time": 12,
            f"{at}/state/removable": True,
            f"{at}/state/rate": {"bytes": "3f800000"},
            f"{at}/state/nan": {"float": 1e308},
            f"{at}/state/tags": {"list": ["a", 2]},
            "/qos": {
                "json_ietf": {
                    "interfaces": {
                        "interface": [
                            {
                                "interface-id": "Ethernet4",
                                "output": {"queues": {"queue": [{"name": "3", "state": {"dropped-pkts": "7"}}]}},
                            }
                        ]
                    }
                }
            },
        }
    )
    wanted = (GnmiSubscription("/components", mode="on_change"), GnmiSubscription("/qos", mode="on_change"))

    async def go():
        async with Heard(settings(switch, certificates, *wanted)) as heard:
            await heard.until(lambda r: "queue" in r.labels)
            return list(heard.readings)

    found = {}
    for r in asyncio.run(go()):
        found.setdefault(tuple(v for k, v in sorted(r.labels.items()) if k != "switch"), {}).update(r.values)
    module = found["Ethernet0",]
    start = "/components/component"
    assert module[f"{start}/state/oper-status"] == "ACTIVE"
    assert module[f"{start}/state/temperature/instant"] == 41.5
    assert module[f"{start}/transceiver/state/fec-corrected-bits"] == 2**64 - 1
    assert module[f"{start}/transceiver/state/serial-no"] == "0012"
    assert (module[f"{start}/state/removable"], module[f"{start}/state/rate"]) == (1, 1.0)
    assert module[f"{start}/state/tags"] == '["a", 2]'
    channel = f"{start}/transceiver/physical-channels/channel/state"
    assert found["Ethernet0", "3"] == {f"{channel}/input-power/instant": -2.71, f"{channel}/output-power/instant": -1.5}
    assert found["Ethernet4", "3"] == {
        "/qos/interfaces/interface/output/queues/queue/name": 3,
        "/qos/interfaces/interface/output/queues/queue/state/dropped-pkts": 7,
    }


def test_sonics_own_paths_keep_the_names_of_its_databases(switch, certificates):
    switch.set(
        {
            "/COUNTERS/Ethernet0": {
                "json_ietf": {"SAI_PORT_STAT_IF_IN_OCTETS": "800", "SAI_PORT_STAT_PFC_3_RX_PKTS": "5"}
            },
            "/COUNTERS/Ethernet4/Queues": {
                "json_ietf": {"Ethernet4:3": {"SAI_QUEUE_STAT_PACKETS": "9", "PFC_WD_STATUS": "stormed"}}
            },
            "/PERIODIC_WATERMARKS/Ethernet0/PriorityGroups": {
                "json_ietf": {"Ethernet0:4": {"SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES": "60"}}
            },
        }
    )
    wanted = [
        GnmiSubscription(path, sample_s=0.3)
        for path in ("/COUNTERS/Ethernet*", "/PERIODIC_WATERMARKS/Ethernet*/PriorityGroups")
    ]

    async def go():
        async with Heard(settings(switch, certificates, *wanted, database="COUNTERS_DB")) as heard:
            await heard.until(lambda r: r.dialect == "sonic.pg_watermarks")
            return list(heard.readings)

    found = {(r.dialect, tuple(sorted(r.labels.items()))): dict(r.values) for r in asyncio.run(go())}
    on = ("switch", "t0-7")
    assert found["sonic.port", (("port", "Ethernet0"), on)] == {
        "SAI_PORT_STAT_IF_IN_OCTETS": 800,
        "SAI_PORT_STAT_PFC_3_RX_PKTS": 5,
    }
    assert found["sonic.queue", (("port", "Ethernet4"), ("queue", "3"), on)] == {
        "SAI_QUEUE_STAT_PACKETS": 9,
        "PFC_WD_STATUS": "stormed",
    }
    assert found["sonic.pg_watermarks", (("pg", "4"), ("port", "Ethernet0"), on)] == {
        "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES": 60
    }


def test_a_bundle_of_a_whole_switch(switch, certificates):
    names = ("in-octets", "out-octets", "in-pkts", "out-pkts", "in-errors", "out-errors", "in-discards", "out-discards")
    tree = {
        f"/interfaces/interface[name=Ethernet{4 * n}]/state/counters/{name}-of-a-name-that-is-long-{'x' * 80}": 10 * n
        + at
        for n in range(2048)
        for at, name in enumerate(names)
    }
    switch.set(tree)  # 16,384 leaves, some 6 MB in one message: more than gRPC takes unless it is told to

    async def go():
        async with Heard(settings(switch, certificates, GnmiSubscription("/interfaces", mode="on_change"))) as heard:
            await heard.until(lambda r: r.labels.get("port") == f"Ethernet{4 * 2047}")
            return list(heard.readings)

    readings = asyncio.run(go())
    assert sum(len(r.values) for r in readings) == len(tree)
    assert sorted(v for r in readings for v in r.values.values()) == sorted(tree.values())


def test_a_wrong_password_is_told_and_not_shown(switch, certificates):
    # Now and then gRPC loses the target's words as a refused call ends; the runner asks again, and so does this.
    tries = (error_of(settings(switch, certificates, password=Secret("wrong horse"))) for _ in range(8))
    error = next(e for e in tries if "Internal error from Core" not in str(e))

    assert "refuses this account" in str(error)
    assert error.retry
    assert "horse" not in str(error)
    one = settings(switch, certificates)
    assert "horse" not in f"{one!r} {GnmiStream(one)!r}"


def test_wrong_certificates_are_told(switch, certificates, tmp_path):
    make_certificates(tmp_path, "another.test")

    assert "is not signed by" in str(error_of(settings(switch, certificates, ca_file=str(tmp_path / "ca.pem"))))
    assert "another name" in str(error_of(settings(switch, certificates, server_name="another.test")))
    clear = settings(switch, certificates, tls=False, password=None)
    assert str(error_of(clear)).startswith(f"gNMI {switch.address}: ")


def test_a_target_that_wants_a_certificate_of_ours(certificates, tmp_path):
    make_certificates(tmp_path, "keeper.test")
    # fmt: off
    target = GnmiTarget("--cert", str(certificates / "cert.pem"), "--key", str(certificates / "key.pem"),
                        "--client-ca", str(tmp_path / "ca.pem"))
    # fmt: on
    ours = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    try:
        target.set({STATUS: "UP"})

        async def go():
            async with Heard(settings(target, certificates, **ours)) as heard:
                await heard.until(says(OPER, "UP"))

        asyncio.run(go())
        assert str(error_of(settings(target, certificates))).startswith(f"gNMI {target.address}: ")
    finally:
        target.kill()


def test_a_target_that_speaks_clear_text(certificates):
    target = GnmiTarget()
    try:
        assert "no TLS with it" in str(error_of(settings(target, certificates)))
        target.set({STATUS: "UP"})

        async def go():
            async with Heard(settings(target, certificates, tls=False, password=None, username="")) as heard:
                await heard.until(says(OPER, "UP"))

        asyncio.run(go())
    finally:
        target.kill()


def test_a_refused_interval_is_told(certificates):
    target = GnmiTarget("--floor-s", "1.0")
    try:
        error = error_of(settings(target, certificates, tls=False, password=None, username=""))
    finally:
        target.kill()
    assert "refuses a subscription: sample interval below 1.0 s" in str(error)


def test_a_target_that_dies_is_run_again(switch, certificates):
    switch.set({STATUS: "UP"})

    async def go():
        async with Heard(settings(switch, certificates)) as heard:
            await heard.until(says(OPER, "UP"))
            switch.kill()
            with pytest.raises(OutsideError) as error:
                await asyncio.wait_for(heard.task, 10)
            refused = GnmiStream(settings(switch, certificates))
            with pytest.raises(OutsideError) as nobody:
                await asyncio.wait_for(refused.run(heard.emit), 10)
        switch.start()
        switch.set({STATUS: "DOWN"})
        # At once: no backoff of gRPC's own stands in the way.
        start_s = time.monotonic()
        heard.task = None
        async with Heard(settings(switch, certificates)) as heard:
            await heard.until(says(OPER, "DOWN"))
        return error.value, nobody.value, time.monotonic() - start_s

    died, nobody, took_s = asyncio.run(go())
    assert died.retry
    assert "unavailable" in str(nobody)
    assert took_s < 5


def test_samples_that_stop_end_the_stream_and_silence_is_told(switch, certificates, monkeypatch):
    monkeypatch.setattr(gnmi, "ACCOUNT_EVERY_S", 0.1)
    monkeypatch.setattr(gnmi, "SILENT_LEAST_S", 0.5)
    switch.set({STATUS: "UP"})
    wanted = [GnmiSubscription("/interfaces", sample_s=0.1), GnmiSubscription("/nothing/here", sample_s=0.1)]

    async def go():
        async with Heard(settings(switch, certificates, *wanted)) as heard:
            await heard.until(says("heard", 0, path="/nothing/here"))
            await heard.until(says("heard", 1, path="/interfaces"))
            assert not heard.task.done()
            switch.say(silence=True)
            with pytest.raises(OutsideError, match="samples have stopped"):
                await asyncio.wait_for(heard.task, 10)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tls": False}, "clear text"),
        ({"encoding": "xml"}, "encoding"),
        ({"ca_file": "/nowhere.pem"}, "can't be read"),
        ({"subscriptions": (GnmiSubscription("/a", mode="often"),)}, "mode"),
        ({"subscriptions": (GnmiSubscription(""),)}, "empty"),
        ({"subscriptions": (GnmiSubscription("/a[b"),)}, "is no path"),
        ({"subscriptions": ()}, "no path"),
    ],
)
def test_settings_that_are_wrong(changes, words):
    base = {
        "source": "s",
        "switch": "t",
        "address": "h:1",
        "subscriptions": (GnmiSubscription("/a"),),
        "password": Secret("x"),
    }
    with pytest.raises(InputError, match=words):
        GnmiStream(GnmiSettings(**{**base, **changes}))
