"""Simulated days: frames of a fabric on which nothing is wrong, with all that is life; faults can be put into them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.health.detect.days.episodes import Episodes, Outages, draw_episodes, plan_outages
from railkeeper.health.detect.days.flows import (
    Paths,
    bytes_on_ports,
    congest,
    draw_paths,
    flow_columns,
    frames_of_pause,
    hold,
)
from railkeeper.health.detect.days.jobs import Job, demand_at, plan_jobs
from railkeeper.health.detect.days.sampling import Answers, Meter
from railkeeper.health.detect.days.transport import active_paths, not_ready, transport_columns
from railkeeper.health.detect.days.wear import (
    Wear,
    draw_wear,
    host_columns,
    host_gauges,
    optics_gauges,
    physical_columns,
    warmth,
)
from railkeeper.telemetry.entities import NIC_END
from railkeeper.telemetry.fabric_entities import nic_entities, node_entities, port_entities, switch_entities
from railkeeper.telemetry.frame import Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Doubles = npt.NDArray[np.float64]
    Columns = dict[str, Doubles]
    Fault = Callable[["Moment"], None]

FABRIC = {
    "name": "days", "planes": 4, "t0_per_plane": 8, "t1_per_plane": 8, "nics_per_t0": 32, "nics_per_node": 4,
    "link_gbps": 100.0,
}  # fmt: skip
START_S = 1_750_000_000.0  # a Sunday in June: any moment does
# Pause and retransmits of these NICs are counted in frames only, as some vendors do.
_OTHER_VENDOR = 4
_MISSES, _REPEATS = 5e-4, 1e-3
_ZERO = (
    "rx_discards", "tx_discards", "tx_wred_drops", "link_downs", "pause_rx_frames", "pause_tx_frames",
    "pfc_rx_paused_us[3]", "pfc_tx_paused_us[3]", "trim_dropped_packets",
)  # fmt: skip


@dataclass
class Moment:
    """Everything of one tick before it is read: rates per s and gauges by kind; faults change it in place."""

    t_s: float
    tick_s: float
    counters: dict[str, Columns]
    gauges: dict[str, Columns]
    silent: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Life:
    """All that was drawn before the days began."""

    jobs: list[Job]
    outages: Outages
    paths: Paths
    wear: Wear
    hot: Episodes
    incast: Episodes
    holds: Episodes
    late: Episodes
    stalls: Episodes
    offset_s: Doubles
    phase_s: Doubles


class World:
    """A fabric over some days. Frames come in order; the same seed gives the same frames."""

    def __init__(self, days: float, seed: int, tick_s: float = 30.0, fabric: Fabric | None = None) -> None:
        self.fabric = fabric or Fabric(check_spec({"fabric": FABRIC}))
        self.days, self.tick_s = days, tick_s
        self.rng = np.random.default_rng([seed, 11])
        self.entities: dict[str, Entities] = {
            e.kind: e
            for e in (make(self.fabric) for make in (port_entities, nic_entities, node_entities, switch_entities))
        }
        self.life = _draw(self.fabric, self.entities, days, np.random.default_rng([seed, 7]))
        self.meters = {
            kind: Meter(e, np.random.default_rng([seed, k])) for k, (kind, e) in enumerate(self.entities.items())
        }
        self._was_down = np.zeros(self.fabric.n_links, dtype=np.bool_)
        self._was_silent = np.zeros(len(self.entities["switch"]), dtype=np.bool_)

    @property
    def ticks(self) -> int:
        """Number of ticks of all days."""
        return int(self.days * 86_400 / self.tick_s)

    def frame(self, i: int, faults: tuple[Fault, ...] = ()) -> Frame:
        """Return tick i; ticks must be asked for one after the other, from 0."""
        t_s = (i + 1) * self.tick_s
        moment = self._moment(t_s)
        for fault in faults:
            fault(moment)
        return self._read(moment)

    def touched(self, t_s: float) -> npt.NDArray[np.bool_]:
        """Return (n_ports,) ports whose link is down for maintenance or a blink, or has been of late."""
        return np.repeat(self.life.outages.touched(t_s, self.fabric.n_links), 2)

    def _moment(self, t_s: float) -> Moment:
        fabric, life, rng, ports = self.fabric, self.life, self.rng, self.entities["port"]
        n = len(ports)
        down, admin = life.outages.down(t_s, fabric.n_links)
        demand = demand_at(fabric, life.jobs, t_s, rng)
        sent = bytes_on_ports(fabric, demand, life.paths, ~down, rng)
        columns = flow_columns(ports, sent, fabric.link_gbps, rng)
        columns |= {name: np.zeros(n) for name in _ZERO}
        columns |= {f"{name}[3]": np.where(ports.role == NIC_END, np.nan, 0.0) for name in ("queue_drops", "pg_drops")}
        congest(ports, columns, life.hot.at(t_s, n), life.incast.at(t_s, n), rng)
        hold(ports, columns, life.holds.at(t_s, n))
        fell = np.repeat(down & ~self._was_down, 2)
        blinks = np.full(n, 3.0 * (fell.any()))
        columns |= transport_columns(ports, columns, demand.starting, blinks, rng)
        not_ready(ports, columns, life.late.at(t_s, n))
        columns |= physical_columns(ports, life.wear, t_s, fabric.link_gbps, rng)
        columns["link_downs"] = fell / self.tick_s
        frames_of_pause(columns)
        self._vendors(columns)
        gauges = optics_gauges(ports, life.wear, t_s, rng)
        gauges |= {"ev_active": active_paths(ports, columns, rng)}
        gauges |= {name: columns.pop(name) for name in list(columns) if "watermark" in name}
        _switch_off(ports, columns, gauges, np.repeat(down, 2), np.repeat(admin, 2))
        gauges["speed_gbps"] = np.full(n, fabric.link_gbps)
        self._was_down = down
        return self._others(Moment(t_s, self.tick_s, {"port": columns}, {"port": gauges}), demand.sends > 0.01)

    def _vendors(self, columns: Columns) -> None:
        ports = self.entities["port"]
        other = (ports.role == NIC_END) & (ports.owner // self.fabric.nics_per_node % _OTHER_VENDOR == 0)
        for name in ("pfc_rx_paused_us[3]", "pfc_tx_paused_us[3]", "retransmitted_packets"):
            columns[name] = np.where(other, np.nan, columns[name])

    def _others(self, moment: Moment, busy: npt.NDArray[np.bool_]) -> Moment:
        """Add NICs, nodes and switches."""
        nics, nodes, switches = (len(self.entities[kind]) for kind in ("nic", "node", "switch"))
        rng, life, day = self.rng, self.life, warmth(moment.t_s)
        moment.counters["nic"] = host_columns(nics, busy, life.stalls.at(moment.t_s, nics), rng)
        moment.gauges["nic"] = host_gauges(nics)
        moment.counters["node"] = {"softnet_drops": np.full(nodes, 1e-4)}
        moment.gauges["node"] = {"clock_offset_s": life.offset_s + rng.normal(0.0, 2e-4, nodes)}
        moment.counters["switch"] = {"srv6_no_sid_drops": 5e-4 * rng.lognormal(0.0, 1.0, switches)}
        moment.gauges["switch"] = {
            "buffer_pool_watermark_bytes": 1e7 * rng.lognormal(0.0, 0.5, switches),
            "temperature_c": 55.0 + 4.0 * day + rng.normal(0.0, 0.5, switches),
        }
        return moment

    def _read(self, moment: Moment) -> Frame:
        """Ask every node and every switch once."""
        hosts, switches = self._targets(moment)
        restarted = self._was_silent & ~moment.silent["switch"]
        self._was_silent = moment.silent["switch"]
        none = {kind: np.zeros(len(e), dtype=np.bool_) for kind, e in self.entities.items()}
        none["switch"] = restarted
        ports, nics = self.entities["port"], self.entities["nic"]
        host = ports.role == NIC_END
        node = np.where(host, ports.owner // self.fabric.nics_per_node, 0)
        switch = np.where(host, 0, ports.owner)
        none["port"] = ~host & restarted[switch]
        answers = {
            "port": _pick(host, _of(hosts, node), _of(switches, switch)), "nic": _of(hosts, nics.owner),
            "node": hosts, "switch": switches,
        }  # fmt: skip
        blocks = {
            kind: self.meters[kind].read(moment.counters[kind], moment.gauges[kind], answers[kind], none[kind])
            for kind in self.entities
        }
        return Frame(START_S + moment.t_s, blocks)

    def _targets(self, moment: Moment) -> tuple[Answers, Answers]:
        """Return how nodes and switches answer."""
        n_nodes, n_switches = len(self.entities["node"]), len(self.entities["switch"])
        restarting = self.life.outages.silent(moment.t_s, n_switches) | moment.silent.get("switch", False)
        moment.silent["switch"] = restarting
        dark = np.concatenate([moment.silent.get("node", np.zeros(n_nodes, dtype=np.bool_)), restarting])
        chance = self.rng.random((2, n_nodes + n_switches))
        wobble = np.abs(self.rng.normal(0.0, 0.05, n_nodes + n_switches))
        sampled_s = START_S + moment.t_s - self.life.phase_s * self.tick_s - wobble
        missing = dark | (chance[0] < _MISSES)
        every = Answers(sampled_s, missing, ~missing & (chance[1] < _REPEATS))
        first, last = np.arange(n_nodes), np.arange(n_nodes, n_nodes + n_switches)
        return _of(every, first), _of(every, last)


def _draw(fabric: Fabric, entities: dict[str, Entities], days: float, rng: np.random.Generator) -> _Life:
    n, nodes, switches = len(entities["port"]), len(entities["node"]), len(entities["switch"])
    return _Life(
        jobs=plan_jobs(fabric, rng, days), outages=plan_outages(fabric, rng, days), paths=draw_paths(fabric, rng),
        wear=draw_wear(entities["port"], rng), hot=draw_episodes(rng, n, days, 1.0, 280.0),
        incast=draw_episodes(rng, n, days, 3.0, 850.0), holds=draw_episodes(rng, n, days, 1.0, 160.0),
        late=draw_episodes(rng, n, days, 0.5, 280.0),
        stalls=draw_episodes(rng, len(entities["nic"]), days, 1.0, 120.0),
        offset_s=rng.normal(0.0, 1e-3, nodes), phase_s=rng.uniform(0.0, 0.3, nodes + switches),
    )  # fmt: skip


def _switch_off(
    ports: Entities, columns: Columns, gauges: Columns, down: npt.NDArray[np.bool_], admin: npt.NDArray[np.bool_]
) -> None:
    """Let nothing be counted on links that are down, in place; `link_downs` stays."""
    for name, values in columns.items():
        if name != "link_downs":
            np.copyto(values, 0.0, where=down & ~np.isnan(values))
    gauges["oper_up"] = np.where(down, 0.0, 1.0)
    gauges["admin_up"] = np.where(admin & (ports.role == NIC_END), 0.0, 1.0)
    gauges["ev_active"][down & (ports.role == NIC_END)] = 0.0
    dark = [name for name in gauges if name.startswith(("rx_power", "snr", "pre_fec"))]
    for name in dark:
        gauges[name] = np.where(down, -30.0 if "power" in name else np.nan, gauges[name])


def _of(answers: Answers, who: npt.NDArray[np.integer]) -> Answers:
    return Answers(answers.sampled_s[who], answers.missing[who], answers.repeats[who])


def _pick(host: npt.NDArray[np.bool_], hosts: Answers, switches: Answers) -> Answers:
    return Answers(
        np.where(host, hosts.sampled_s, switches.sampled_s), np.where(host, hosts.missing, switches.missing),
        np.where(host, hosts.repeats, switches.repeats),
    )  # fmt: skip
