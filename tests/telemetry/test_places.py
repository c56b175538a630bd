"""Who is where: in a fabric by names, rules, tables and LLDP; without one by what the sources say."""

from __future__ import annotations

import pytest
from assembling import assembler, frame_at, host, reading, small_fabric, switch, value
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.base.errors import InputError
from railkeeper.telemetry.assemble import Assembler
from railkeeper.telemetry.bind import binder
from railkeeper.telemetry.entities import NIC_END, T0_HOST, T0_UPLINK, T1_DOWN
from railkeeper.telemetry.place_rules import PlacesSettings, read_table
from railkeeper.telemetry.places import FabricPlaces
from railkeeper.telemetry.templates import reader, write
from railkeeper.telemetry.tick import OUTSIDE, UNPLACED

FABRIC = small_fabric(planes=4, nics_per_node=1)
RAILS = small_fabric(planes=2, rails=2, nics_per_node=2)


def placed(places: FabricPlaces, kind: str, dialect: str, labels: dict[str, str]):
    """Name of the entity, or why there is none."""
    at = places.place(kind, binder().dialect(dialect), reading(dialect, labels, {}))
    if at[1] < 0:
        return at[1]
    return places.entities(at[0]).name_of(at[1])


def rules(**given) -> PlacesSettings:
    return PlacesSettings.model_validate(given)


HOSTS = [{"match": "gpu-{n:03d}", "name": "n{n-1}"}, {"match": "mgmt{n}", "name": "-"}]


# ---- hosts ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["gpu-013", "gpu-013.cluster.example", "n12", "special"])
def test_hosts_by_rule_domain_own_name_and_table(name):
    places = FabricPlaces(FABRIC, rules(hosts=HOSTS, host_table={"special": "n12"}))

    assert placed(places, "node", "host.node", {"host": name}) == "n12"


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({"host": "mgmt3"}, OUTSIDE),
        ({"host": "elsewhere"}, UNPLACED),
        ({"host": "gpu-999"}, UNPLACED),  # the fabric has no such node
        ({}, UNPLACED),
        ({"instance": "gpu-002:9100"}, "n1"),
        ({"Hostname": "gpu-002", "instance": "10.0.0.1:9400"}, "n1"),
    ],
)
def test_hosts_that_are_not_ours(labels, wanted):
    assert placed(FabricPlaces(FABRIC, rules(hosts=HOSTS)), "node", "host.node", labels) == wanted


ONE_DEVICE = [{"match": "roce_r{r}", "name": "nic{r}", "ports": {"3": 0, "6": 1, "9": 2, "12": 3}},
              {"match": "eth_r{r}_p{p}", "name": "nic{r}", "plane": "{p}"}, {"match": "mlx5_bond_{i}", "name": "-"}]  # fmt: skip
EACH_PLANE = [{"match": "mlx5_{d}", "name": "nic{d/4}", "plane": "{d%4}"}]


@pytest.mark.parametrize(
    ("devices", "labels", "wanted"),
    [
        (ONE_DEVICE, {"device": "roce_r0", "port": "9"}, "n1/nic0/p2"),
        (ONE_DEVICE, {"device": "roce_r0", "port": "1"}, OUTSIDE),  # switched off by the platform
        (ONE_DEVICE, {"netdev": "eth_r0_p3"}, "n1/nic0/p3"),
        (ONE_DEVICE, {"device": "eth_r0_p3"}, "n1/nic0/p3"),  # exporters call interfaces devices
        (ONE_DEVICE, {"device": "roce_r0"}, "n1/nic0"),  # all planes: the NIC's
        (ONE_DEVICE, {"device": "roce_r5", "port": "3"}, UNPLACED),  # no such NIC
        (ONE_DEVICE, {"device": "eth_r0_p7"}, UNPLACED),  # no such plane
        (ONE_DEVICE, {"device": "mlx5_bond_0", "port": "1"}, OUTSIDE),
        (ONE_DEVICE, {"device": "docker0"}, UNPLACED),
        (EACH_PLANE, {"device": "mlx5_2", "port": "1"}, "n1/nic0/p2"),
        (EACH_PLANE, {"device": "nic0p1"}, "n1/nic0/p1"),  # the fabric's own names
        ([], {"device": "nic0", "port": "1"}, "n1/nic0"),
    ],
)
def test_ports_of_hosts(devices, labels, wanted):
    places = FabricPlaces(FABRIC, rules(devices=devices))

    assert placed(places, "port", "mlx5.hw", {"host": "n1", **labels}) == wanted


