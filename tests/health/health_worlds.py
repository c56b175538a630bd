"""Small fabrics, and a runner that follows the locator through a synthetic world."""

from __future__ import annotations

from dataclasses import dataclass, field

from railkeeper.fabric.components import links_of
from railkeeper.fabric.faults import InjectedFault, parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.fault import Fault, LocatorConfig
from railkeeper.health.locate import judge, new_state
from railkeeper.health.synth import Event, World

SMALL = "[fabric]\nplanes = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 4\n"
OPTICS = "[optics]\nnic_ports_per_optic = 2\nt0_ports_per_optic = 4\n"
START_S = 6.1


def small_fabric(*, optics: bool = True) -> Fabric:
    return Fabric(parse_spec(SMALL + (OPTICS if optics else "")))


def fault(fabric: Fabric, kind: str, target: str, direction: str | None = None, **numbers: float) -> InjectedFault:
    data = {"id": f"{kind}:{target}", "kind": kind, "target": target, **numbers}
    return parse_fault(fabric, data if direction is None else {**data, "direction": direction}, where="test")


@dataclass
class Story:
    """What was told, tick by tick: `told` the distinct (kind, target, direction, status) of each key, in order."""

    world: World
    config: LocatorConfig = field(default_factory=LocatorConfig)
    told: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    first_s: dict[str, float] = field(default_factory=dict)
    last: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        self.state = new_state(self.world.fabric, self.config)
        self.tick = 0

    def run_until(self, t_s: float) -> Story:
        while self.tick * self.world.tick_s < t_s:
            self.observe(self.world.tick(self.tick))
        return self

    def observe(self, observation) -> tuple[Fault, ...]:
        self.state, self.last = judge(self.state, observation)
        self.tick += 1
        for f in self.last:
            row = (f.kind, f.target, f.direction, f.status)
            rows = self.told.setdefault(f.key, [])
            self.first_s.setdefault(f.key, self.tick * self.world.tick_s + 0.25)
            if not rows or rows[-1] != row:
                rows.append(row)
        return self.last

    @property
    def open(self) -> list[Fault]:
        return [f for f in self.last if f.status != "cleared"]

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        return [row for rows in self.told.values() for row in rows]


def story(fabric: Fabric, *faults: InjectedFault, end_s: float = 1e9, seed: int = 1, **world) -> Story:
    """A world in which the faults begin together at START_S."""
    return Story(World(fabric, [Event(f, START_S, end_s) for f in faults], seed=seed, **world))


def is_same(fabric: Fabric, told: Fault, injected: InjectedFault) -> bool:
    """Whether a told fault is the injected one: same links, same kind, a direction that it says fits."""
    links = set(links_of(fabric, parse_name(fabric, told.target)).tolist())
    return (
        links == set(links_of(fabric, injected.target).tolist())
        and told.kind == injected.kind
        and injected.direction in told.directions
        and injected.target_name in _names(fabric, told, injected)
    )


def _names(fabric: Fabric, told: Fault, injected: InjectedFault) -> set[str]:
    return {told.target, *told.indistinguishable}
