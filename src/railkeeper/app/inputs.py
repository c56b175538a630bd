"""TickInput: all that the keeper is told in one tick, and its wire form.

The keeper's answers are a function of these inputs and of nothing else (no clock, no I/O), so a log of them is a
recording, and a recording replays to the same answers bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.health.slo.scopes import Job
from railkeeper.lab.traffic.flowstats import decode_flows, encode_flows
from railkeeper.probe.pathstats import decode_report, encode_report
from railkeeper.telemetry.ports import PortStates

if TYPE_CHECKING:
    from railkeeper.lab.traffic.flowstats import FlowReport
    from railkeeper.probe.pathstats import TickReport

SCHEMA = 1


@dataclass(frozen=True)
class Confirmation:
    """A sender's word that it holds a version of the denied set: `paths` of its EVs denied, `refused` kept in use."""

    sender: str
    version: int
    paths: int
    refused: int


@dataclass(frozen=True)
class TickInput:
    """One tick as the keeper sees it.

    `reports` are the agents' for this tick, ordered by node; `late` are reports of earlier ticks (kept, not judged);
    `flows` are the senders' reports that came in this tick, ordered by node and tick; `ports` is None where no switch
    is read. `frame` is the telemetry of a frame's time that ended with this tick, in its wire form, a piece for each
    kind of entity; `jobs` are those that run, None where nobody says.
    """

    tick: int
    reports: tuple[TickReport, ...]
    late: tuple[TickReport, ...] = ()
    ports: PortStates | None = None
    flows: tuple[FlowReport, ...] = ()
    confirmations: tuple[Confirmation, ...] = ()
    frame: tuple[bytes, ...] = ()
    jobs: tuple[Job, ...] | None = None


def encode_input(value: TickInput) -> bytes:
    """Return the wire form of a tick."""
    return bytes(
        msgpack.packb(
            {
                "schema": SCHEMA,
                "tick": value.tick,
                "reports": [encode_report(r) for r in value.reports],
                "late": [encode_report(r) for r in value.late],
                "ports": None if value.ports is None else pack_ports(value.ports),
                "flows": [encode_flows(r) for r in value.flows],
                "confirmations": [pack_flat(c) for c in value.confirmations],
                "frame": list(value.frame),
                "jobs": pack_jobs(value.jobs),
            }
        )
    )


def decode_input(data: bytes, *, where: str = "recording") -> TickInput:
    """Read the wire form; raises InputError on anything that is not one."""
    try:
        return _decode(msgpack.unpackb(data), where)
    except InputError:
        raise
    except Exception as e:  # whatever a stranger's bytes can raise, the answer is the same
        raise InputError(where, f"holds a broken tick ({type(e).__name__}: {e})", "record it again") from e


def _decode(d: dict[str, Any], where: str) -> TickInput:
    if d["schema"] != SCHEMA:
        raise InputError(f"{where}: schema", f"is {d['schema']!r}", f"this release reads schema {SCHEMA}")
    return TickInput(
        tick=int(d["tick"]),
        reports=tuple(decode_report(r, where=where) for r in d["reports"]),
        late=tuple(decode_report(r, where=where) for r in d["late"]),
        ports=None if d["ports"] is None else unpack_ports(d["ports"]),
        flows=tuple(decode_flows(r, where=where) for r in d["flows"]),
        confirmations=tuple(Confirmation(**c) for c in d["confirmations"]),
        # Recordings of before know neither.
        frame=tuple(map(bytes, d.get("frame", ()))),
        jobs=unpack_jobs(d.get("jobs")),
    )


def pack_jobs(jobs: tuple[Job, ...] | None) -> list[tuple[str, list[int]]] | None:
    """Return jobs as plain values."""
    return None if jobs is None else [(job.name, list(job.nodes)) for job in jobs]


def unpack_jobs(data: Any) -> tuple[Job, ...] | None:
    """Return the jobs of such values."""
    return None if data is None else tuple(Job(str(name), tuple(map(int, nodes))) for name, nodes in data)


def pack_flat(value: Confirmation) -> dict[str, Any]:
    """Return a confirmation as plain values."""
    return {f.name: getattr(value, f.name) for f in fields(value)}


def pack_ports(p: PortStates) -> dict[str, bytes]:
    """Return port states as bytes by column."""
    return {f.name: getattr(p, f.name).tobytes() for f in fields(p)}


def unpack_ports(d: dict[str, bytes]) -> PortStates:
    """Return the port states of such bytes."""
    return PortStates(
        lower=np.frombuffer(d["lower"], dtype=np.int8),
        upper=np.frombuffer(d["upper"], dtype=np.int8),
        lower_downs=np.frombuffer(d["lower_downs"], dtype="<i8"),
        upper_downs=np.frombuffer(d["upper_downs"], dtype="<i8"),
        switch_answers=np.frombuffer(d["switch_answers"], dtype=np.int8),
    )
