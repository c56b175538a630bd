"""Names in questions to the history: `name_of('port', id)`, by the fabric of the newest run that it holds."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgpack

from railkeeper.base.errors import InputError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.telemetry.fabric_entities import nic_entities, node_entities, port_end_name, switch_entities

if TYPE_CHECKING:
    from collections.abc import Callable

_MAKERS = {"nic": nic_entities, "node": node_entities, "switch": switch_entities}


def add_names(db: Any) -> None:
    """Give a DuckDB connection the function `name_of(kind, id)`; null where there is no such entity, or no fabric."""
    fabric = newest_fabric(db)

    @functools.cache
    def names(kind: str) -> tuple[int, Callable[[int], str]] | None:
        return None if fabric is None else _names(fabric, kind)

    def name_of(kind: str | None, number: int | None) -> str | None:
        found = None if kind is None or number is None else names(kind)
        return found[1](number) if found is not None and number is not None and 0 <= number < found[0] else None

    db.create_function("name_of", name_of, ["VARCHAR", "BIGINT"], "VARCHAR", null_handling="special")


def newest_fabric(db: Any) -> Fabric | None:
    """Return the fabric of the newest run that the history holds, None where it holds none."""
    rows = db.execute("SELECT body FROM messages WHERE kind = 'running' ORDER BY t DESC LIMIT 1").fetchall()
    try:
        return Fabric(check_spec(msgpack.unpackb(rows[0][0])["spec"])) if rows else None
    except (InputError, ValueError, KeyError, TypeError):
        return None


def _names(fabric: Fabric, kind: str) -> tuple[int, Callable[[int], str]] | None:
    """Return how many entities of a kind there are, and what names them."""
    if kind == "port":
        # No table of the ports is made: that of the largest fabric takes long, and few are asked for.
        return 2 * fabric.n_links, functools.partial(port_end_name, fabric)
    maker = _MAKERS.get(kind)
    if maker is None:
        return None
    entities = maker(fabric)
    return len(entities), entities.name_of
