"""Entries of the readers of switches, hosts and subnets for any bytes: no error but ours, and nothing lost.

`ENTRIES` is name -> (entry, texts to begin with). An entry raises AssertionError when something was lost.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

from gnmi_pb import gnmi_pb2
from google.protobuf.message import DecodeError

from railkeeper.adapters.gnmi_paths import begins_with, read_path, text_of
from railkeeper.adapters.gnmi_readings import PathCache, Reader, plain_path
from railkeeper.adapters.gnmi_values import json_leaves, leaves_of, read_json
from railkeeper.adapters.hostread_ethtool import parse_ethtool
from railkeeper.adapters.hostread_net import parse_aer
from railkeeper.adapters.hostread_rdma import read_links as read_rdma_links
from railkeeper.adapters.hostread_rdma import read_statistic
from railkeeper.adapters.infiniband_texts import read_errors, read_links, read_perfquery
from railkeeper.adapters.infiniband_topology import read_topology
from railkeeper.adapters.secret import Secret
from railkeeper.adapters.sonic_redis_link import read_address
from railkeeper.adapters.sonic_redis_maps import KINDS, PORT, QUEUE, Maps, add_things
from railkeeper.adapters.sonic_redis_values import by_group, numbers, texts, value
from railkeeper.base.errors import InputError, OutsideError


def text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def ethtool(data: bytes) -> None:
    values = parse_ethtool(text(data))
    assert len(values) == sum(bool(line.strip()) for line in text(data).split("\n")[1:])


def aer(data: bytes) -> None:
    lines = [line for line in text(data).splitlines() if line.strip()]
    assert len(parse_aer("aer", text(data))) == len(lines)


def rdma(data: bytes) -> None:
    for read in (read_statistic, read_rdma_links):
        found = read(text(data))
        entries = json.loads(text(data)) if text(data).strip() else []
        names = {(e["ifname"], str(e["port"]), k) for e in entries for k in e if k not in {"ifname", "port", "ifindex"}}
        assert {(*key, name) for key, values in found.items() for name in values} == names


def perfquery(data: bytes) -> None:
    _, _, values = read_perfquery(text(data))
    lines = [line.split(":")[0] for line in text(data).split("\n") if line.strip() and not line.startswith("#")]
    assert set(values) == set(lines) - {"PortSelect", "CounterSelect", "CounterSelect2"}


def ibqueryerrors(data: bytes) -> None:
    found = read_errors(text(data))
    lines = [
        line
        for line in text(data).split("\n")
        if " port " in line and line.startswith(" ") and " port ALL:" not in line
    ]
    assert sum(len(values) for values in found.ports.values()) <= sum(line.count(" == ") for line in lines)
    assert bool(found.ports) == bool(lines)


def iblinkinfo(data: bytes) -> None:
    assert len(read_links(text(data))) == sum(bool(line.strip()) for line in text(data).split("\n"))


def ibnetdiscover(data: bytes) -> None:
    topology = read_topology(text(data))
    lines = text(data).split("\n")
    assert len(topology.other_end) == sum(line.startswith("[") for line in lines)
    assert len(topology.nodes) == sum(line.startswith(("Switch", "Ca", "Rt")) for line in lines)
    ends = {end for link in topology.links() for end in link}
    assert ends == set(topology.other_end) | set(topology.other_end.values())


def redis_hash(data: bytes) -> None:
    """Fields are split by the byte 0: name, value, name, value …"""
    parts = data.split(b"\0")
    fields = dict(zip(parts[::2], parts[1::2], strict=False))
    for kind in (PORT, QUEUE):
        groups = by_group(fields, kind.groups)
        told = [name for _, values in groups.values() for name in values]
        assert len(told) == len(set(told)) == len(numbers(fields)) == len(texts(fields))
    for raw in fields.values():
        read = value(raw)
        assert isinstance(read, int | float | str | None)
        assert not isinstance(read, int) or str(read).encode() == raw
        assert not isinstance(read, str) or read == text(raw)


def redis_map(data: bytes) -> None:
    parts = data.split(b"\0")
    fields = dict(zip(parts[::2], parts[1::2], strict=False))
    for kind in KINDS:
        maps = Maps()
        add_things(maps, kind, fields)
        assert len(maps.things[kind.name]) + len(maps.malformed) == len(fields)


def redis_address(data: bytes) -> None:
    address = read_address("address", text(data))
    assert address.path or (address.host and 0 < address.port < 65536)
    assert text(data) not in repr(Secret(text(data))) or len(data) < 12


def gnmi_path(data: bytes) -> None:
    path = read_path(text(data))
    assert read_path(text_of(path)) == path
    assert begins_with(path, path)


def gnmi_json(data: bytes) -> None:
    tree = read_json(data)
    found = list(json_leaves((), tree))
    assert len(found) == scalars(tree)


def scalars(tree: object) -> int:
    if isinstance(tree, dict):
        return sum(scalars_of_member(below) for below in tree.values())
    return 1


def scalars_of_member(below: object) -> int:
    if isinstance(below, list) and below and all(isinstance(entry, dict) for entry in below):
        return sum(scalars(entry) for entry in below)
    return scalars(below)


def gnmi_message(data: bytes) -> None:
    try:
        response = gnmi_pb2.SubscribeResponse.FromString(data)
    except DecodeError:
        return  # gRPC itself ends the stream for such
    for database in ("", "COUNTERS_DB"):
        reader = Reader("source", "switch", database)
        leaves = []
        paths = PathCache()
        paths.below(response.update.prefix)
        for update in response.update.update:
            path = paths.path(update.path)
            assert path == paths.path(update.path) == plain_path(response.update.prefix, update.path)
            with contextlib.suppress(InputError):
                leaves += list(leaves_of(path, update.val))
        readings = reader.updates(leaves, 0)
        assert {path for path, _ in leaves} == set(reader.seen)
        places = {(place.dialect, place.labels, place.name) for place in reader.seen.values()}
        assert sum(len(r.values) for r in readings) == len(places)
        reader.deletes([plain_path(response.update.prefix, path) for path in response.update.delete], 0)


MESSAGE = gnmi_pb2.SubscribeResponse(
    update=gnmi_pb2.Notification(
        timestamp=5,
        prefix=gnmi_pb2.Path(target="COUNTERS_DB", elem=[gnmi_pb2.PathElem(name="COUNTERS")]),
        update=[
            gnmi_pb2.Update(
                path=gnmi_pb2.Path(elem=[gnmi_pb2.PathElem(name="Ethernet0", key={"name": "x"})]),
                val=gnmi_pb2.TypedValue(json_ietf_val=b'{"Ethernet0:3":{"SAI_QUEUE_STAT_PACKETS":"1"}}'),
            )
        ],
        delete=[gnmi_pb2.Path(elem=[gnmi_pb2.PathElem(name="Ethernet*")])],
    )
).SerializeToString()
NET = b"""vendid=0x2c9
switchguid=0x2c5eab0300000010(2c5eab0300000010)
Switch\t65 "S-2c5eab0300000010"\t\t# "leaf-04" enhanced port 0 lid 73 lmc 0
[1]\t"H-e09d730300000001"[1](e09d730300000001) \t\t# "host-01 mlx5_5" lid 647 4xNDR

