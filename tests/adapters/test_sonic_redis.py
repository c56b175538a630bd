"""SONiC: a whole switch is read from a real redis-server, and stays readable when that server does not."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis_server import RedisServer
from sonic_content import START_NS, SwitchContent, set_counter

from railkeeper.adapters import sonic_redis
from railkeeper.adapters.secret import Secret
from railkeeper.adapters.sonic_redis import SonicSettings, SonicTarget
from railkeeper.adapters.sonic_redis_link import ALLOWED_COMMANDS, Address, check_command, read_address
from railkeeper.base.errors import InputError, OutsideError


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def content(server):
    for db in (0, 2, 4, 6):
        with server.client(db) as c:
            c.flushdb()
    content = SwitchContent(server, 6, queues=4)
    content.write()
    return content


def target(server, **changes) -> SonicTarget:
    address = Address(host="127.0.0.1", port=server.port)
    return SonicTarget(SonicSettings(**{"source": "switches", "switch": "t0-7", "address": address, **changes}))


def polled(one: SonicTarget, times: int = 1):
    async def go():
        try:
            return [await one.poll() for _ in range(times)][-1]
        finally:
            await one.close()

    return asyncio.run(go())


def of(readings, dialect: str, **labels: str):
    return [r for r in readings if r.dialect == dialect and labels.items() <= r.labels.items()]


def merged(readings) -> dict:
    return {name: value for r in readings for name, value in r.values.items()}


def test_all_counters_of_512_ports_arrive_as_they_stand(server):
    with server.client(2) as c:
        c.flushdb()
    content = SwitchContent(server, 512, queues=8)
    content.write()

    readings = polled(target(server))

    ports, queues = {}, {}
    for r in readings:
        if r.dialect == "sonic.port":
            ports.setdefault(r.labels["port"], {}).update(r.values)
        if r.dialect == "sonic.queue":
            queues.setdefault((r.labels["port"], r.labels["queue"]), {}).update(r.values)
    assert ports.keys() == set(content.ports)
    assert len(queues) == 512 * 8
    for port in content.ports:
        assert content.port_counters(port).items() <= ports[port].items()
    for (port, queue), values in queues.items():
        expected = content.queue_counters(port, int(queue))
        del expected["SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"]  # this switch says it can't count them
        assert expected.items() <= values.items()


def test_a_counter_that_the_switch_cannot_count_is_no_zero(server, content):
    readings = polled(target(server))

    told = {r.values.get("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", "not there") for r in of(readings, "sonic.queue")}
    assert told == {None, "not there"}


def test_a_group_that_is_switched_off_tells_nothing(server, content):
    oid = content.pg_oid("Ethernet0", 0)
    set_counter(server, oid, "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES", 5)

    values = merged(of(polled(target(server)), "sonic.pg", port="Ethernet0", pg="0"))

    assert values["SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES"] is None
    assert values["SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS"] == 7


def test_states_optics_neighbours_and_configuration(server, content):
    readings = polled(target(server))

    port = {"port": "Ethernet4"}
    assert merged(of(readings, "sonic.appl_port", **port))["oper_status"] == "up"
    assert merged(of(readings, "sonic.appl_port", **port))["flap_count"] == 3
    optics = merged(of(readings, "sonic.transceiver_dom_sensor", **port))
    assert (optics["temperature"], optics["rx2power"], optics["tx1power"]) == (41.5, -0.271, None)
    assert merged(of(readings, "sonic.transceiver_info", **port))["serial"] == "001"
    assert merged(of(readings, "sonic.lldp", **port))["lldp_rem_port_id_subtype"] == "5"
    assert merged(of(readings, "sonic.config_device_neighbor", **port)) == {"name": "host1", "port": "eth0"}
    assert merged(of(readings, "sonic.config_port_qos_map", **port))["pfc_enable"] == "3,4"
    assert merged(of(readings, "sonic.config_device_metadata"))["hostname"] == "t0-7"
    assert of(readings, "sonic.config_wred_profile", profile="AZURE_LOSSLESS")
    pool = of(readings, "sonic.pool_watermarks", pool="ingress_lossless_pool")
    assert merged(pool) == {"SAI_BUFFER_POOL_STAT_WATERMARK_BYTES": 123456}
    assert merged(of(readings, "sonic.switch"))["SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS"] == 5
    assert merged(of(readings, "sonic.rates", **port)) == {"RX_BPS": 2e9, "TX_BPS": 1.5e9}
    assert merged(of(readings, "sonic.reader"))["malformed"] == 0


def test_a_change_is_seen_with_the_interval_of_the_switch_itself(server, content):
    oid = content.port_oid("Ethernet8")
    one = target(server, interval_s=0.0)

    async def go():
        before = await one.poll()
        # Two seconds of the switch's clock pass; ours has hardly moved, as when a poll is late.
        stamp = {"PORT_STAT_COUNTER_time_stamp": START_NS + 2_000_000_000}
        set_counter(server, oid, "SAI_PORT_STAT_IF_IN_ERRORS", 77_000_000, **stamp)
        after = await one.poll()
        again = await one.poll()
        await one.close()
        return before, after, again

    def errors(readings):
        (r,) = [r for r in of(readings, "sonic.port", port="Ethernet8") if "SAI_PORT_STAT_IF_IN_ERRORS" in r.values]
        return r.values["SAI_PORT_STAT_IF_IN_ERRORS"], r.t_ns

    before, after, again = (errors(readings) for readings in asyncio.run(go()))
    assert after[0] == 77_000_000
    assert after[1] - before[1] == pytest.approx(2e9, rel=0.02)
    assert again == after  # the same stamp is the same sample, however often it is read


def test_drops_that_are_read_once_a_minute_have_their_own_time(server, content):
    readings = of(polled(target(server)), "sonic.port", port="Ethernet0")

    (drops,) = [r for r in readings if "SAI_PORT_STAT_IN_DROPPED_PKTS" in r.values]
    (others,) = [r for r in readings if "SAI_PORT_STAT_IF_IN_OCTETS" in r.values]
    assert others.t_ns - drops.t_ns == 40_000_000_000
    assert abs(others.t_ns - time.time_ns()) < 60e9


def test_new_object_ids_are_followed_at_once(server, content):
    one = target(server, interval_s=0.0)

    async def go():
        await one.poll()
        content.restart_agent()
        readings = await one.poll()
        await one.close()
        return readings

    readings = asyncio.run(go())
    assert {r.labels["port"] for r in of(readings, "sonic.port")} == set(content.ports)
    assert merged(of(readings, "sonic.reader"))["objects_without_counters"] == 0


def test_queues_that_get_their_names_later_are_found(server, content, monkeypatch):
    monkeypatch.setattr(sonic_redis, "MAPS_EVERY_S", 0.0)
    with server.client(2) as c:
        names = c.hgetall("COUNTERS_QUEUE_NAME_MAP")
        c.delete("COUNTERS_QUEUE_NAME_MAP")
    one = target(server, interval_s=0.0, queue_every_s=0.0)

    async def go():
        before = await one.poll()
        with server.client(2) as c:
            c.hset("COUNTERS_QUEUE_NAME_MAP", mapping=names)
        after = await one.poll()
        await one.close()
        return before, after

    before, after = asyncio.run(go())
    assert not of(before, "sonic.queue")
    assert {r.labels["queue"] for r in of(after, "sonic.queue")} == {"0", "1", "2", "3"}


def test_a_poll_that_is_given_up_leaves_no_answers_for_the_next(server, content):
    one = target(server, interval_s=0.0)

    async def go():
        for pause_s in (0.0, 0.001, 0.002, 0.004, 0.008):
            given_up = asyncio.create_task(one.poll())
            await asyncio.sleep(pause_s)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
        readings = await one.poll()
        await one.close()
        return readings

    readings = asyncio.run(go())
    for port in content.ports:
        assert content.port_counters(port).items() <= merged(of(readings, "sonic.port", port=port)).items()
    assert merged(of(readings, "sonic.reader"))["malformed"] == 0


def test_an_object_without_counters_is_told_not_invented(server, content):
    with server.client(2) as c:
        c.delete(f"COUNTERS:{content.port_oid('Ethernet0')}")
        c.set(f"COUNTERS:{content.pg_oid('Ethernet4', 1)}", "this is no hash")
        c.hset("COUNTERS_PORT_NAME_MAP", "Ethernet999", "no id")

    readings = polled(target(server))

    assert not of(readings, "sonic.port", port="Ethernet0")
    account = merged(of(readings, "sonic.reader"))
    assert account["objects_without_counters"] == 1
    assert account["malformed"] == 2


def test_nothing_that_writes_is_sent(server, content):
    one = target(server)
    ours = server.client(0)
    ours.ping()  # its own greetings are over before the watch begins
    with server.client(0).monitor() as monitor:
        before = polled(one)
        ours.echo("the end")
        seen = set()
        for entry in monitor.listen():
            if "the end" in entry["command"]:
                break
            seen.add(entry["command"].split()[0].upper())

    assert before
    assert seen <= ALLOWED_COMMANDS
    with server.client(0) as c:
        flags = {name: c.execute_command("COMMAND INFO", name) for name in sorted(ALLOWED_COMMANDS)}
    assert not [name for name, told in flags.items() if "write" in str(told)]


@pytest.mark.parametrize("command", ["SET", "hset", b"DEL", "FLUSHALL", "CONFIG SET", "PUBLISH", "EVAL", "RESET", ""])
def test_a_command_that_writes_is_refused_before_the_wire(command):
    with pytest.raises(OutsideError, match="only reading"):
        check_command(command)


def test_the_wire_itself_refuses(server, content):
    one = target(server)

    async def go():
        try:
            await one._link._connected().hset("COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1")
        finally:
            await one.close()

    with pytest.raises(OutsideError, match="HSET is not sent"):
        asyncio.run(go())


def test_one_switch_costs_one_connection(server, content):
    one = target(server)

    async def go():
        with server.client(0) as c:
            before = {client["id"] for client in c.client_list()}
            await one.poll()
            after = {client["id"] for client in c.client_list()}
        await one.close()
        return after - before

    assert len(asyncio.run(go())) == 1


def test_by_socket_and_as_one_of_several_asics(server, content):
    one = target(server, address=read_address("x", f"unix://{server.socket}"), asic="asic1")

    readings = polled(one)

    assert {r.labels["asic"] for r in readings} == {"asic1"}
    assert {r.target for r in readings} == {"t0-7/asic1"}


def test_killed_and_started_again(tmp_path):
    server = RedisServer(tmp_path)
    content = SwitchContent(server, 2)
    content.write()
    one = target(server, interval_s=0.0)

    async def go():
        await one.poll()
        server.kill()
        with pytest.raises(OutsideError) as error:
            await one.poll()
        server.start()
        content.restart_agent()
        readings = await one.poll()
        await one.close()
        return error.value, readings

    try:
        error, readings = asyncio.run(go())
    finally:
        server.kill()
    assert error.retry
    assert str(server.port) in str(error)
    assert len(of(readings, "sonic.port", port="Ethernet4")) == 2


def test_a_server_that_never_answers_holds_up_nobody(server, content):
    async def go():
        async def silent(reader, writer):
            await reader.read()
            writer.close()

        slow_server = await asyncio.start_server(silent, "127.0.0.1", 0)
        address = Address(host="127.0.0.1", port=slow_server.sockets[0].getsockname()[1])
        slow, quick = target(server, address=address, timeout_s=1.0), target(server)
        waiting = asyncio.create_task(slow.poll())
        readings = await quick.poll()
        first_done = not waiting.done()
        with pytest.raises(OutsideError):
            await waiting
        await asyncio.gather(slow.close(), quick.close())
        slow_server.close()
        await slow_server.wait_closed()
        await asyncio.sleep(0.05)  # its handler sees that we are gone
        return readings, first_done

    readings, first_done = asyncio.run(go())
    assert first_done
    assert of(readings, "sonic.port")


def test_passwords(tmp_path):
    server = RedisServer(tmp_path, password="correct horse")
    try:
        SwitchContent(server, 1).write()
        assert polled(target(server, password=Secret("correct horse")))
        for wrong in (None, Secret("wrong horse")):
            with pytest.raises(OutsideError, match="refuses the password") as error:
                polled(target(server, password=wrong))
            assert "horse" not in str(error.value)
        one = target(server, password=Secret("correct horse"))
        assert "horse" not in f"{one!r} {one.settings!r} {one._link!r}"
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix:///var/run/redis/redis.sock", Address(path="/var/run/redis/redis.sock")),
        ("redis://t0-7", Address(host="t0-7", port=6379)),
        ("redis://[fd00::1]:6380", Address(host="fd00::1", port=6380)),
    ],
)
def test_addresses(text, expected):
    assert read_address("x", text) == expected


@pytest.mark.parametrize(
    "text", ["", "t0-7:6379", "redis://", "redis://h:99999", "redis://u:p@h", "unix://a/b", "redis://h/4"]
)
def test_addresses_that_are_none(text):
    with pytest.raises(InputError) as error:
        read_address("telemetry.switches.address", text)
    assert ":p@" not in str(error.value)


def test_slow_groups_are_read_when_they_are_due(server, content):
    readings = polled(target(server, interval_s=0.0), times=2)

    assert of(readings, "sonic.port")
    assert not of(readings, "sonic.queue")
    assert not of(readings, "sonic.transceiver_info")


def test_the_servers_own_refusals_are_told(server):
    with server.client(0) as c:
        c.execute_command("ACL", "SETUSER", "nobody", "on", ">pw", "+ping", "+select")
    try:
        with pytest.raises(OutsideError, match="may not read"):
            polled(target(server, username="nobody", password=Secret("pw")))
    finally:
        with server.client(0) as c:
            c.execute_command("ACL", "DELUSER", "nobody")
