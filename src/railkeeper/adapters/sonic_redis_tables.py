"""Tables of a switch besides counters: states, optics, neighbours, configuration, capabilities.

Keys are made from the names of ports, not searched for: APPL_DB holds all routes, and a search of it would cost the
switch more than everything else here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railkeeper.adapters.sonic_redis_link import APPL_DB, CONFIG_DB, STATE_DB
from railkeeper.adapters.sonic_redis_values import numbers, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from railkeeper.adapters.sonic_redis_link import Link
    from railkeeper.adapters.sonic_redis_values import Value

STATE_EVERY_S = 10.0
OPTICS_EVERY_S = 60.0  # a switch reads its modules once a minute
CONFIG_EVERY_S = 300.0
MOST_PROFILES = 5_000


@dataclass(frozen=True)
class Table:
    """One table: its rows are ports (`row` empty), or one fixed row, or all rows of a small database ("*").

    - label: what the row's name is called; texts: its values are identities, never numbers
    """

    db: int
    name: str
    dialect: str
    every_s: float
    label: str = "port"
    row: str = ""
    texts: bool = False

    def key(self, row: str) -> str:
        """Return the key of a row."""
        return f"{self.name}{':' if self.db == APPL_DB else '|'}{row}"


def _optics(name: str, *, texts: bool = False) -> Table:
    return Table(STATE_DB, name, f"sonic.{name.lower()}", OPTICS_EVERY_S, texts=texts)


def _platform(name: str) -> Table:
    return Table(STATE_DB, name, f"sonic.{name.lower()}", OPTICS_EVERY_S, label="sensor", row="*")


def _vdm(level: str) -> Table:
    return _optics(f"TRANSCEIVER_VDM_{level}_FLAG")


def _capability(name: str, row: str) -> Table:
    return Table(STATE_DB, name, "sonic.capability", CONFIG_EVERY_S, label="capability", row=row, texts=True)


def _config(name: str, row: str = "", label: str = "port") -> Table:
    return Table(CONFIG_DB, name, f"sonic.config_{name.lower()}", CONFIG_EVERY_S, label=label, row=row, texts=True)


TABLES = (
    Table(APPL_DB, "PORT_TABLE", "sonic.appl_port", STATE_EVERY_S),
    Table(STATE_DB, "PORT_TABLE", "sonic.state_port", STATE_EVERY_S),
    Table(STATE_DB, "PORT_OPERR_TABLE", "sonic.port_operr", STATE_EVERY_S),
    Table(APPL_DB, "LLDP_ENTRY_TABLE", "sonic.lldp", OPTICS_EVERY_S, texts=True),
    _optics("TRANSCEIVER_INFO", texts=True),
    _optics("TRANSCEIVER_FIRMWARE_INFO", texts=True),
    _optics("TRANSCEIVER_DOM_SENSOR"),
    _optics("TRANSCEIVER_DOM_THRESHOLD"),
    _optics("TRANSCEIVER_DOM_FLAG", texts=True),
    _optics("TRANSCEIVER_VDM_REAL_VALUE"),
    *(_vdm(level) for level in ("HALARM", "LALARM", "HWARN", "LWARN")),
    _optics("TRANSCEIVER_STATUS", texts=True),
    _optics("TRANSCEIVER_STATUS_FLAG", texts=True),
    _optics("TRANSCEIVER_STATUS_SW", texts=True),
    _optics("TRANSCEIVER_PM"),
    *(_platform(name) for name in ("TEMPERATURE_INFO", "FAN_INFO", "PSU_INFO", "LIQUID_COOLING_INFO")),
    Table(STATE_DB, "SYSTEM_READY", "sonic.system_ready", OPTICS_EVERY_S, label="unit", row="SYSTEM_STATE"),
    _config("DEVICE_METADATA", "localhost", "device"),
    _config("PORT"),
    _config("DEVICE_NEIGHBOR"),
    _config("PORT_QOS_MAP"),
    _config("PFC_WD"),
    _config("CABLE_LENGTH", "AZURE", "profile"),
    _config("SWITCH_TRIMMING", "GLOBAL", "profile"),
    _config("WATERMARK_TABLE", "TELEMETRY_INTERVAL", "setting"),
    *(_config(name, "*", "profile") for name in ("WRED_PROFILE", "BUFFER_POOL", "BUFFER_PROFILE")),
    _config("DEVICE_NEIGHBOR_METADATA", "*", "neighbour"),
    _config("FLEX_COUNTER_TABLE", "*", "group"),
    _capability("SWITCH_CAPABILITY", "switch"),
    *(
        _capability("QUEUE_COUNTER_CAPABILITIES", f"WRED_ECN_QUEUE_{what}_COUNTER")
        for what in ("ECN_MARKED_PKT", "ECN_MARKED_BYTE", "WRED_DROPPED_PKT", "WRED_DROPPED_BYTE")
    ),
    *(
        _capability("PORT_COUNTER_CAPABILITIES", f"WRED_ECN_PORT_WRED_{what}_DROP_COUNTER")
        for what in ("GREEN", "YELLOW", "RED", "TOTAL")
    ),
    _capability("PORT_COUNTER_CAPABILITIES", "LLR"),
)


@dataclass(frozen=True)
class Row:
    """One row that is there; `values` None if its key holds no hash."""

    table: Table
    name: str
    values: Mapping[str, Value] | None


async def read_tables(link: Link, tables: Iterable[Table], ports: list[str]) -> list[Row]:
    """Return all rows that are there of the tables."""
    rows: list[Row] = []
    by_db: dict[int, list[tuple[Table, str]]] = {}
    for table in tables:
        by_db.setdefault(table.db, []).extend([(table, row) for row in await _rows(link, table, ports)])
    for db, wanted in by_db.items():
        # Keys come back in the order in which they are asked for.
        names = iter(wanted)
        async for _, found in link.hashes(db, [table.key(row) for table, row in wanted]):
            table, row = next(names)
            if found is None:
                rows.append(Row(table, row, None))
            elif found:
                rows.append(Row(table, row, texts(found) if table.texts else numbers(found)))
    return rows


async def _rows(link: Link, table: Table, ports: list[str]) -> list[str]:
    if not table.row:
        return ports
    if table.row != "*":
        return [table.row]
    start = table.key("")
    return [key[len(start) :] for key in await link.keys(table.db, f"{start}*", MOST_PROFILES)]


_WRED_QUEUE = "SAI_QUEUE_STAT_WRED_"
_NEEDS = {
    "WRED_ECN_QUEUE_ECN_MARKED_PKT_COUNTER": (f"{_WRED_QUEUE}ECN_MARKED_PACKETS",),
    "WRED_ECN_QUEUE_ECN_MARKED_BYTE_COUNTER": (f"{_WRED_QUEUE}ECN_MARKED_BYTES",),
    "WRED_ECN_QUEUE_WRED_DROPPED_PKT_COUNTER": (f"{_WRED_QUEUE}DROPPED_PACKETS",),
    "WRED_ECN_QUEUE_WRED_DROPPED_BYTE_COUNTER": (f"{_WRED_QUEUE}DROPPED_BYTES",),
    "WRED_ECN_PORT_WRED_GREEN_DROP_COUNTER": ("SAI_PORT_STAT_GREEN_WRED_DROPPED_PACKETS",),
    "WRED_ECN_PORT_WRED_YELLOW_DROP_COUNTER": ("SAI_PORT_STAT_YELLOW_WRED_DROPPED_PACKETS",),
    "WRED_ECN_PORT_WRED_RED_DROP_COUNTER": ("SAI_PORT_STAT_RED_WRED_DROPPED_PACKETS",),
    "WRED_ECN_PORT_WRED_TOTAL_DROP_COUNTER": ("SAI_PORT_STAT_WRED_DROPPED_PACKETS",),
}
_TRIMS = tuple(
    f"SAI_{thing}_STAT_{what}"
    for thing in ("PORT", "QUEUE", "SWITCH")
    for what in ("TRIM_PACKETS", "TX_TRIM_PACKETS", "DROPPED_TRIM_PACKETS")
)


def uncounted(rows: Iterable[Row]) -> frozenset[str]:
    """Return the counters that this switch says it can't count: a 0 of theirs is no zero, but no data."""
    return frozenset(name for row in rows for name in _uncounted_of(row))