def test_with_one_plane_a_device_is_its_port():
    places = FabricPlaces(small_fabric(planes=1), rules(devices=[{"match": "bnxt_re{i}", "name": "nic{i}"}]))

    assert placed(places, "port", "bnxt.hw", {"host": "n3", "device": "bnxt_re0", "port": "1"}) == "n3/nic0/p0"


def test_pci_addresses_and_gpus():
    places = FabricPlaces(FABRIC, rules(devices=[{"match": "0000:1a:00.0", "name": "nic0"}]))
    segments = {"segment": "0000", "bus": "1a", "device": "00", "function": "0"}

    assert placed(places, "nic", "pcie", {"host": "n1", "netdev": "x", "pci": "0000:1a:00.0"}) == "n1/nic0"
    assert placed(places, "nic", "node_exporter", {"host": "n1", **segments}) == "n1/nic0"
    assert placed(places, "gpu", "dcgm", {"host": "n1", "gpu": "3"}) == "n1/gpu3"
    assert placed(places, "gpu", "prometheus", {"node": "n1", "gpu": "GPU3"}) == "n1/gpu3"
    assert placed(places, "gpu", "dcgm", {"host": "n1"}) == UNPLACED


def test_what_belongs_together_is_learnt():
    """The rule knows interfaces only; `rdma link` says which RDMA port an interface is."""
    places = FabricPlaces(FABRIC, rules(devices=[{"match": "eth{p}", "name": "nic0", "plane": "{p}"}]))
    labels = {"host": "n1", "device": "mlx5_7", "port": "1"}
    assert placed(places, "port", "mlx5.hw", labels) == UNPLACED
    assert places.learn("rdma.port", reading("rdma.port", labels, {"netdev": "eth2"}))

    assert placed(places, "port", "mlx5.hw", labels) == "n1/nic0/p2"


# ---- switches -------------------------------------------------------------------------------------------------------
LEAVES = [{"match": "leaf-{p}-{i}", "name": "p{p}/t0-{i}"}, {"match": "spine-{p}-{i}", "name": "p{p}/t1-{i}"}]
ROWS = [
    {"tier": "t0", "match": "Ethernet{i}", "step": 8, "count": 4},
    {"tier": "t0", "match": "Ethernet{i}", "first": 32, "step": 8, "count": 4, "side": "up"},
    {"tier": "t1", "match": "Ethernet{i}", "step": 8, "count": 4},
]


@pytest.mark.parametrize(
    ("name", "interface", "wanted"),
    [
        ("leaf-2-1", "Ethernet0", "n4/nic0/p2--p2/t0-1@p2/t0-1"),
        ("leaf-2-1", "Ethernet24", "n7/nic0/p2--p2/t0-1@p2/t0-1"),
        ("leaf-2-1", "Ethernet32", "p2/t0-1--p2/t1-0@p2/t0-1"),
        ("leaf-2-1", "Ethernet56", "p2/t0-1--p2/t1-3@p2/t0-1"),
        ("spine-2-3.example", "Ethernet8", "p2/t0-1--p2/t1-3@p2/t1-3"),
        ("p2/t0-1", "Ethernet0", "n4/nic0/p2--p2/t0-1@p2/t0-1"),
        ("leaf-2-1", "Ethernet4", UNPLACED),  # between two steps
        ("leaf-2-1", "Ethernet64", UNPLACED),
        ("leaf-2-1", "PortChannel1", UNPLACED),
        ("leaf-9-1", "Ethernet0", UNPLACED),
        ("leaf-2-1", "p2/t0-1--p2/t1-0@p2/t0-1", "p2/t0-1--p2/t1-0@p2/t0-1"),
        ("leaf-2-1", "p2/t0-1--p2/t1-0@p2/t1-0", UNPLACED),  # an end of another switch
    ],
)
def test_interfaces_by_rule(name, interface, wanted):
    places = FabricPlaces(FABRIC, rules(switches=LEAVES, interfaces=ROWS))

    assert placed(places, "port", "sonic.port", {"switch": name, "port": interface}) == wanted


