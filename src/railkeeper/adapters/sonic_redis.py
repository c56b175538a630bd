"""SONiC: everything that a switch's Redis says about ports, queues, buffers, optics and neighbours, as readings.

Only reading: see sonic_redis_link.py for what may be sent. Watermarks come from PERIODIC_WATERMARKS, which the switch
clears by itself; nothing is cleared by us. A switch of several ASICs has a Redis for each: one target for each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.adapters import sonic_redis_values as values_of
from railkeeper.adapters.sonic_redis_clock import StampClock
from railkeeper.adapters.sonic_redis_link import COUNTERS_DB, Address, Link
from railkeeper.adapters.sonic_redis_maps import FABRIC_PORT, KINDS, PG, POOL, PORT, QUEUE, SWITCH, VOQ, Maps, read_maps
from railkeeper.adapters.sonic_redis_tables import TABLES, Row, read_tables, stopped, uncounted
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railkeeper.adapters.secret import Secret
    from railkeeper.adapters.sonic_redis_maps import Kind, Thing
    from railkeeper.adapters.sonic_redis_values import Value

# How often the maps are read again because something that they name is not there: some ports have no counters for long.
MAPS_AGAIN_S = 30.0
# And also when nothing seems to have changed: queues get their names later than ports do.
MAPS_EVERY_S = 60.0


@dataclass(frozen=True)
class SonicSettings:
    """One Redis of one switch.

    - source: name of the source; switch: name of the switch, the label of all its readings; asic: its ASIC, or empty
    - interval_s: how often ports are read; queue_every_s, watermark_every_s: queues and priority groups, watermarks
    - rates: also tell RATES, the switch's own arithmetic, which serves as a cross-check only
    """

    source: str
    switch: str
    address: Address
    asic: str = ""
    username: str = ""
    password: Secret | None = None
    interval_s: float = 10.0
    timeout_s: float = 5.0
    queue_every_s: float = 10.0
    watermark_every_s: float = 60.0
    rates: bool = True


class SonicTarget:
    """A `Target`: asks for what is due. Inert until the first poll."""

    def __init__(self, settings: SonicSettings) -> None:
        self.settings = settings
        self.source = settings.source
        self.name = f"{settings.switch}/{settings.asic}" if settings.asic else settings.switch
        self.interval_s = settings.interval_s
        self.timeout_s = settings.timeout_s
        self._link = Link(
            settings.address, username=settings.username, password=settings.password, timeout_s=settings.timeout_s
        )
        self._broken = False
        self._clock = StampClock()
        self._maps: Maps | None = None
        self._maps_s = 0.0
        self._done_s: dict[str, float] = {}
        self._uncounted: frozenset[str] = frozenset()
        self._stopped: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"SonicTarget({self.name}, {self.settings.address})"

    async def poll(self) -> Sequence[Reading]:
        """Ask for what is due. Raises OutsideError when the switch does not answer, or not as a SONiC switch."""
        if self._broken:
            await self._link.close()  # what may still lie in its connections answers an older question
        self._broken = True
        readings = await self._poll(time.monotonic())
        self._broken = False
        return readings

    async def close(self) -> None:
        """Let go of connections."""
        await self._link.close()

    async def _poll(self, now_s: float) -> list[Reading]:
        due = self._due(now_s)
        tally = _Tally()
        maps = await self._current_maps(now_s, again=False)
        tables = [table for table in TABLES if f"every {table.every_s}" in due]
        rows = await read_tables(self._link, tables, maps.ports())
        self._learn(rows)
        found = await self._counters(maps, due, tally)
        if tally.empty and await self._renewed(now_s):
            tally = _Tally()
            assert self._maps is not None
            maps = self._maps
            found = await self._counters(maps, due, tally)
        tally.malformed += maps.malformed
        self._done_s.update(dict.fromkeys(due, now_s))
        return [*self._placed(found), *self._rows(rows, tally), *self._account(tally)]

    def _due(self, now_s: float) -> set[str]:
        """Return what is to be read now: kinds, and tables by their interval."""
        s = self.settings
        every = {
            **{kind.name: s.interval_s for kind in (PORT, POOL, SWITCH, FABRIC_PORT)},
            **{kind.name: s.queue_every_s for kind in (QUEUE, PG, VOQ)},
            **{f"every {table.every_s}": table.every_s for table in TABLES},
            "watermarks": s.watermark_every_s,
            "rates": s.interval_s,
        }
        if not s.rates:
            del every["rates"]
        # A tenth early is in time: the runner's own intervals are never exact.
        return {what for what, s in every.items() if now_s - self._done_s.get(what, -1e9) >= s * 0.9}

    async def _current_maps(self, now_s: float, *, again: bool) -> Maps:
        """Return the maps; all are read again when the ports' map says other ids than before, or they are old."""
        again = again or now_s - self._maps_s >= MAPS_EVERY_S
        ports = await self._link.one(COUNTERS_DB, PORT.map_key) if self._maps and not again else None
        if self._maps is None or again or ports is None or not _same_ports(self._maps, ports):
            self._maps, self._maps_s = await read_maps(self._link), now_s
        return self._maps

    async def _renewed(self, now_s: float) -> bool:
        """Read the maps again because an id of them is gone; tell whether they differ."""
        if now_s - self._maps_s < MAPS_AGAIN_S:
            return False
        before = self._maps
        return await self._current_maps(now_s, again=True) != before

    def _learn(self, rows: Sequence[Row]) -> None:
        if any(row.table.dialect == "sonic.capability" for row in rows):
            self._uncounted = uncounted(rows)
        if any(row.table.name == "FLEX_COUNTER_TABLE" for row in rows):
            self._stopped = stopped(rows)

    async def _counters(self, maps: Maps, due: set[str], tally: _Tally) -> list[_Found]:
        found: list[_Found] = []
        for kind in KINDS:
            things = maps.things.get(kind.name, [])
            for prefix, dialect in _prefixes(kind, due):
                keys = [f"{prefix}:{thing.oid}" for thing in things]
                at = iter(things)
                async for key, answer in self._link.hashes(COUNTERS_DB, keys):
                    thing = next(at)
                    tally.count(key, answer, expected=prefix == "COUNTERS")
                    if answer:
                        found += _parts(kind, dialect, thing, answer, time.time_ns())
        return found

    def _placed(self, found: Sequence[_Found]) -> list[Reading]:
        """Return the readings, each with the time at which its group of counters was read by the switch."""
        self._clock.learn([(one.group, one.stamp, one.read_ns) for one in found if one.stamp is not None])
        return [self._reading(one) for one in found]

    def _reading(self, one: _Found) -> Reading:
        t_ns = one.read_ns if one.stamp is None else self._clock.unix_ns((one.thing.oid, one.group), one.stamp)
        values = dict.fromkeys(one.values) if one.group in self._stopped else one.values
        for name in self._uncounted & values.keys():
            values[name] = None
        return self._told(one.dialect, one.thing.labels, t_ns, values)

    def _rows(self, rows: Sequence[Row], tally: _Tally) -> list[Reading]:
        t_ns = time.time_ns()
        tally.malformed += [row.table.key(row.name) for row in rows if row.values is None]
        return [
            self._told(row.table.dialect, {row.table.label: row.name}, t_ns, row.values)
            for row in rows
            if row.values is not None
        ]

    def _account(self, tally: _Tally) -> list[Reading]:
        return [self._told("sonic.reader", {}, time.time_ns(), tally.values())]

    def _told(self, dialect: str, labels: Mapping[str, str], t_ns: int, values: Mapping[str, Value]) -> Reading:
        mine = {"switch": self.settings.switch, **({"asic": self.settings.asic} if self.settings.asic else {})}
        return Reading(self.source, self.name, dialect, {**mine, **labels}, t_ns, values)


