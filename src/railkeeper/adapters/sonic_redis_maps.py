"""Names of a switch's objects: COUNTERS_DB keeps its counters under object ids, and the ids under names in maps.

Ids are given anew whenever the switch's orchestration agent starts, so that a map is only as good as its last reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.adapters.sonic_redis_link import COUNTERS_DB
from railkeeper.adapters.sonic_redis_values import Groups, text
from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railkeeper.adapters.sonic_redis_link import Link

# 1,024 ports with 20 queues each: more than any switch has.
MOST_NAMES = 50_000
_OID = re.compile(rb"oid:0x[0-9a-fA-F]{1,16}\Z")


@dataclass(frozen=True)
class Kind:
    """One kind of object: the map of its names, how its readings are called, and which group writes which field.

    - split: the label of what stands after the last colon of the name (`Ethernet0:3`), empty if the name is whole
    - periodic: its watermarks stand in PERIODIC_WATERMARKS
    """

    name: str
    map_key: str
    label: str
    groups: Groups
    split: str = ""
    periodic: bool = False

    @property
    def dialect(self) -> str:
        """Return which bindings its names belong to."""
        return f"sonic.{self.name}"


_WATERMARK = ("WATERMARK",)
_PFC_WD = ("PFC_WD", ("PFC_WD_", "EST_PORT_STAT_"))

PORT = Kind(
    "port",
    "COUNTERS_PORT_NAME_MAP",
    "port",
    Groups(
        "PORT_STAT_COUNTER",
        (
            ("PORT_BUFFER_DROP_STAT", ("_STAT_IN_DROPPED_PKTS", "_STAT_OUT_DROPPED_PKTS")),
            ("WRED_ECN_PORT_STAT_COUNTER", ("WRED_DROPPED", "ECN_MARKED")),
            _PFC_WD,
        ),
    ),
)
QUEUE = Kind(
    "queue",
    "COUNTERS_QUEUE_NAME_MAP",
    "port",
    Groups(
        "QUEUE_STAT_COUNTER",
        (
            ("QUEUE_WATERMARK_STAT_COUNTER", _WATERMARK),
            ("WRED_ECN_QUEUE_STAT_COUNTER", ("_WRED_",)),
            _PFC_WD,
        ),
    ),
    split="queue",
    periodic=True,
)
PG = Kind(
    "pg",
    "COUNTERS_PG_NAME_MAP",
    "port",
    Groups("PG_DROP_STAT_COUNTER", (("PG_WATERMARK_STAT_COUNTER", _WATERMARK),)),
    split="pg",
    periodic=True,
)
POOL = Kind(
    "pool",
    "COUNTERS_BUFFER_POOL_NAME_MAP",
    "pool",
    Groups("BUFFER_POOL_WATERMARK_STAT_COUNTER"),
    periodic=True,
)
SWITCH = Kind("switch", "COUNTERS_SWITCH_NAME_MAP", "unit", Groups("SWITCH_STAT_COUNTER"))
FABRIC_PORT = Kind("fabric_port", "COUNTERS_FABRIC_PORT_NAME_MAP", "port", Groups("FABRIC_PORT_STAT_COUNTER"))
VOQ = Kind("voq", "COUNTERS_VOQ_NAME_MAP", "system_port", Groups("QUEUE_STAT_COUNTER"), split="queue")
KINDS = (PORT, QUEUE, PG, POOL, SWITCH, FABRIC_PORT, VOQ)


@dataclass(frozen=True)
class Thing:
    """One object: its labels (without the switch's) and its id."""

    labels: Mapping[str, str]
    oid: str


@dataclass
class Maps:
    """All objects of a switch by kind, and the names whose ids could not be read."""

    things: dict[str, list[Thing]] = field(default_factory=dict)
    malformed: list[str] = field(default_factory=list)

    def ports(self) -> list[str]:
        """Return the names of the front ports."""
        return [thing.labels["port"] for thing in self.things.get("port", [])]


async def read_maps(link: Link) -> Maps:
    """Ask the switch for all maps. Raises OutsideError if one holds more names than a switch has."""
    maps = Maps()
    async for key, found in link.hashes(COUNTERS_DB, [kind.map_key for kind in KINDS]):
        kind = next(kind for kind in KINDS if kind.map_key == key)
        if found is None:
            maps.malformed.append(key)
        else:
            add_things(maps, kind, found)
    return maps


def add_things(maps: Maps, kind: Kind, found: Mapping[bytes, bytes]) -> None:
    """Add a map's names. One that is not well formed goes to `malformed`, and the others are read all the same."""
    if len(found) > MOST_NAMES:
        raise OutsideError(f"{kind.map_key} holds {len(found)} names: more than {MOST_NAMES} are not read")
    things = maps.things.setdefault(kind.name, [])
    for raw_name, raw_oid in found.items():
        labels = _labels(kind, text(raw_name))
        if labels is None or not _OID.match(raw_oid):
            maps.malformed.append(f"{kind.map_key} {text(raw_name)}")
        else:
            things.append(Thing(labels, raw_oid.decode("ascii")))


def _labels(kind: Kind, name: str) -> dict[str, str] | None:
    if not kind.split:
        return {kind.label: name} if name else None
    owner, colon, index = name.rpartition(":")
    if not (colon and owner and index.isascii() and index.isdigit()):
        return None
    return {kind.label: owner, kind.split: index}