def _uncounted_of(row: Row) -> Iterator[str]:
    values = row.values or {}
    if row.table.dialect != "sonic.capability":
        return
    if values.get("isSupported") == "false":
        yield from _NEEDS.get(row.name, ())
    if values.get("SWITCH_TRIMMING_CAPABLE") == "false":
        yield from _TRIMS


def stopped(rows: Iterable[Row]) -> frozenset[str]:
    """Return the flex-counter groups that the configuration has switched off: what stands there no longer moves."""
    return frozenset(
        group
        for row in rows
        if row.table.name == "FLEX_COUNTER_TABLE" and (row.values or {}).get("FLEX_COUNTER_STATUS") == "disable"
        for group in _GROUP_OF.get(row.name, ())
    )


_GROUP_OF = {
    "PORT": ("PORT_STAT_COUNTER",),
    "PORT_BUFFER_DROP": ("PORT_BUFFER_DROP_STAT",),
    "QUEUE": ("QUEUE_STAT_COUNTER",),
    "QUEUE_WATERMARK": ("QUEUE_WATERMARK_STAT_COUNTER",),
    "PG_DROP": ("PG_DROP_STAT_COUNTER",),
    "PG_WATERMARK": ("PG_WATERMARK_STAT_COUNTER",),
    "BUFFER_POOL_WATERMARK": ("BUFFER_POOL_WATERMARK_STAT_COUNTER",),
    "WRED_ECN_QUEUE": ("WRED_ECN_QUEUE_STAT_COUNTER",),
    "WRED_ECN_PORT": ("WRED_ECN_PORT_STAT_COUNTER",),
    "SWITCH": ("SWITCH_STAT_COUNTER",),
    "PORT_PHY_ATTR": ("PORT_PHY_ATTR",),
}
