"""Which locator a keeper uses: the dense one for fabrics of a lab's or a cluster's size, the sparse one for fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.health.fleet.locate import judge_fleet, new_fleet, seed_fleet
from railkeeper.health.fleet.state import FleetLocator
from railkeeper.health.locate import LocatorState, judge, new_state, seed_state
from railkeeper.probe.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault, LocatorConfig, Observation

    Locator = LocatorState | FleetLocator

# Rows of all agents' plans from which on the sparse locator is used: below, the dense one is as fast and also tells
# what ports alone show.
FLEET_ROWS = 50_000


def is_fleet(fabric: Fabric) -> bool:
    """Return whether a fabric's probes are too many paths for the dense locator."""
    return len(make_plan(fabric, 0)) * fabric.n_nodes > FLEET_ROWS


def begin_locating(fabric: Fabric, config: LocatorConfig, open_faults: Iterable[Fault]) -> Locator:
    """Return a locator for a fabric that knows of some open faults."""
    if is_fleet(fabric):
        return seed_fleet(new_fleet(fabric, config), open_faults)
    return seed_state(new_state(fabric, config), open_faults)


def locate(state: Locator, observation: Observation) -> tuple[Locator, tuple[Fault, ...]]:
    """Return the next state and the faults of a tick."""
    if isinstance(state, FleetLocator):
        return judge_fleet(state, observation)
    return judge(state, observation)