@dataclass(frozen=True)
class _Found:
    """The fields of one hash that one group writes; stamp: on the switch's clock, None if it has none."""

    dialect: str
    thing: Thing
    group: str
    stamp: int | None
    values: dict[str, Value]
    read_ns: int


def _parts(kind: Kind, dialect: str, thing: Thing, answer: Mapping[bytes, bytes], read_ns: int) -> list[_Found]:
    if dialect != kind.dialect:
        return [_Found(dialect, thing, "", None, values_of.numbers(answer), read_ns)]
    groups = values_of.by_group(answer, kind.groups)
    return [_Found(dialect, thing, group, stamp, values, read_ns) for group, (stamp, values) in groups.items()]


def _prefixes(kind: Kind, due: set[str]) -> list[tuple[str, str]]:
    """Return which hashes of a kind are due, each with the dialect of its readings."""
    wanted = []
    if kind.name in due:
        wanted.append(("COUNTERS", kind.dialect))
    if kind.periodic and "watermarks" in due:
        wanted.append(("PERIODIC_WATERMARKS", f"{kind.dialect}_watermarks"))
    if kind is PORT and "rates" in due:
        wanted.append(("RATES", "sonic.rates"))
    if kind is PORT and "port" in due:
        wanted.append(("PORT_PHY_ATTR", "sonic.port_phy_attr"))
    return wanted


def _same_ports(maps: Maps, ports: Mapping[bytes, bytes]) -> bool:
    known = {thing.labels["port"]: thing.oid for thing in maps.things.get("port", [])}
    said = {values_of.text(name): values_of.text(oid) for name, oid in ports.items()}
    return known == said


class _Tally:
    """What was read and what could not be, so that nothing is passed over in silence."""

    def __init__(self) -> None:
        self.objects = 0
        self.empty = 0
        self.malformed: list[str] = []

    def count(self, key: str, answer: Mapping[bytes, bytes] | None, *, expected: bool) -> None:
        if answer is None:
            self.malformed.append(key)
        self.objects += bool(answer)
        self.empty += answer is not None and not answer and expected

    def values(self) -> dict[str, Value]:
        return {
            "objects": self.objects,
            "objects_without_counters": self.empty,
            "malformed": len(self.malformed),
            "malformed_first": self.malformed[0] if self.malformed else "",
        }