def test_every_interface_of_a_fabric_with_rails_has_its_own_port():
    places = FabricPlaces(RAILS, rules(interfaces=ROWS))
    found = []
    for i in range(RAILS.n_t0 + RAILS.n_t1):
        name = places.entities("switch").name_of(i)
        count = 8 if "t0" in name else 4
        found += [
            placed(places, "port", "sonic.port", {"switch": name, "port": f"Ethernet{8 * k}"}) for k in range(count)
        ]
    upper = [name for name in map(places.entities("port").name_of, range(len(places.entities("port")))) if "@" in name]

    assert sorted(found) == sorted(upper)


def test_interfaces_by_table():
    table = {"leaf-2-1|swp7": "n4/nic0/p2--p2/t0-1@p2/t0-1", "leaf-2-1|mgmt0": "-", "leaf-2-1|swp8": "n0/nic0/p0"}
    places = FabricPlaces(FABRIC, rules(switches=LEAVES, interfaces=ROWS, interface_table=table))

    assert placed(places, "port", "openconfig", {"switch": "leaf-2-1", "port": "swp7"}) == table["leaf-2-1|swp7"]
    assert placed(places, "port", "openconfig", {"switch": "leaf-2-1", "port": "mgmt0"}) == OUTSIDE
    assert (
        placed(places, "port", "openconfig", {"switch": "leaf-2-1", "port": "swp8"}) == UNPLACED
    )  # not of this switch


NEIGHBOURS = [
    ("sonic.lldp", {"switch": "leaf-2-1", "port": "Ethernet0"}, {"lldp_rem_sys_name": "n5.example", "lldp_rem_port_id": "eth2"}, "n5/nic0/p2--p2/t0-1@p2/t0-1"),
    # A port id that is a MAC address says nothing, but the node has one link to this switch.
    ("sonic.lldp", {"switch": "leaf-2-1", "port": "Ethernet0"}, {"lldp_rem_sys_name": "n5", "lldp_rem_port_id": "aa:bb:cc:00:11:22"}, "n5/nic0/p2--p2/t0-1@p2/t0-1"),
    ("sonic.lldp", {"switch": "leaf-2-1", "port": "Ethernet0"}, {"lldp_rem_sys_name": "spine-2-3", "lldp_rem_port_id": "Ethernet8"}, "p2/t0-1--p2/t1-3@p2/t0-1"),
    ("sonic.lldp", {"switch": "spine-2-3", "port": "Ethernet0"}, {"lldp_rem_sys_name": "leaf-2-1", "lldp_rem_port_id": "x"}, "p2/t0-1--p2/t1-3@p2/t1-3"),
    ("sonic.lldp", {"switch": "spine-2-3", "port": "Ethernet0"}, {"lldp_rem_sys_name": "leaf-1-1", "lldp_rem_port_id": "x"}, UNPLACED),  # of another plane
    ("sonic.lldp", {"switch": "leaf-2-1", "port": "Ethernet0"}, {"lldp_rem_sys_name": "n1", "lldp_rem_port_id": "eth2"}, UNPLACED),  # under another switch
    ("sonic.lldp", {"switch": "leaf-2-1", "port": "Ethernet0"}, {"lldp_rem_sys_name": "printer"}, UNPLACED),
    ("host.lldp", {"host": "n5", "netdev": "eth2"}, {"system_name": "leaf-2-1", "port_id": "Ethernet0"}, "n5/nic0/p2--p2/t0-1@p2/t0-1"),
    ("openconfig", {"switch": "leaf-2-1", "port": "Ethernet0"}, {"/lldp/interfaces/interface/neighbors/neighbor/state/system-name": "spine-2-0"}, "p2/t0-1--p2/t1-0@p2/t0-1"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "labels", "values", "wanted"), NEIGHBOURS)
