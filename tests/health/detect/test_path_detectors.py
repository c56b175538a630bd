"""Equal paths, planes, rails, queues, trims and transport paths: healthy, fault, its harmless twin, missing data."""

from __future__ import annotations

import numpy as np
import pytest
from flow_worlds import NAN, Ticks, fabric_of

from railkeeper.health.detect.cnp_ignored import CnpIgnored
from railkeeper.health.detect.cnp_silent import CnpSilent
from railkeeper.health.detect.ecn_balance import EcnBalance
from railkeeper.health.detect.lossless_drops import LosslessDrops
from railkeeper.health.detect.mrc_events import MrcEvents
from railkeeper.health.detect.mrc_paths import MrcPaths
from railkeeper.health.detect.plane_balance import PlaneBalance
from railkeeper.health.detect.queue_depth import QueueDepth
from railkeeper.health.detect.queue_drops import QueueDrops
from railkeeper.health.detect.rail_balance import RailBalance
from railkeeper.health.detect.trims import Trims
from railkeeper.telemetry.entities import NIC_END, T0_HOST, T0_UPLINK, T1_DOWN

GB = 1e9 / 8
UPLINK, DOWN, HOST, NIC = (
    "p0/t0-1--p0/t1-2@p0/t0-1",
    "p0/t0-1--p0/t1-2@p0/t1-2",
    "n3/nic0/p0--p0/t0-0@p0/t0-0",
    "n3/nic0/p0",
)


def world(detector, kind="port", fabric=None, **parameters) -> Ticks:
    return Ticks(detector(), fabric or fabric_of(planes=2, t0=4, t1=4, nics=8), kind, parameters=parameters)


def filled(ticks: Ticks, value: float, **odd: float) -> np.ndarray:
    """A column with one value everywhere, but for ports by name (`__` for what names can't have here)."""
    out = ticks.fill(value)
    for name, other in odd.items():
        out[ticks.id(name)] = other
    return out


def busy(ticks: Ticks, **columns) -> dict:
    return {"tx_packets": ticks.fill(1e6), "tx_bytes": ticks.fill(4 * GB)} | columns


# -- ECN, CNP ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("port", [UPLINK, DOWN])
def test_a_hot_path(port):
    ticks = world(EcnBalance)

    ticks.run(busy(ticks, **{"ecn_marked_packets[3]": filled(ticks, 5e3, **{port: 2e5})}), ticks=20)

    assert ticks.found() == [port]
    finding = ticks.last.findings[0]
    assert (finding.value, finding.expected) == (pytest.approx(0.2), pytest.approx(0.005))
    assert ticks.verdict(ticks.id(port)) == "degraded"
    assert ticks.verdict(ticks.id(HOST)) == "skipped"


def test_marks_everywhere_are_congestion_not_imbalance():
    ticks = world(EcnBalance)

    assert ticks.run(busy(ticks, **{"ecn_marked_packets[3]": ticks.fill(2e5)}), ticks=40).findings == ()


def test_ports_of_one_t1_may_differ():
    """All T1s mark what goes down to one busy T0: a hot spot of the job, equal over its paths."""
    ticks = world(EcnBalance)
    marks = ticks.fill(1e3)
    ports = ticks.entities
    marks[(ports.role == T1_DOWN) & (ports.owner[ports.other] == 1)] = 3e5

    assert ticks.run(busy(ticks, **{"ecn_marked_packets[3]": marks}), ticks=40).findings == ()


def test_a_hot_t1_is_told_as_one():
    ticks = world(EcnBalance)
    marks = ticks.fill(1e3)
    ports = ticks.entities
    t1 = ports.owner[ticks.id(DOWN)]
    marks[(ports.role == T1_DOWN) & (ports.owner == t1)] = 3e5

    judged = ticks.run(busy(ticks, **{"ecn_marked_packets[3]": marks}), ticks=40)

    assert len(judged.findings) == 1
    assert "one part" in judged.findings[0].evidence[0]
    assert len(judged.findings[0].others) >= 3


def test_a_short_hot_spot_and_missing_marks():
    ticks = world(EcnBalance)
    for _ in range(5):
        ticks.run(busy(ticks, **{"ecn_marked_packets[3]": filled(ticks, 5e3, **{UPLINK: 2e5})}), ticks=5)
        ticks.run(busy(ticks, **{"ecn_marked_packets[3]": ticks.fill(5e3)}), ticks=20)
        assert ticks.last.findings == ()
    ticks.run(busy(ticks, **{"ecn_marked_packets[3]": filled(ticks, 5e3, **{UPLINK: NAN})}))
    assert ticks.verdict(ticks.id(UPLINK)) == "no data"
    ticks.run({})
    assert ticks.verdict(ticks.id(UPLINK)) == "no data"


