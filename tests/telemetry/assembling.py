"""Readings and frames for tests, in few words."""

from __future__ import annotations

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec
from railkeeper.telemetry.assemble import Assembler
from railkeeper.telemetry.frame import ABSENT, Block
from railkeeper.telemetry.named_places import NamedPlaces
from railkeeper.telemetry.reading import Reading

SECOND = 10**9
T0 = 1_800_000_000  # s


def reading(dialect, labels, values, *, t=0.0, source="a", target="x"):
    """A reading `t` seconds after the start."""
    return Reading(source, target, dialect, labels, T0 * SECOND + round(t * SECOND), values)


def host(dialect, values, *, name="h1", device="mlx5_0", port="1", **more):
    return reading(dialect, {"host": name, "device": device, "port": port}, values, **more)


def switch(dialect, values, *, name="s1", port="Ethernet0", labels=None, **more):
    return reading(dialect, {"switch": name, "port": port, **(labels or {})}, values, **more)


def assembler(**options) -> Assembler:
    return Assembler(NamedPlaces(), **options)


def frame_at(a: Assembler, t: float):
    return a.frame(T0 + t)


def value(block: Block, name: str, column: str):
    """A value of an entity; None where it is absent."""
    i = block.entities.id_of(name)
    if column in block.counter_names:
        found = int(block.counters[block.counter_names.index(column), i])
        return None if found == ABSENT else found
    found = float(block.gauges[block.gauge_names.index(column), i])
    return None if found != found else found


def seconds(block: Block, name: str, column: str) -> float:
    """When a counter was sampled, in seconds after the start."""
    k, i = block.counter_names.index(column), block.entities.id_of(name)
    times = block.t_ns if block.times is None else block.times[block.time_of[k]]
    return (int(times[i]) - T0 * SECOND) / SECOND


def width(block: Block, name: str, column: str) -> int:
    k, i = block.counter_names.index(column), block.entities.id_of(name)
    return int(block.widths[k] if block.widths_at is None else block.widths_at[k, i])


def small_fabric(*, planes=4, rails=1, nics_per_node=1) -> Fabric:
    return Fabric(
        parse_spec(
            f"""[fabric]
            name = "small"
            planes = {planes}
            t0_per_plane = 4
            t1_per_plane = 4
            nics_per_t0 = 4
            nics_per_node = {nics_per_node}
            rails = {rails}
            link_gbps = 100""",
            where="small",
        )
    )