def test_interfaces_by_neighbour(dialect, labels, values, wanted):
    places = FabricPlaces(FABRIC, rules(switches=LEAVES, devices=[{"match": "eth{p}", "name": "nic0", "plane": "{p}"}]))
    assert places.learn(dialect, reading(dialect, labels, values))
    name = labels.get("switch", "leaf-2-1")

    assert placed(places, "port", "sonic.port", {"switch": name, "port": "Ethernet0"}) == wanted


def test_an_alias_in_a_neighbours_word_is_understood():
    places = FabricPlaces(FABRIC, rules(switches=LEAVES, devices=[{"match": "eth{p}", "name": "nic0", "plane": "{p}"}]))
    places.learn("sonic.appl_port", switch("sonic.appl_port", {"alias": "etp1a"}, name="leaf-2-1"))
    places.learn(
        "host.lldp",
        reading("host.lldp", {"host": "n5", "netdev": "eth2"}, {"system_name": "leaf-2-1", "port_id": "etp1a"}),
    )
    wanted = "n5/nic0/p2--p2/t0-1@p2/t0-1"

    assert placed(places, "port", "sonic.port", {"switch": "leaf-2-1", "port": "Ethernet0"}) == wanted
    assert placed(places, "port", "sonic.port", {"switch": "leaf-2-1", "port": "etp1a"}) == wanted


def test_what_is_learnt_in_a_tick_places_the_same_tick():
    a = Assembler(FabricPlaces(FABRIC, rules(switches=LEAVES)))
    a.add([switch("sonic.port", {"SAI_PORT_STAT_IF_IN_OCTETS": "7"}, name="leaf-2-1")])
    a.add([switch("sonic.lldp", {"lldp_rem_sys_name": "spine-2-0"}, name="leaf-2-1")])
    block = frame_at(a, 1).blocks["port"]

    assert value(block, "p2/t0-1--p2/t1-0@p2/t0-1", "rx_bytes") == 7
    assert block.entities is a.places.entities("port")


def test_what_is_learnt_later_places_from_then_on():
    a = Assembler(FabricPlaces(FABRIC, rules(switches=LEAVES)))
    for t in range(2):
        a.add([switch("sonic.port", {"SAI_PORT_STAT_IF_IN_OCTETS": t}, name="leaf-2-1", t=t)])
        frame_at(a, t + 0.1)
        a.add([switch("sonic.lldp", {"lldp_rem_sys_name": "spine-2-0"}, name="leaf-2-1", t=t)])

    assert (a.counts.unplaced, a.counts.framed) == (1, 1)


def test_adapters_of_an_infiniband_fabric_are_hosts():
    places = FabricPlaces(small_fabric(planes=1), rules(devices=[{"match": "mlx5_{i}", "name": "nic{i}"}]))

    assert placed(places, "port", "infiniband", {"node": "n2 mlx5_0", "port": "1"}) == "n2/nic0/p0"
    assert placed(places, "port", "infiniband", {"node": "strange", "port": "1"}) == UNPLACED


def test_one_device_for_all_planes_puts_its_rdma_signals_on_the_nic():
    a = Assembler(FabricPlaces(FABRIC, rules(devices=[{"match": "mlx5_{i}", "name": "nic{i}"}])))
    a.add([host("mlx5.hw", {"out_of_sequence": 5}, name="n1"), host("mlx5.hw", {"out_of_sequence": 6}, name="x1")])
    frame = frame_at(a, 1)

    assert value(frame.blocks["nic"], "n1/nic0", "out_of_sequence_rx") == 5
    assert a.counts.unplaced == 1