@pytest.mark.parametrize("kind", ["port", "nic"])
def test_cnp_ignored(kind):
    ticks = world(CnpIgnored, kind)
    ticks.run({"cnp_ignored": ticks.fill(0.1)}, ticks=20)
    assert ticks.last.findings == ()
    everyone = ticks.fill(0.0)
    everyone[ticks.entities.role == 0] = 50.0

    judged = ticks.run({"cnp_ignored": everyone}, ticks=20)

    assert judged.findings
    assert judged.findings[0].against == "limit"


def test_cnp_silent():
    ticks = world(CnpSilent)
    marked, sent = ticks.fill(5e4), filled(ticks, 5e3, **{NIC: 0.0})
    idle = marked.copy()
    idle[ticks.id("n5/nic0/p1")] = 0
    sent[ticks.id("n5/nic0/p1")] = 0

    ticks.run({"ecn_marked_rx": idle, "cnp_tx": sent}, ticks=30)

    assert ticks.found() == [NIC]
    ticks.run({"ecn_marked_rx": marked, "cnp_tx": ticks.fill(0.0)}, ticks=60)
    assert ticks.found() == [], "nobody sends any: another kind of congestion control"
    ticks.run({"ecn_marked_rx": filled(ticks, 5e4, **{NIC: NAN}), "cnp_tx": sent})
    assert ticks.verdict(ticks.id(NIC)) == "no data"


# -- planes and rails -------------------------------------------------------------------------------------------------
def sent(ticks: Ticks, **odd: float) -> np.ndarray:
    """Bytes of NICs whose jobs differ, spread evenly over planes; ports by name are shares of that."""
    nic = np.maximum(ticks.entities.owner, 0)
    out = ((2 + nic % 7) * 4 * GB).astype(np.float32)
    for name, share in odd.items():
        out[ticks.id(name)] *= share
    return out


PLANES = fabric_of(planes=4, t0=4, t1=4, nics=8)


def test_planes_carry_alike():
    ticks = world(PlaneBalance, fabric=PLANES)

    assert ticks.run({"tx_bytes": sent(ticks)}, ticks=40).findings == ()
    assert ticks.verdict(ticks.id(NIC)) == "ok"


def test_a_nics_plane_is_short():
    ticks = world(PlaneBalance, fabric=PLANES)

    ticks.run({"tx_bytes": sent(ticks, **{NIC: 0.5})}, ticks=20)

    assert ticks.found() == [NIC]
    assert ticks.last.findings[0].value == pytest.approx(0.5)


@pytest.mark.parametrize(("keep", "words"), [("plane", "the plane of"), ("t0", "the T0 of")])
def test_a_plane_or_a_t0_as_a_whole(keep, words):
    ticks = world(PlaneBalance, fabric=PLANES)
    ports, values = ticks.entities, sent(ticks)
    mine = (ports.role == NIC_END) & (ports.domain == 2)
    if keep == "t0":
        mine &= ports.owner[ports.other] == ports.owner[ports.other[ticks.id("n3/nic0/p2")]]
    values[mine] *= 0.6

    judged = ticks.run({"tx_bytes": values}, ticks=20)

    assert len(judged.findings) == 1
    assert words in judged.findings[0].evidence[0]
    assert len(judged.findings[0].others) == mine.sum() - 1


def test_a_plane_that_is_a_little_short_everywhere():
    ticks = world(PlaneBalance, fabric=PLANES)
    values = sent(ticks)
    values[(ticks.entities.role == NIC_END) & (ticks.entities.domain == 1)] *= 0.88

    judged = ticks.run({"tx_bytes": values}, ticks=20)

    assert len(judged.findings) == 1
    assert "as a whole carries" in judged.findings[0].evidence[0]


FALLEN = {"n9/nic0/p0": 0.0}


