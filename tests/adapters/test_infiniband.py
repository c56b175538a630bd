"""InfiniBand: a simulated subnet through the real infiniband-diags, and texts of those programs."""

from __future__ import annotations

import asyncio

import pytest
from ibsim_fabric import Subnet

from railkeeper.adapters.infiniband import ALWAYS_COUNTED, InfinibandSettings, InfinibandTarget
from railkeeper.adapters.infiniband_run import check_harmless, run_tool
from railkeeper.adapters.infiniband_texts import read_errors, read_links, read_perfquery
from railkeeper.adapters.infiniband_topology import read_topology
from railkeeper.base.errors import InputError, OutsideError

NET = """#
# Topology file: generated on Mon Nov 30 10:00:00 2026
#
vendid=0x2c9
devid=0xd2f2
sysimgguid=0x2c5eab0300000010
switchguid=0x2c5eab0300000010(2c5eab0300000010)
Switch\t65 "S-2c5eab0300000010"\t\t# "MF0;leaf-04:MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1]\t"H-e09d730300000001"[1](e09d730300000001) \t\t# "host-01 mlx5_5" lid 647 4xNDR
[36]\t"S-2c5eab0300000020"[31]\t\t# "MF0;spine-02:MQM9701/U1" lid 236 4xNDR s=8 w=2 v=4 e=4

vendid=0x2c9
devid=0x1021
sysimgguid=0xe09d730300000001
caguid=0xe09d730300000001
Ca\t1 "H-e09d730300000001"\t\t# "host-01 mlx5_5"
[1](e09d730300000001) \t"S-2c5eab0300000010"[1]\t\t# lid 647 lmc 0 "MF0;leaf-04:MQM9701/U1" lid 73 4xNDR
"""


@pytest.fixture(scope="module")
def subnet():
    subnet = Subnet()
    yield subnet
    subnet.stop()


def target(subnet, **changes) -> InfinibandTarget:
    return InfinibandTarget(InfinibandSettings(**{"source": "ib", "subnet": "ib0", "env": subnet.env, **changes}))


def polled(one):
    return asyncio.run(one.poll())


def by_port(readings, dialect: str = "infiniband"):
    return {(r.labels["node"], int(r.labels["port"])): r.values for r in readings if r.dialect == dialect}


def account(readings):
    (found,) = [r.values for r in readings if r.dialect == "infiniband.reader"]
    return found


def test_a_whole_subnet(subnet):
    readings = polled(target(subnet))

    ports = by_port(readings)
    assert len(ports) == 64 + 4 * 20 + 4 * 4
    assert all(values["LinkState"] == "Active" for values in ports.values())
    assert ports["hca5", 1]["PortXmitData"] > 0
    assert ports["hca5", 1]["LinkRateGbps"] == 10.0
    told = account(readings)
    assert (told["nodes"], told["nodes_checked"], told["links"], told["links_told_by_one_end"]) == (72, 72, 80, 0)
    links = by_port(readings, "infiniband.link")
    assert (links["leaf1", 18]["other_node"], links["leaf1", 18]["other_port"]) == ("spine1", 2)
    assert (links["hca16", 1]["other_node"], links["hca16", 1]["other_port"]) == ("leaf1", 1)


def test_errors_of_one_port_are_that_ports_and_no_others(subnet):
    before = by_port(polled(target(subnet)))
    assert before["leaf0", 17]["SymbolErrorCounter"] == 0
    subnet.say('PerformanceSet "leaf0"[17] PortCounters.SymbolErrorCounter=77')
    subnet.say('PerformanceSet "hca9"[1] PortCounters.PortRcvErrors=5')
    subnet.say('PerformanceSet "leaf2"[3] PortCounters.LinkDownedCounter=2')

    after = by_port(polled(target(subnet)))

    counted = {(end, name): values[name] for end, values in after.items() for name in ALWAYS_COUNTED if values[name]}
    # A packet of the subnet manager may be dropped on the way; that is the simulator's doing, not ours.
    counted = {key: value for key, value in counted.items() if key[1] != "PortXmitDiscards"}
    assert counted == {
        (("leaf0", 17), "SymbolErrorCounter"): 77,
        (("hca9", 1), "PortRcvErrors"): 5,
        (("leaf2", 3), "LinkDownedCounter"): 2,
    }


def test_a_watched_port_is_asked_by_itself(subnet):
    topology = read_topology(subnet.run("ibnetdiscover"))
    guid = next(node.guid for node in topology.nodes.values() if node.name == "leaf3")
    subnet.say('PerformanceSet "leaf3"[20] PortCountersExtended.PortXmitData=987654321012')
    subnet.say('PerformanceSet "leaf3"[20] PortCounters.PortXmitWait=33')

    values = by_port(polled(target(subnet, watched=((guid, 20),), traffic=False)))["leaf3", 20]

    assert 987654321012 <= values["PortXmitData"] < 987654421012  # the subnet manager's own packets are counted too
    assert values["PortXmitWait"] == 33
    with pytest.raises(OutsideError, match="is not there"):
        polled(target(subnet, watched=(("00000000deadbeef", 1),)))