# ---- without a fabric -----------------------------------------------------------------------------------------------
def test_names_of_one_port_come_together():
    a = assembler()
    a.add([host("mlx5.hw", {"out_of_sequence": 5})])
    a.add(
        [
            reading(
                "mlx5.ethtool",
                {"host": "h1.example", "netdev": "eth0", "device": "mlx5_0", "port": "1"},
                {"rx_crc_errors_phy": 1},
            )
        ]
    )
    a.add([reading("netdev", {"host": "h1", "netdev": "eth0"}, {"carrier": 1})])
    a.add([reading("node_exporter", {"host": "h1", "device": "eth0"}, {"node_network_carrier_changes_total": 4})])
    block = frame_at(a, 1).blocks["port"]

    assert len(block.entities) == 1
    assert block.entities.id_of("h1/eth0") == block.entities.id_of("h1/mlx5_0/1") == 0
    assert value(block, "h1/eth0", "carrier_changes") == 4


def test_ends_roles_and_peers_from_lldp():
    a = assembler()
    for leaf in ("leaf1", "leaf2"):
        a.add(
            [
                switch("sonic.port", {"SAI_PORT_STAT_IF_IN_OCTETS": 1}, name=leaf, port=p)
                for p in ("Ethernet0", "Ethernet8")
            ]
        )
        a.add(
            [
                switch(
                    "sonic.lldp",
                    {"lldp_rem_sys_name": f"h-{leaf}", "lldp_rem_port_id": "eth0"},
                    name=leaf,
                    port="Ethernet0",
                )
            ]
        )
        a.add(
            [
                switch(
                    "sonic.lldp", {"lldp_rem_sys_name": "spine1", "lldp_rem_port_id": leaf}, name=leaf, port="Ethernet8"
                )
            ]
        )
        a.add([reading("mlx5.ethtool", {"host": f"h-{leaf}", "netdev": "eth0"}, {"rx_crc_errors_phy": 1})])
        a.add([switch("openconfig", {"/interfaces/interface/state/mtu": 9000}, name="spine1", port=leaf)])
    frame_at(a, 1)
    entities = frame_at(a, 1).blocks["port"].entities
    of = entities.id_of

    assert entities.other[of("leaf1/Ethernet0")] == of("h-leaf1/eth0")
    assert entities.other[of("h-leaf1/eth0")] == of("leaf1/Ethernet0")
    assert entities.other[of("spine1/leaf2")] == of("leaf2/Ethernet8")
    roles = [entities.role[of(name)] for name in ("h-leaf1/eth0", "leaf1/Ethernet0", "leaf1/Ethernet8", "spine1/leaf1")]
    assert roles == [NIC_END, T0_HOST, T0_UPLINK, T1_DOWN]
    assert entities.group[of("leaf1/Ethernet0")] == entities.group[of("leaf2/Ethernet0")]
    assert entities.group[of("leaf1/Ethernet0")] != entities.group[of("leaf1/Ethernet8")]
    assert entities.group_size.sum() == len(entities)


@pytest.mark.parametrize("netdev", ["lo", "veth12ab", "docker0", "br-1a2b", "ifb0"])
def test_interfaces_without_a_link_are_no_ports(netdev):
    a = assembler()
    a.add([reading("netdev", {"host": "h1", "netdev": netdev}, {"carrier": 1}), host("mlx5.hw", {"packet_seq_err": 1})])

    assert len(frame_at(a, 1).blocks["port"].entities) == 1
    assert a.counts.outside == 1


def test_makes_are_peers_of_their_own():
    a = assembler()
    a.add([host("mlx5.hw", {"packet_seq_err": 1}, name=f"m{i}") for i in range(3)])
    a.add([host("bnxt.hw", {"seq_err_naks_rcvd": 1}, name=f"b{i}") for i in range(2)])

    assert sorted(frame_at(a, 1).blocks["port"].entities.group_size.tolist()) == [2, 3]