def test_a_port_that_falls_is_not_asymmetry_nor_are_those_who_send_to_it():
    ticks = world(PlaneBalance, fabric=PLANES)
    up, values = filled(ticks, 1.0, **FALLEN), sent(ticks, **FALLEN, **{"n8/nic0/p0": 0.1, "n10/nic0/p0": 0.6})
    ticks.run({"tx_bytes": sent(ticks)}, {"oper_up": ticks.fill(1.0)}, ticks=5)

    assert ticks.run({"tx_bytes": sent(ticks, **FALLEN)}, {"oper_up": up}, ticks=1).findings == ()
    assert ticks.run({"tx_bytes": values}, {"oper_up": up}, ticks=40).findings == ()
    assert ticks.verdict(ticks.id("n9/nic0/p0")) == "skipped"


def test_a_port_that_has_long_been_down_excuses_nobody():
    ticks = world(PlaneBalance, fabric=PLANES)
    up = filled(ticks, 1.0, **FALLEN)
    ticks.run({"tx_bytes": sent(ticks)}, {"oper_up": ticks.fill(1.0)}, ticks=5)
    ticks.run({"tx_bytes": sent(ticks, **FALLEN)}, {"oper_up": up}, ticks=20)

    ticks.run({"tx_bytes": sent(ticks, **FALLEN, **{NIC: 0.5})}, {"oper_up": up}, ticks=20)

    assert ticks.found() == [NIC]
    assert "1 ports of its plane are down" in ticks.last.findings[0].evidence[1]


def test_one_fall_excuses_a_few_senders_not_a_plane():
    ticks = world(PlaneBalance, fabric=PLANES)
    ports = ticks.entities
    up, values = filled(ticks, 1.0, **FALLEN), sent(ticks, **FALLEN)
    ticks.run({"tx_bytes": sent(ticks)}, {"oper_up": ticks.fill(1.0)}, ticks=5)
    values[(ports.role == NIC_END) & (ports.domain == 0)] *= 0.5

    judged = ticks.run({"tx_bytes": values}, {"oper_up": up}, ticks=20)

    assert len(judged.findings) == 1
    assert "as a whole" in judged.findings[0].evidence[0]


def test_idle_nics_are_not_judged():
    ticks = world(PlaneBalance, fabric=PLANES)
    values = ticks.fill(100.0)
    values[ticks.id(NIC)] = 0

    assert ticks.run({"tx_bytes": values}, ticks=40).findings == ()
    assert ticks.verdict(ticks.id(NIC)) == "skipped"
    ticks.run({"tx_bytes": ticks.fill(NAN)})
    assert ticks.verdict(ticks.id(NIC)) == "no data"
    ticks.run({})
    assert ticks.verdict(ticks.id(NIC)) == "no data"


RAILS = fabric_of(planes=2, t0=2, t1=2, nics=8, per_node=4, rails=4)


def nic_bytes(ticks: Ticks, **odd: float) -> dict:
    out = ticks.fill(40 * GB) * (1 + ticks.entities.owner % 5)
    for name, share in odd.items():
        out[ticks.id(name)] *= share
    return {"tx_bytes": out}


def test_a_rail_that_is_short():
    ticks = world(RailBalance, "nic", RAILS)

    assert ticks.run(nic_bytes(ticks), ticks=40).findings == ()
    ticks.run(nic_bytes(ticks, **{"n3/nic2": 0.4}), ticks=20)
    assert ticks.found() == ["n3/nic2"]
    assert ticks.verdict(ticks.id("n3/nic1")) != "no data"


def test_jobs_on_a_part_of_a_node_are_no_rail_fault():
    ticks = world(RailBalance, "nic", RAILS)

    assert ticks.run(nic_bytes(ticks, **{"n3/nic2": 0.5}), ticks=60).findings == (), "uneven from its start"
    assert ticks.run(nic_bytes(ticks, **{"n3/nic2": 0.001}), ticks=40).findings == (), "idle"
    assert ticks.run(nic_bytes(ticks, **{"n3/nic2": 0.4, "n3/nic1": 0.6}), ticks=40).findings == (), "two jobs"


def test_rails_by_the_ports_of_nics():
    ticks = world(RailBalance, "nic", RAILS)
    ports = world(PlaneBalance, fabric=RAILS)
    values, up = ports.fill(20 * GB), ports.fill(1.0)
    values[[ports.id("n3/nic2/p0"), ports.id("n3/nic2/p1")]] *= 0.4
    dark = values.copy()
    dark[ports.id("n3/nic2/p0")] = NAN

    ticks.run({}, {}, ticks=40, beside={"port": ({"tx_bytes": ports.fill(20 * GB)}, {"oper_up": up})})
    ticks.run({}, {}, ticks=20, beside={"port": ({"tx_bytes": values}, {"oper_up": up})})
    assert ticks.found() == ["n3/nic2"]
    ticks.run({}, {}, beside={"port": ({"tx_bytes": dark}, {})})
    assert ticks.found() == ["n3/nic2"]
    ticks.run({}, {})
    assert ticks.verdict(0) == "no data"


