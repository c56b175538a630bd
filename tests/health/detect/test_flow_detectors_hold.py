"""What holds for every detector of flows on any telemetry: nothing read is never well, findings make sense, no crash."""

from __future__ import annotations

import numpy as np
import pytest
from flow_worlds import MAKERS, NAN, Ticks, fabric_of
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.health.detect.cnp_ignored import CnpIgnored
from railkeeper.health.detect.cnp_silent import CnpSilent
from railkeeper.health.detect.ecn_balance import EcnBalance
from railkeeper.health.detect.finding import V_OK, VERDICTS
from railkeeper.health.detect.lossless_drops import LosslessDrops
from railkeeper.health.detect.mrc_events import MrcEvents
from railkeeper.health.detect.mrc_paths import MrcPaths
from railkeeper.health.detect.pfc_pause import PfcPause
from railkeeper.health.detect.plane_balance import PlaneBalance
from railkeeper.health.detect.queue_depth import QueueDepth
from railkeeper.health.detect.queue_drops import QueueDrops
from railkeeper.health.detect.rail_balance import RailBalance
from railkeeper.health.detect.rdma_integrity import RdmaIntegrity
from railkeeper.health.detect.rdma_loss import RdmaLoss
from railkeeper.health.detect.rdma_receiver import RdmaReceiver
from railkeeper.health.detect.srv6_no_sid import Srv6NoSid
from railkeeper.health.detect.trims import Trims
from railkeeper.telemetry.entities import UNKNOWN_ROLE, Entities

EVERY = (
    CnpIgnored, CnpSilent, EcnBalance, LosslessDrops, MrcEvents, MrcPaths, PfcPause, PlaneBalance, QueueDepth,
    QueueDrops, RailBalance, RdmaIntegrity, RdmaLoss, RdmaReceiver, Srv6NoSid, Trims,
)  # fmt: skip
EACH = [(detector, kind) for detector in EVERY for kind in detector.about.kinds]
GAUGES = ("watermark", "ev_active", "oper_up", "admin_up", "speed_gbps")
PARTED = {"pfc_rx_paused_us", "pfc_tx_paused_us", "pfc_rx_frames", "pfc_tx_frames", "pg_drops", "queue_drops",
          "ecn_marked_packets", "queue_watermark_bytes", "pg_watermark_bytes", "pg_headroom_watermark_bytes",
          "pfc_storms"}  # fmt: skip


def unplaced(n=40) -> Entities:
    """Ports as named by sources where no fabric is known: no role, no owner, no other end."""
    minus = np.full(n, -1, dtype=np.int32)
    return Entities(
        kind="port", domain=minus.astype(np.int16), role=np.full(n, UNKNOWN_ROLE, dtype=np.int8), owner=minus,
        other=minus, group=np.zeros(n, dtype=np.int16), n_groups=1, name_of=lambda i: f"sw1/Ethernet{i}",
        id_of=lambda name: int(name[12:]),
    )  # fmt: skip


def columns_of(detector, n, values) -> tuple[dict, dict]:
    """Rates and gauges of all that a detector reads; `values(name, n)` gives a column."""
    rates, gauges = {}, {}
    for signal in dict.fromkeys((*detector.about.needs, *detector.about.uses)):
        name = f"{signal}[3]" if signal in PARTED else signal
        table = gauges if any(part in signal for part in GAUGES) else rates
        table[name] = values(name, n)
    return rates, gauges


def check(ticks: Ticks, detector, rates, gauges) -> None:
    judged = ticks.last
    assert judged.verdicts.shape == (ticks.n,)
    assert judged.verdicts.dtype == np.uint8
    names = (*rates, *gauges)
    needed = [c for c in names if c.split("[")[0] in detector.about.needs]
    unread = np.all([np.isnan((rates | gauges)[c]) for c in needed], axis=0)
    assert not (judged.verdicts[unread] == V_OK).any()
    for f in judged.findings:
        assert f.verdict in {"degraded", "failed"}
        assert 0 <= f.entity < ticks.n
        assert f.entity not in f.others
        assert all(0 <= o < ticks.n for o in f.others)
        assert f.since_s <= ticks.now_s
        assert 0 < f.confidence <= 1
        assert f.evidence
        assert all(f.evidence)
        assert VERDICTS[judged.verdicts[f.entity]] in {"degraded", "failed"}


@pytest.mark.parametrize(("detector", "kind"), EACH)
@pytest.mark.parametrize("where", ["fabric", "unplaced", "one plane", "smallest"])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_telemetry(detector, kind, where, seed):
    fabric = {"one plane": fabric_of(1, 2, 2, 8), "smallest": fabric_of(1, 1, 1, 1)}.get(
        where, fabric_of(2, 2, 3, 8, per_node=4)
    )
    entities = unplaced() if where == "unplaced" and kind == "port" else MAKERS[kind](fabric)
    ticks = Ticks(detector(), fabric, kind, entities=entities)
    rng = np.random.default_rng(seed)
    shape = rng.lognormal(0, 4, (40, len(entities)))

    def values(name: str, n: int) -> np.ndarray:
        column = shape[hash_of(name) % 40] * (1e6 if "bytes" in name or "packets" in name else 1e3)
        column[rng.random(n) < 0.1] = 0
        column[rng.random(n) < 0.1] = NAN
        return column.astype(np.float32)

    for _ in range(16):
        rates, gauges = columns_of(detector, ticks.n, values)
        ticks.run(rates, gauges)
        check(ticks, detector, rates, gauges)


def hash_of(name: str) -> int:
    return sum(ord(c) * (i + 1) for i, c in enumerate(name))


@pytest.mark.parametrize(("detector", "kind"), EACH)
def test_nothing_read(detector, kind):
    ticks = Ticks(detector(), fabric_of(2, 2, 3, 8, per_node=4), kind)
    for rates, gauges in (({}, {}), columns_of(detector, ticks.n, lambda _, n: np.full(n, NAN, dtype=np.float32))):
        judged = ticks.run(rates, gauges, ticks=3)
        assert judged.findings == ()
        assert not (judged.verdicts == V_OK).any()
        assert (judged.verdicts == VERDICTS.index("no data")).any()


@pytest.mark.parametrize(("detector", "kind"), EACH)
def test_all_zero_is_well(detector, kind):
    """Counters that were read and stand are a quiet entity, not a missing one."""
    ticks = Ticks(detector(), fabric_of(2, 2, 3, 8, per_node=4), kind)
    judged = ticks.run(*columns_of(detector, ticks.n, lambda _, n: np.zeros(n, dtype=np.float32)), ticks=30)

    assert judged.findings == ()
    assert not (judged.verdicts == VERDICTS.index("no data")).any()


@pytest.mark.parametrize("tick_s", [1.0, 7.0, 20.0, 60.0, 300.0])
def test_what_lasts_is_told_in_time_at_any_length_of_tick(tick_s):
    ticks = Ticks(Srv6NoSid(), fabric_of(), "switch", tick_s=tick_s)
    values = ticks.fill(0.0)
    values[3] = 20.0
    begin = ticks.now_s
    while not ticks.run({"srv6_no_sid_drops": values}).findings:
        assert ticks.now_s - begin < 60 + 3 * tick_s

    assert ticks.now_s - begin >= min(60, tick_s)
    assert ticks.last.findings[0].since_s <= begin + 3 * tick_s
