"""Faults that are put into simulated days, one for each detector: does it see them, and how soon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.health.detect.days.world import Moment, World

    Change = Callable[[Moment, float], None]

FIRST_S, EVERY_S, LASTS_S = 2 * 3600.0, 2400.0, 1800.0


@dataclass(frozen=True)
class Planted:
    """One fault: which detector should tell it, of which entities (any of them will do), when, and what it changes."""

    detector: str
    kind: str
    entities: tuple[int, ...]
    start_s: float
    end_s: float
    change: Change

    def __call__(self, moment: Moment) -> None:
        """Change a moment in place, if it is the time."""
        if self.start_s <= moment.t_s < self.end_s:
            self.change(moment, moment.t_s - self.start_s)


def planted(world: World) -> tuple[Planted, ...]:
    """Return the faults of a day, one after the other; all on NICs and paths of the service, which never ends."""
    rows = [*_of_links(world), *_of_hosts(world), *_of_paths(world)]
    return tuple(
        Planted(name, kind, entities, FIRST_S + k * EVERY_S, FIRST_S + k * EVERY_S + LASTS_S, change)
        for k, (name, kind, entities, change) in enumerate(rows)
    )


Row = tuple[str, str, tuple[int, ...], "Change"]


def _to(kind: str, name: str, entities: tuple[int, ...], value: float) -> Change:
    """Return a change that sets a column at some entities."""
    at = list(entities)

    def change(moment: Moment, _: float) -> None:
        table = moment.gauges[kind] if name in moment.gauges[kind] else moment.counters[kind]
        table[name][at] = value

    return change


def _times(name: str, entities: tuple[int, ...], factor: float) -> Change:
    at = list(entities)

    def change(moment: Moment, _: float) -> None:
        moment.counters["port"][name][at] *= factor

    return change


def _all(*changes: Change) -> Change:
    def change(moment: Moment, into_s: float) -> None:
        for one in changes:
            one(moment, into_s)

    return change


def _while(when: Callable[[float], bool], inner: Change) -> Change:
    def change(moment: Moment, into_s: float) -> None:
        if when(into_s):
            inner(moment, into_s)

    return change


def _fall(link: int) -> Change:
    both = (2 * link, 2 * link + 1)
    return _all(_to("port", "oper_up", both, 0.0), *(_times(f"{way}_bytes", both, 0.0) for way in ("tx", "rx")))


def _worse_bits(port: int, factor: float) -> Change:
    names = ("fec_corrected_bits", "fec_corrected_codewords", "lane_errors[0]", "lane_errors[1]")
    return _all(*(_times(name, (port,), factor) for name in names))


def _of_links(world: World) -> list[Row]:
    fabric = world.fabric
    first = fabric.n_ports
    a, b, c, d, e, f, g = (first + k for k in (3, 12, 21, 33, 41, 52, 60))
    down = _all(_fall(a), _to("port", "link_downs", (2 * a, 2 * a + 1), 1 / world.tick_s))
    again = _all(_fall(d), _to("port", "link_downs", (2 * d, 2 * d + 1), 1 / world.tick_s))
    bins = tuple(_to("port", f"fec_bin_codewords[{k}]", (2 * f,), 50.0 / (k - 10)) for k in range(11, 16))
    host = 2 * 25 + 1
    return [
        ("link-flap", "port", (2 * a, 2 * a + 1), _while(lambda s: s % (6 * world.tick_s) < world.tick_s, down)),
        ("port-down", "port", (2 * b, 2 * b + 1), _fall(b)),
        ("port-speed", "port", (2 * c, 2 * c + 1), _to("port", "speed_gbps", (2 * c, 2 * c + 1), 50.0)),
        ("fec-margin", "port", (2 * e,), _all(_worse_bits(2 * e, 3e4), _to("port", "pre_fec_ber", (2 * e,), 1.5e-4))),
        ("fec-codewords", "port", (2 * f,), _all(_to("port", "fec_uncorrected_codewords", (2 * f,), 0.5), *bins)),
        ("error-rates", "port", (host,), _to("port", "rx_crc_errors", (host,), 3.0)),
        ("optics", "port", (2 * g,), _to("port", "rx_power_dbm[0]", (2 * g,), -7.0)),
        ("stuck-counters", "port", (20, 21), _times("tx_bytes", (20,), 0.0)),
        ("missing-counters", "port", (2 * g + 1,), _to("port", "rx_crc_errors", (2 * g + 1,), np.nan)),
        ("lossless-drops", "port", (host,), _to("port", "pg_drops[3]", (host,), 2.0)),
        ("bounce-back", "port", (2 * d,), _all(
            _while(lambda s: s < 3 * world.tick_s, again),
            _while(lambda s: s >= 3 * world.tick_s, _worse_bits(2 * d, 100.0)))),
    ]  # fmt: skip


def _of_hosts(world: World) -> list[Row]:
    planes, per = world.fabric.planes, world.fabric.nics_per_node
    nic = 5 * per + 2  # one of the service's, that counts paused time
    ports = tuple(2 * (nic * planes + p) for p in range(planes))
    other = tuple(p + 1 for p in ports)
    p = ports[1]
    slow = _all(
        *(_times(name, ports, 0.3) for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")),
        *(_times(name, other, 0.3) for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")),
    )
    held = _all(_to("port", "pfc_tx_paused_us[3]", ports, 3e5), _to("port", "pfc_rx_paused_us[3]", other, 3e5))
    loss = _all(
        _to("port", "seq_naks_rx", (p,), 400.0), _to("port", "retransmitted_packets", (p,), 900.0),
        _to("port", "ack_timeouts", (p,), 20.0),
    )  # fmt: skip
    silent = _all(_to("port", "ecn_marked_rx", (p,), 2e4), _to("port", "cnp_tx", (p,), 0.0))
    return [
        ("slow-nic", "any", (*ports, nic), _all(slow, held)),
        ("pfc-pause", "port", ports, held),
        ("rail-balance", "nic", (nic,), _all(*(_times("tx_bytes", (q,), 0.4) for q in ports))),
        ("plane-balance", "port", (p,), _all(_times("tx_bytes", (p,), 0.4), _times("rx_bytes", (p + 1,), 0.4))),
        ("discards", "port", (p,), _to("port", "rx_discards", (p,), 3000.0)),
        ("pcie", "nic", (nic,), _to("nic", "pcie_width", (nic,), 8.0)),
        ("rdma-loss", "port", (p,), loss),
        ("rdma-receiver", "port", (p,), _to("port", "no_receive_buffer", (p,), 4000.0)),
        ("rdma-integrity", "port", (p,), _to("port", "icrc_errors", (p,), 1.0)),
        ("mrc-events", "port", (p,), _to("port", "ev_drops", (p,), 200.0)),
        ("mrc-paths", "port", (p,), _to("port", "ev_active", (p,), 8.0)),
        ("cnp-ignored", "port", (p,), _to("port", "cnp_ignored", (p,), 40.0)),
        ("cnp-silent", "port", (p,), silent),
        ("clock-offset", "node", (6,), _to("node", "clock_offset_s", (6,), 0.5)),
        ("silent-agents", "any", tuple(range(5 * per * planes * 2, 6 * per * planes * 2, 2)), _mute(5)),
    ]


def _mute(node: int) -> Change:
    def change(moment: Moment, _: float) -> None:
        n = len(moment.gauges["node"]["clock_offset_s"])
        moment.silent["node"] = np.arange(n) == node

    return change


def _of_paths(world: World) -> list[Row]:
    first = world.fabric.n_ports
    hot, deep, drop, cut = (2 * (first + k) for k in (1, 2, 5, 6))  # uplinks of the service's T0
    switch = world.fabric.n_t0 + 2

    def share(name: str, port: int, of: float) -> Change:
        def change(moment: Moment, _: float) -> None:
            moment.counters["port"][name][port] = of * moment.counters["port"]["tx_packets"][port]

        return change

    return [
        ("ecn-balance", "port", (hot,), share("ecn_marked_packets[3]", hot, 0.2)),
        ("queue-depth", "port", (deep,), _to("port", "queue_watermark_bytes[3]", (deep,), 3e7)),
        ("queue-drops", "port", (drop,), share("queue_drops[3]", drop, 5e-3)),
        ("trims", "port", (cut,), share("trim_packets", cut, 0.03)),
        ("srv6-no-sid", "switch", (switch,), _to("switch", "srv6_no_sid_drops", (switch,), 20.0)),
    ]