# -- queues, drops, trims ---------------------------------------------------------------------------------------------
def test_lossless_drops():
    ticks = world(LosslessDrops)

    assert ticks.run({"pg_drops[0]": ticks.fill(50.0), "pg_drops[3]": ticks.fill(0.0)}, ticks=10).findings == ()
    ticks.run({"pg_drops[0]": ticks.fill(0.0), "pg_drops[3]": filled(ticks, 0.0, **{HOST: 0.5})}, ticks=2)
    assert ticks.found() == [HOST]
    assert NIC in ticks.last.findings[0].evidence[1]
    ticks.run({"pg_drops[3]": filled(ticks, 0.0, **{UPLINK: NAN})})
    assert ticks.verdict(ticks.id(UPLINK)) == "no data"


def test_other_priorities_can_be_lossless():
    ticks = world(LosslessDrops, lossless_a=0, lossless_b=-1)

    ticks.run({"pg_drops[0]": filled(ticks, 0.0, **{HOST: 0.5}), "pg_drops[3]": ticks.fill(9.0)}, ticks=2)

    assert ticks.found() == [HOST]


@pytest.mark.parametrize("signal", ["queue_drops[3]", "tx_wred_drops", "trim_dropped_packets"])
def test_queue_drops(signal):
    ticks = world(QueueDrops)

    assert ticks.run(busy(ticks, **{signal: ticks.fill(5e3)}), ticks=40).findings == (), "all alike"
    ticks.run(busy(ticks, **{signal: filled(ticks, 0.0, **{UPLINK: 5e4})}), ticks=40)
    assert ticks.found() == [UPLINK]
    assert ticks.last.findings[0].verdict == "failed"
    ticks.run(busy(ticks, **{signal: filled(ticks, 0.0, **{HOST: NAN})}), ticks=1)
    assert ticks.verdict(ticks.id(HOST)) == "no data"
    assert ticks.verdict(ticks.id(NIC)) == "skipped"


def test_a_deep_queue():
    ticks = world(QueueDepth)
    name = "queue_watermark_bytes[3]"

    assert ticks.run({}, {name: ticks.fill(3e6)}, ticks=60).findings == (), "all alike"
    ticks.run({}, {name: filled(ticks, 3e5, **{UPLINK: 9e6})}, ticks=60)
    assert ticks.found() == [UPLINK]
    for _ in range(5):
        ticks.run({}, {name: ticks.fill(3e5)}, ticks=60)
        ticks.run({}, {name: filled(ticks, 3e5, **{HOST: 9e6})}, ticks=6)
        assert ticks.found() == [], "bursts"
    ticks.run({}, {name: filled(ticks, 3e5, **{HOST: NAN})})
    assert ticks.verdict(ticks.id(HOST)) == "no data"


@pytest.mark.parametrize(("size", "found"), [(0, []), (2e5, [HOST])])
def test_headroom_near_its_size(size, found):
    ticks = world(QueueDepth, headroom_bytes=size)

    ticks.run({}, {"pg_headroom_watermark_bytes[3]": filled(ticks, 1e5, **{HOST: 1.9e5})}, ticks=60)

    assert ticks.found() == found


def test_a_full_pool():
    ticks = world(QueueDepth, "switch", pool_bytes=165e6)
    fill = ticks.fill(1.4e8)
    fill[2] = 1.6e8

    judged = ticks.run({}, {"buffer_pool_watermark_bytes": fill}, ticks=60)

    assert [(f.entity, f.against) for f in judged.findings] == [(2, "limit")]


def trims(ticks: Ticks, mask, rate: float, life: float = 10.0) -> dict:
    values = ticks.fill(life)
    values[mask] = rate
    return busy(ticks, trim_packets=values)


def test_trims_on_one_path():
    ticks = world(Trims)
    port = ticks.id(UPLINK)

    ticks.run(trims(ticks, [port], 2e4), ticks=30)

    assert UPLINK in ticks.found()
    assert "in the fabric" in next(f for f in ticks.last.findings if f.entity == port).evidence[0]