def test_an_unlinked_port_is_down_at_both_ends(subnet):
    subnet.say('Unlink "leaf1"[19]')
    try:
        readings = polled(target(subnet))
    finally:
        subnet.say('ReLink "leaf1"[19]')

    ports = by_port(readings)
    down = {end for end, values in ports.items() if values["LinkState"] == "Down"}
    assert down == {("leaf1", 19), ("spine2", 2)}
    assert ports["leaf1", 19]["PhysLinkState"] == "Polling"
    assert "LinkRateGbps" not in ports["leaf1", 19]
    assert ("leaf1", 19) not in by_port(readings, "infiniband.link")
    assert account(readings)["links"] == 79


def test_no_subnet_is_an_error_with_a_reason(subnet):
    one = target(subnet, env={"SIM_HOST": "hca0"})  # without the simulator there is no InfiniBand on this machine

    with pytest.raises(OutsideError, match="ibnetdiscover") as error:
        polled(one)
    assert error.value.retry


def test_a_program_that_hangs_or_prints_without_end_or_is_missing_is_ended(tmp_path, monkeypatch):
    for name, body in {"hangs": "sleep 60", "fails": "echo why >&2; exit 3"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexec {body}\n" if name == "hangs" else f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    for command, words in (("hangs", "did not end within"), ("fails", "why"), ("nosuch", "not installed")):
        with pytest.raises(OutsideError, match=words):
            asyncio.run(run_tool([command], timeout_s=0.5))


@pytest.mark.parametrize("option", ["-k", "-K", "--clear-errors", "-R", "-r"])
def test_nothing_is_cleared(option):
    with pytest.raises(OutsideError, match="would clear"):
        check_harmless(["ibqueryerrors", option])


def test_a_topology_as_text():
    topology = read_topology(NET)

    assert topology.links() == [
        (("2c5eab0300000010", 1), ("e09d730300000001", 1)),
        (("2c5eab0300000010", 36), ("2c5eab0300000020", 31)),
    ]
    assert topology.one_sided() == [(("2c5eab0300000010", 36), ("2c5eab0300000020", 31))]
    assert topology.lid_of(("e09d730300000001", 1)) == 647
    assert topology.lid_of(("2c5eab0300000010", 36)) == 73
    assert set(topology.speeds.values()) == {"4xNDR"}


ALONE = NET[NET.index("vendid=0x2c9\ndevid=0x1021") :].rsplit("\n", 2)[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no node"),
        (ALONE, "no link is seen, only host-01 mlx5_5"),
        (NET.replace('[36]\t"S-', '[36]\t"X-'), "line 10"),
        (NET + NET, "there twice"),
        ("[1]\t" + NET, "line 1"),
        (NET.replace("[36]", "[1]"), "port 1 of MF0;leaf-04:MQM9701/U1 is there twice"),
    ],
)
def test_topologies_that_are_none(text, words):
    with pytest.raises(InputError, match=words):
        read_topology(text)


PERF = """# Port extended counters: Lid 7 port 17 (CapMask: 0x1200 CapMask2: 0x0000000)
PortSelect:......................17
CounterSelect:...................0x0000
PortXmitData:....................18446744073709551615
PortRcvPkts:.....................5
"""


def test_perfquery_as_text():
    assert read_perfquery(PERF) == (7, 17, {"PortXmitData": 2**64 - 1, "PortRcvPkts": 5})


@pytest.mark.parametrize(
    "text", ["", "x", PERF + PERF, PERF + "PortRcvPkts:.....6", PERF + "nothing", PERF.split("\n", 1)[1]]
)
def test_perfqueries_that_are_none(text):
    with pytest.raises(InputError):
        read_perfquery(text)


ERRORS = """Errors for 0x200004 "leaf0"
   GUID 0x200004 port ALL: [SymbolErrorCounter == 77] [PortXmitWait == 5 (5.000)]
   GUID 0x200004 port 17: [SymbolErrorCounter == 77] [PortXmitData == 196776 (768.656KB)]
Errors for "hca9"
   GUID 0x100013 port 1: [PortRcvErrors == 5]

## Summary: 72 nodes checked, 1 bad nodes found
##          176 ports checked, 1 ports have errors beyond threshold
## Thresholds: 
## Suppressed:
"""  # noqa: W291 - as it is printed


def test_errors_as_text():
    found = read_errors(ERRORS)

    assert found.ports == {
        ("0000000000200004", 17): {"SymbolErrorCounter": 77, "PortXmitData": 196776},
        ("0000000000100013", 1): {"PortRcvErrors": 5},
    }
    assert (found.nodes_checked, found.ports_checked) == (72, 176)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ERRORS.split("##", maxsplit=1)[0],
        ERRORS.replace("== 77", "== x"),
        ERRORS.replace("GUID 0x200004", "GUID 0x5"),
        "x\n" + ERRORS,
    ],
)
def test_errors_that_are_none(text):
    with pytest.raises(InputError):
        read_errors(text)


def test_links_as_text():
    text = (
        '0x248a0703002e6a12 "                    host01 HCA-1"      4    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>  '
        '0xe41d2d0300a7b2c0      1    3[ 12] "leaf 1" ( )\n'
        '0x0000000000200001 "                        spine1"      3    1[  ] ==(                Down/Disabled)==>'
        '             [  ] "" ( )\n'
    )
    up, down = read_links(text)

    assert (up.name, up.width, up.lane_gbps, up.other) == ("host01 HCA-1", 4, 106.25, ("e41d2d0300a7b2c0", 3))
    assert (down.state, down.phys_state, down.other, down.width) == ("Down", "Disabled", None, 0)
    with pytest.raises(InputError, match="line 2"):
        read_links(text.replace("Down/Disabled", "Down"))
