"""What a closed tick was made of, for the history: which reports, what the switches said, who confirmed what.

Reports and flows are in the history anyway, as they came. Which of them were in time for which tick is known only to
the keeper that closed it; with this record, a tick can be put together again exactly, and judged again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from railkeeper.app.inputs import Confirmation, pack_flat, pack_jobs, pack_ports, unpack_jobs, unpack_ports
from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from railkeeper.app.inputs import TickInput
    from railkeeper.health.slo.scopes import Job
    from railkeeper.telemetry.ports import PortStates

SCHEMA = 1
# Kinds of the keeper's own records: what a run began with, that it still goes on (with its settings), what a tick was
# made of, and pieces of its frame. Their sender is `keeper/RUN`; those of ticks are numbered through the run.
SETUP, RUNNING, CLOSED, FRAME = "setup", "running", "closed", "frame"
# Port states seldom change: in between they are written only this often, so that a reader need not look back far.
WHOLE_PORTS_TICKS = 64


@dataclass(frozen=True)
class ClosedTick:
    """One tick: keys of its reports, late reports and flows as (node, tick), and what is nowhere else.

    `ports` are those of the switches; `same_ports` says that they are those of the tick closed before.
    `pieces` is how many records of kind `frame` its frame has.
    """

    tick: int
    reports: tuple[tuple[int, int], ...]
    late: tuple[tuple[int, int], ...]
    flows: tuple[tuple[int, int], ...]
    confirmations: tuple[Confirmation, ...]
    ports: PortStates | None
    same_ports: bool
    pieces: int
    jobs: tuple[Job, ...] | None


def same_ports(one: PortStates | None, other: PortStates | None) -> bool:
    """Return whether two readings of the switches say the same."""
    if one is None or other is None:
        return one is other
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


def encode_closed(given: TickInput, *, same_ports: bool) -> bytes:
    """Return the wire form of what a tick was made of."""
    return bytes(
        msgpack.packb(
            {
                "schema": SCHEMA,
                "tick": given.tick,
                "reports": [(r.node, r.tick) for r in given.reports],
                "late": [(r.node, r.tick) for r in given.late],
                "flows": [(r.node, r.tick) for r in given.flows],
                "confirmations": [pack_flat(c) for c in given.confirmations],
                "ports": None if given.ports is None or same_ports else pack_ports(given.ports),
                "same_ports": same_ports,
                "pieces": len(given.frame),
                "jobs": pack_jobs(given.jobs),
            }
        )
    )


def decode_closed(data: bytes, *, where: str = "history") -> ClosedTick:
    """Read the wire form; raises InputError on anything that is not one."""
    try:
        return _decode(msgpack.unpackb(data))
    except Exception as e:  # whatever damaged bytes can raise, the answer is the same
        raise InputError(where, f"holds a broken tick ({type(e).__name__}: {e})", "restore the file") from e


def _decode(d: dict[str, Any]) -> ClosedTick:
    if d["schema"] != SCHEMA:
        raise ValueError(f"schema {d['schema']!r}; this release reads {SCHEMA}")
    keys = {name: tuple((int(node), int(tick)) for node, tick in d[name]) for name in ("reports", "late", "flows")}
    return ClosedTick(
        tick=int(d["tick"]),
        **keys,
        confirmations=tuple(Confirmation(**c) for c in d["confirmations"]),
        ports=None if d["ports"] is None else unpack_ports(d["ports"]),
        same_ports=bool(d["same_ports"]),
        pieces=int(d["pieces"]),
        jobs=unpack_jobs(d["jobs"]),
    )