def test_nodes_nics_and_gpus_have_names():
    a = assembler()
    a.add([reading("pcie", {"host": "h1", "device": "mlx5_0", "pci": "0000:1a:00.0"}, {"current_link_width": 16})])
    a.add(
        [
            reading(
                "mlx5.ethtool",
                {"host": "h1", "netdev": "eth0", "device": "mlx5_0", "port": "1"},
                {"outbound_pci_stalled_wr": 3},
            )
        ]
    )
    a.add([reading("dcgm", {"host": "h1", "gpu": "0"}, {"DCGM_FI_DEV_XID_ERRORS": 79})])
    a.add([reading("host.node", {"host": "h1"}, {"softnet_dropped": 4})])
    blocks = frame_at(a, 1).blocks

    assert value(blocks["nic"], "h1/mlx5_0", "pcie_width") == 16
    assert value(blocks["nic"], "h1/eth0", "pcie_stalled_write_percent") == 3
    assert value(blocks["gpu"], "h1/gpu0", "xid_last") == 79
    assert value(blocks["node"], "h1", "softnet_drops") == 4
    assert blocks["nic"].entities.owner.tolist() == [0]


def test_a_transceiver_is_a_port_once_the_switch_says_which():
    a = assembler()
    power = {"/components/component/transceiver/physical-channels/channel/state/input-power/instant": -3.0}
    optic = reading("openconfig", {"switch": "s1", "component": "trx-7", "lane": "2"}, power)
    a.add([optic])
    assert "port" not in frame_at(a, 1).blocks
    a.add([switch("openconfig", {"/interfaces/interface/state/transceiver": "trx-7"}), optic])

    assert value(frame_at(a, 2).blocks["port"], "s1/Ethernet0", "rx_power_dbm[2]") == -3


# ---- rules that can't be --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"hosts": [{"match": "a{n", "name": "n1"}]}, "places.hosts[0].match"),
        ({"hosts": [{"match": "a{n}", "name": "n{m}"}]}, "places.hosts[0].name"),
        ({"hosts": [{"match": "a{n}{n}", "name": "n{n}"}]}, "places.hosts[0].match"),
        ({"devices": [{"match": "a{n}", "name": "nic0", "plane": "{p}"}]}, "places.devices[0].plane"),
        ({"devices": [{"match": "a{n}", "name": "nic{n.real}"}]}, "places.devices[0].name"),
        ({"interfaces": [{"tier": "t0", "match": "Ethernet", "count": 1}]}, "places.interfaces[0].match"),
    ],
)
def test_rules_that_can_not_be(given, where):
    with pytest.raises(InputError) as error:
        FabricPlaces(FABRIC, rules(**given))
    assert error.value.where == where


@given(st.integers(0, 10**9 - 1))
def test_templates_read_what_they_write(n):
    assert reader("x{n}y", where="").read(write("x{n}y", {"n": n})) == {"n": n}
    assert write("{n+3}", {"n": n}) == str(n + 3)
    assert write("{n/4}.{n%4}", {"n": n}) == f"{n // 4}.{n % 4}"
    assert write("{n/0}", {"n": n}) == "-1"


def test_tables_from_csv():
    columns = ("switch", "interface", "port")
    text = "switch,interface,port\ns1,swp1,n0/nic0/p0--p0/t0-0@p0/t0-0\n"

    assert read_table(text, where="t.csv", columns=columns) == {"s1|swp1": "n0/nic0/p0--p0/t0-0@p0/t0-0"}
    for bad, problem in (
        (text + "s1,swp1,x\n", "line 3: is there twice"),
        (text + "s1,,x\n", "empty"),
        ("a,b\n", "columns"),
    ):
        with pytest.raises(InputError, match=problem):
            read_table(bad, where="t.csv", columns=columns)


@pytest.mark.parametrize(
    ("table", "name", "what"),
    [
        ("host_table", "p0/t0-1", "a node"),
        ("host_table", "n999999", "a node"),
        ("switch_table", "n1", "a switch"),
        ("switch_table", "p0/t0-x", "a switch"),
        ("interface_table", "p0/t0-1", "an end of a link"),
    ],
)
def test_a_table_that_names_what_is_not_there_is_refused(table, name, what):
    with pytest.raises(InputError, match=f"places.{table}: a: '{name}' is no name of {what}"):
        FabricPlaces(FABRIC, rules(**{table: {"a": name}}))
    FabricPlaces(FABRIC, rules(**{table: {"a": "-"}}))
