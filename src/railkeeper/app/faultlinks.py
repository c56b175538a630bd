"""Which links a located fault is on, and whether anything still passes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault

# Nothing passes a part with such a fault.
DEAD_KINDS = frozenset({"down", "flap", "blackhole", "reboot", "optic", "node-down"})


def links_of_fault(fabric: Fabric, fault: Fault) -> npt.NDArray[np.int32]:
    """Return the ids of a fault's links: those of its target, or of what it denies where that is no part by name."""
    try:
        return links_of(fabric, parse_name(fabric, fault.target))
    except InputError:
        return np.unique(np.array(fault.denied_links, dtype=np.int32) // 2)
