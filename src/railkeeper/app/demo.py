"""The demonstration: a small fabric, three faults, each found, avoided and forgotten before your eyes."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from railkeeper.fabric.faults import parse_fault

if TYPE_CHECKING:
    from typing import Any

    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.fabric.model import Fabric

SPEC = """
[fabric]
name = "demo"
planes = 2
t0_per_plane = 4
t1_per_plane = 4
nics_per_t0 = 4
link_gbps = 100
[optics]
nic_ports_per_optic = 2
t0_ports_per_optic = 4
"""

SCENARIO: tuple[dict[str, Any], ...] = (
    {"id": "gray-link", "kind": "loss", "target": "p0/t0-1--p0/t1-2", "direction": "up", "rate": 0.05},
    {"id": "dead-spine", "kind": "blackhole", "target": "p1/t1-0"},
    {"id": "slow-nic-link", "kind": "slow", "target": "n6/nic0/p0--p0/t0-1", "direction": "down", "gbps": 10},
)


def spec() -> dict[str, Any]:
    """Return the demonstration's fabric spec."""
    return tomllib.loads(SPEC)


def scenario(fabric: Fabric) -> list[InjectedFault]:
    """Return the demonstration's faults."""
    return [parse_fault(fabric, fault, where="demo") for fault in SCENARIO]