caguid=0xe09d730300000001
Ca\t1 "H-e09d730300000001"\t\t# "host-01 mlx5_5"
[1](e09d730300000001) \t"S-2c5eab0300000010"[1]\t\t# lid 647 lmc 0 "leaf-04" lid 73 4xNDR
"""
LINK = (
    b'0x248a0703002e6a12 "  host01 HCA-1"      4    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>  '
    b'0xe41d2d0300a7b2c0      1    3[ 12] "leaf 1" ( )\n'
    b'0x0000000000200001 "   spine1"      3    1[  ] ==(                Down/Disabled)==>             [  ] "" ( )\n'
)
ERRORS = b"""Errors for 0x200004 "leaf0"
   GUID 0x200004 port ALL: [SymbolErrorCounter == 77]
   GUID 0x200004 port 17: [SymbolErrorCounter == 77] [PortXmitData == 196776 (768.656KB)]
Errors for "hca9"
   GUID 0x100013 port 1: [PortRcvErrors == 5]

## Summary: 72 nodes checked, 1 bad nodes found
##          176 ports checked, 1 ports have errors beyond threshold
## Thresholds:
"""
PERF = b"# Port counters: Lid 7 port 17 (CapMask: 0x1300)\nPortSelect:......17\nPortXmitData:.....5\nCounterSelect:....0x0\n"

ENTRIES: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "ethtool": (ethtool, [b"NIC statistics:\n     rx_prio3_pause: 12\n     tx_bytes_phy: 18446744073709551615\n"]),
    "aer": (aer, [b"RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4"]),
    "rdma": (rdma, [b'[{"ifindex":0,"ifname":"mlx5_0","port":1,"out_of_buffer":1,"netdev":"eth0","x":[1]}]']),
    "perfquery": (perfquery, [PERF]),
    "ibqueryerrors": (ibqueryerrors, [ERRORS]),
    "iblinkinfo": (iblinkinfo, [LINK]),
    "ibnetdiscover": (ibnetdiscover, [NET]),
    "redis_hash": (
        redis_hash,
        [b"SAI_PORT_STAT_IF_IN_OCTETS\x0012\x00PORT_STAT_COUNTER_time_stamp\x005\x00a\x00-2.5e3"],
    ),
    "redis_map": (redis_map, [b"Ethernet0\0oid:0x1000000000012\0Ethernet0:3\0oid:0x15\0host|Ethernet0:3\0oid:0x1"]),
    "redis_address": (redis_address, [b"redis://[fd00::1]:6380", b"unix:///var/run/redis.sock"]),
    "gnmi_path": (gnmi_path, [b"/interfaces/interface[name=Ethernet0/1]/state", rb"/a[b=c\]d\\][e=*]/oc:f"]),
    "gnmi_json": (gnmi_json, [b'{"oc:interface":[{"name":"Ethernet0","state":{"in-octets":"1","x":[1,2],"y":null}}]}']),
    "gnmi_message": (gnmi_message, [MESSAGE]),
}


def allowed(entry: Callable[[bytes], None], data: bytes) -> None:
    """Call an entry; our own errors are right answers to nonsense."""
    with contextlib.suppress(InputError, OutsideError):
        entry(data)
