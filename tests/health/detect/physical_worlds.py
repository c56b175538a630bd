"""A small world for detectors: a fabric whose ports, NICs and nodes count what a test says, tick by tick."""

from __future__ import annotations

import numpy as np

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.detect import engine
from railkeeper.telemetry.fabric_entities import nic_entities, node_entities, port_entities
from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block, Frame

START_S = 1_700_000_000
TICK_S = 15.0


def small_fabric(**change):
    shape = {"planes": 2, "t0_per_plane": 4, "t1_per_plane": 4, "nics_per_t0": 16} | change
    return Fabric(check_spec({"fabric": shape}))


class Columns:
    """The values of one kind of entity: rates per second of counters, levels of gauges; set them and tick."""

    def __init__(self, entities, rates, gauges):
        n = len(entities)
        self.entities = entities
        self.per_s = {name: np.full(n, float(value)) for name, value in rates.items()}
        self.total = {name: np.full(n, 1_000_000.0) for name in rates}
        self.gauge = {name: np.full(n, float(value), dtype=np.float32) for name, value in gauges.items()}
        self.silent = np.zeros(n, dtype=bool)
        self.absent = {}

    def at(self, name):
        return self.entities.id_of(name)

    def block(self, t_s, dt_s):
        names, gauges, n = tuple(self.per_s), tuple(self.gauge), len(self.entities)
        counters = np.empty((len(names), n), dtype=np.uint64)
        for row, name in enumerate(names):
            self.total[name] += self.per_s[name] * dt_s
            counters[row] = self.total[name].astype(np.uint64)
            counters[row][self.absent.get(name, [])] = ABSENT
        levels = np.array([self.gauge[g] for g in gauges], dtype=np.float32).reshape(len(gauges), n)
        for row, name in enumerate(gauges):
            levels[row][self.absent.get(name, [])] = np.nan
        counters[:, self.silent], levels[:, self.silent] = ABSENT, np.nan
        t_ns = np.where(self.silent, NO_TIME, int(t_s * 1e9))
        return Block(self.entities, t_ns, names, np.full(len(names), 64, dtype=np.uint8), counters, gauges, levels)


TRAFFIC = {"rx_bytes": 2e10, "tx_bytes": 2e10, "rx_packets": 5e6, "tx_packets": 5e6}


class World:
    """Healthy until told otherwise; `tick` returns what the detector says."""

    def __init__(
        self, detector, ports=None, gauges=None, nics=None, nic_gauges=None, node_gauges=None, parameters=None, **shape
    ):
        self.fabric = small_fabric(**shape)
        self.ports = Columns(port_entities(self.fabric), TRAFFIC | (ports or {}), gauges or {})
        self.nics = Columns(nic_entities(self.fabric), nics or {}, nic_gauges or {})
        self.nodes = Columns(node_entities(self.fabric), {}, node_gauges or {})
        self.kinds = {"port": self.ports, "nic": self.nics, "node": self.nodes}
        self.name = detector.about.name
        given = {self.name: parameters} if parameters else {}
        entities = {kind: c.entities for kind, c in self.kinds.items()}
        self.engine = engine.new([detector], entities, given, tick_s=TICK_S)
        self.t_s = float(START_S)
        self.said = {}

    def tick(self, times=1):
        for _ in range(times):
            self.t_s += TICK_S
            frame = Frame(self.t_s, {kind: c.block(self.t_s, TICK_S) for kind, c in self.kinds.items()})
            self.engine, self.said = engine.tick(self.engine, frame)
            assert not any(j.error for j in self.said.values()), [j.error for j in self.said.values()]
        return self.findings

    @property
    def findings(self):
        return [f for judged in self.said.values() for f in judged.findings]

    def verdicts(self, key=None):
        return self.said[key or self.name].verdicts

    def link_end(self, nic="n0/nic0/p0"):
        """The two ends of a NIC's link: (NIC end, switch end)."""
        port = self.ports.at(nic)
        return port, port ^ 1