def test_a_plane_that_trims():
    ticks = world(Trims, fabric=PLANES)
    ports = ticks.entities

    judged = ticks.run(trims(ticks, (ports.role == T0_UPLINK) & (ports.domain == 3), 5e3), ticks=30)

    assert len(judged.findings) == 1
    assert "as a whole trims" in judged.findings[0].evidence[0]
    assert ports.domain[judged.findings[0].entity] == 3
    assert ticks.run(trims(ticks, ports.role == T0_UPLINK, 5e3), ticks=60).findings == (), "all planes alike"


def test_incast_is_told_only_when_it_lasts():
    ticks = world(Trims)
    ports = ticks.entities
    host = (ports.role == T0_HOST) & (ports.owner[ports.other] == 3)

    for _ in range(4):
        ticks.run(trims(ticks, host, 1e5), ticks=20)
        assert ticks.last.findings == ()
        ticks.run(trims(ticks, host, 10), ticks=40)
    judged = ticks.run(trims(ticks, host, 1e5), ticks=60)
    assert {f.entity for f in judged.findings} == set(np.flatnonzero(host))
    assert "last hop" in judged.findings[0].evidence[0]


def test_trims_unread():
    ticks = world(Trims)
    ticks.run({})
    assert ticks.verdict(ticks.id(UPLINK)) == "no data"
    ticks.run(busy(ticks, trim_packets=filled(ticks, 0.0, **{UPLINK: NAN})))
    assert (ticks.verdict(ticks.id(UPLINK)), ticks.verdict(ticks.id(DOWN))) == ("no data", "ok")


# -- paths of the transport -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("signal", "bad", "life"), [("ev_drops", 300.0, 1.0), ("ev_bad_events", 10.0, 0.05)])
def test_path_events(signal, bad, life):
    ticks = world(MrcEvents)

    assert ticks.run(busy(ticks, **{signal: ticks.fill(bad)}), ticks=30).findings == (), "all alike"
    ticks.run(busy(ticks, **{signal: filled(ticks, life, **{NIC: bad})}), ticks=60)
    assert ticks.found() == [NIC]
    ticks.run(busy(ticks, **{signal: filled(ticks, life, **{NIC: NAN})}))
    assert ticks.found() == [NIC], "silence does not heal"
    ticks.run({})
    assert ticks.verdict(0) == "no data"


def test_few_paths():
    ticks = world(MrcPaths, fabric=PLANES)
    column = filled(ticks, 32.0, **{NIC: 9.0, "n7/nic0/p1": 0.0})
    traffic = busy(ticks, tx_bytes=filled(ticks, GB, **{"n7/nic0/p1": 0.0}))

    ticks.run(traffic, {"ev_active": column}, ticks=20)

    assert ticks.found() == [NIC]
    assert ticks.verdict(ticks.id("n7/nic0/p1")) == "skipped"
    ticks.run(traffic, {"ev_active": ticks.fill(32.0)}, ticks=30)
    assert ticks.found() == []
    ticks.run(traffic, {"ev_active": filled(ticks, 32.0, **{NIC: NAN})})
    assert ticks.verdict(ticks.id(NIC)) == "no data"


def test_a_plane_short_of_paths():
    ticks = world(MrcPaths, fabric=PLANES)
    column = ticks.fill(32.0)
    column[ticks.entities.domain == 2] = 14.0

    judged = ticks.run({}, {"ev_active": column}, ticks=20)

    assert len(judged.findings) == 1
    assert "as a whole" in judged.findings[0].evidence[0]
    assert ticks.entities.domain[judged.findings[0].entity] == 2


def test_the_same_twice():
    for detector in (Trims, EcnBalance, PlaneBalance, MrcPaths, QueueDepth):
        told = []
        for _ in range(2):
            ticks = world(detector, fabric=PLANES)
            noise = np.random.default_rng(5)
            for _ in range(20):
                columns = {
                    name: (noise.lognormal(0, 2, ticks.n) * 1e4).astype(np.float32)
                    for name in ("ecn_marked_packets[3]", "trim_packets", "tx_packets", "tx_bytes")
                }
                judged = ticks.run(columns, {"ev_active": noise.integers(0, 64, ticks.n).astype(np.float32)})
            told.append((judged.findings, judged.verdicts.tobytes()))
        assert told[0] == told[1]
