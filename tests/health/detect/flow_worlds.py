"""Ticks of telemetry written by hand: columns of rates and gauges over a small fabric, and a run of one detector."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.detect.finding import VERDICTS, Judged
from railkeeper.health.detect.view import View
from railkeeper.telemetry.entities import Entities
from railkeeper.telemetry.fabric_entities import nic_entities, node_entities, port_entities, switch_entities
from railkeeper.telemetry.frame import OK, Block, Rates

NAN = float("nan")
MAKERS = {"port": port_entities, "nic": nic_entities, "node": node_entities, "switch": switch_entities}


def fabric_of(planes=2, t0=4, t1=4, nics=8, *, per_node=1, rails=1) -> Fabric:
    table = {
        "planes": planes, "t0_per_plane": t0, "t1_per_plane": t1, "nics_per_t0": nics, "nics_per_node": per_node,
        "rails": rails, "link_gbps": 100,
    }  # fmt: skip
    return Fabric(check_spec({"fabric": table}))


def view_of(entities: Entities, rates: dict, gauges: dict, now_s: float, tick_s: float, beside: dict) -> View:
    n = len(entities)
    per_s = np.stack([*rates.values()]).astype(np.float32) if rates else np.empty((0, n), dtype=np.float32)
    table = np.stack([*gauges.values()]).astype(np.float32) if gauges else np.empty((0, n), dtype=np.float32)
    block = Block(
        entities, np.full(n, int(now_s * 1e9)), tuple(rates), np.full(len(rates), 64, dtype=np.uint8),
        np.zeros((len(rates), n), dtype=np.uint64), tuple(gauges), table,
    )  # fmt: skip
    flags = np.full(per_s.shape, OK, dtype=np.uint8)
    return View(now_s, tick_s, block, Rates(tuple(rates), np.full(n, tick_s, dtype=np.float32), per_s, flags), beside)


@dataclass
class Ticks:
    """A detector over the entities of a kind, fed with columns until it is asked what it says."""

    detector: object
    fabric: Fabric
    kind: str = "port"
    tick_s: float = 20.0
    parameters: dict = field(default_factory=dict)
    now_s: float = 1e9
    entities: Entities | None = None

    def __post_init__(self):
        if self.entities is None:
            self.entities = MAKERS[self.kind](self.fabric)
        self.state = self.detector.start(self.entities, self.parameters)
        self.last: Judged | None = None

    @property
    def n(self) -> int:
        return len(self.entities)

    def fill(self, value=0.0):
        return np.full(self.n, value, dtype=np.float32)

    def id(self, name: str) -> int:
        found = self.entities.id_of(name)
        assert found is not None, name
        return found

    def run(self, rates=None, gauges=None, *, ticks=1, beside=None) -> Judged:
        """Judge the same columns for some ticks; `beside` is kind -> (rates, gauges) of other kinds."""
        for _ in range(ticks):
            self.now_s += self.tick_s
            views = {
                kind: view_of(MAKERS[kind](self.fabric), r, g, self.now_s, self.tick_s, {})
                for kind, (r, g) in (beside or {}).items()
            }
            view = view_of(self.entities, rates or {}, gauges or {}, self.now_s, self.tick_s, views)
            views[self.kind] = view
            self.state, self.last = self.detector.judge(self.state, view)
        assert self.last is not None
        return self.last

    def found(self) -> list[str]:
        return [self.entities.name_of(f.entity) for f in self.last.findings]

    def verdict(self, entity: int) -> str:
        return VERDICTS[self.last.verdicts[entity]]
