"""From readings to frames: newest wins, one source for each column, real times, and nothing lost."""

from __future__ import annotations

import random

import numpy as np
import pytest
from assembling import T0, assembler, frame_at, host, reading, seconds, switch, value, width
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.telemetry.assemble import Assembler
from railkeeper.telemetry.frame import NO_TIME
from railkeeper.telemetry.named_places import NamedPlaces
from railkeeper.telemetry.unbound import Leftovers


def test_a_reading_becomes_a_frame():
    a = assembler()
    a.add([host("mlx5.hw", {"out_of_sequence": 5, "np_cnp_sent": 2**40}, t=1)])
    block = frame_at(a, 2).blocks["port"]

    assert value(block, "h1/mlx5_0/1", "out_of_sequence_rx") == 5
    assert value(block, "h1/mlx5_0/1", "cnp_tx") == 2**40
    assert dict(zip(block.counter_names, block.widths, strict=True)) == {"cnp_tx": 64, "out_of_sequence_rx": 32}
    assert block.t_ns.tolist() == [(T0 + 1) * 10**9]
    assert (block.times, block.time_of, block.widths_at, block.anew) == (None, None, None, None)


def test_the_newest_reading_wins_in_whatever_order_they_come():
    for order in ([1, 2, 3], [3, 1, 2], [2, 3, 1]):
        a = assembler()
        a.add(host("mlx5.hw", {"out_of_sequence": t}, t=t) for t in order)
        assert value(frame_at(a, 4).blocks["port"], "h1/mlx5_0/1", "out_of_sequence_rx") == 3
        assert (a.counts.framed, a.counts.superseded) == (1, 2)


def test_of_watermarks_the_highest_of_a_tick_stands():
    """Each is cleared by being read: the newest alone would hide the peak."""
    a = assembler()
    labels = {"switch": "s1", "port": "Ethernet0", "queue": "3"}
    name = "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"
    a.add(reading("sonic.queue_watermarks", labels, {name: v}, t=t) for t, v in ((1, 70), (3, 20), (2, 900)))
    assert value(frame_at(a, 4).blocks["port"], "s1/Ethernet0", "queue_watermark_bytes[3]") == 900
    assert (a.counts.framed, a.counts.superseded) == (1, 2)
    a.add([reading("sonic.queue_watermarks", labels, {name: 10}, t=5)])
    assert value(frame_at(a, 6).blocks["port"], "s1/Ethernet0", "queue_watermark_bytes[3]") == 10


def test_an_old_reading_is_absent_and_never_fresh():
    a = assembler(max_age_s=10)
    a.add([host("mlx5.hw", {"out_of_sequence": 5}, t=0), switch("sonic.appl_port", {"oper_status": "up"}, t=0)])

    assert value(frame_at(a, 5).blocks["port"], "h1/mlx5_0/1", "out_of_sequence_rx") == 5
    assert frame_at(a, 10).blocks["port"].t_ns[0] == T0 * 10**9  # with its own time, that of the sample
    gone = frame_at(a, 10.1).blocks["port"]
    assert value(gone, "h1/mlx5_0/1", "out_of_sequence_rx") is None
    assert value(gone, "s1/Ethernet0", "oper_up") is None
    assert gone.t_ns.tolist() == [NO_TIME, NO_TIME]


def test_what_comes_too_late_or_from_the_future_is_counted():
    a = assembler(max_age_s=10, max_ahead_s=5)
    a.add([host("mlx5.hw", {"out_of_sequence": 5}, t=0), host("mlx5.hw", {"out_of_sequence": 9}, t=26, device="b")])
    frame_at(a, 20)

    assert (a.counts.late, a.counts.framed) == (2, 0)


def test_optics_that_a_switch_reads_once_a_minute_hold_longer():
    a = assembler(max_age_s=10)
    a.add([switch("sonic.transceiver_dom_sensor", {"rx1power": "-2.5"}, t=0)])

    assert value(frame_at(a, 100).blocks["port"], "s1/Ethernet0", "rx_power_dbm[0]") == pytest.approx(-2.5)
    assert value(frame_at(a, 200).blocks["port"], "s1/Ethernet0", "rx_power_dbm[0]") is None


# ---- several sources ------------------------------------------------------------------------------------------------
def both(t: float, *, exporter=50, device=5):
    yield host("node_exporter", {"node_infiniband_packet_sequence_errors_total": exporter}, source="prom", t=t + 0.5)
    if device is not None:
        yield host("mlx5.hw", {"packet_seq_err": device}, source="agent", t=t)


def test_the_device_itself_comes_before_an_exporter():
    a = assembler()
    a.add(both(0))
    block = frame_at(a, 1).blocks["port"]

    assert value(block, "h1/mlx5_0/1", "seq_naks_rx") == 5
    assert seconds(block, "h1/mlx5_0/1", "seq_naks_rx") == 0
    assert (a.counts.framed, a.counts.superseded) == (1, 1)


def test_a_source_is_followed_until_it_is_gone_and_the_change_is_told():
    a = assembler(max_age_s=10)
    a.add(both(0, device=None))  # only the exporter is there at first
    assert frame_at(a, 1).blocks["port"].anew is None
    a.add(both(10))
    block = frame_at(a, 11).blocks["port"]
    assert value(block, "h1/mlx5_0/1", "seq_naks_rx") == 50  # followed on, although the device is there now

    a.add([host("mlx5.hw", {"packet_seq_err": 6}, source="agent", t=15)])
    assert value(frame_at(a, 16).blocks["port"], "h1/mlx5_0/1", "seq_naks_rx") == 50  # the exporter's still holds
    a.add([host("mlx5.hw", {"packet_seq_err": 7}, source="agent", t=25)])
    block = frame_at(a, 26).blocks["port"]
    assert value(block, "h1/mlx5_0/1", "seq_naks_rx") == 7
    assert block.anew.tolist() == [[block.counter_names.index("seq_naks_rx"), 0]]
    a.add([host("mlx5.hw", {"packet_seq_err": 8}, source="agent", t=30)])
    assert frame_at(a, 31).blocks["port"].anew is None


def test_a_source_that_can_not_read_a_column_gives_way():
    a = assembler()
    a.add([host("mlx5.port", {"symbol_error": 3}, t=0), host("mlx5.ethtool", {"rx_pcs_symbol_err_phy": 3}, t=0)])
    a.add([host("mlx5.port", {"port_rcv_errors": 3}, t=0)])
    assert value(frame_at(a, 1).blocks["port"], "h1/mlx5_0/1", "rx_symbol_errors") == 3
    a.add([host("mlx5.ethtool", {"rx_pcs_symbol_err_phy": None}, t=10), host("mlx5.port", {"symbol_error": 4}, t=10)])
    block = frame_at(a, 11).blocks["port"]

    assert value(block, "h1/mlx5_0/1", "rx_symbol_errors") == 4
    assert block.anew is not None
    assert a.counts.unreadable == 1


def test_two_servers_with_the_same_target_are_two_sources():
    a = assembler()
    for t in (0, 10):
        a.add([host("mlx5.hw", {"out_of_sequence": 7 + t}, source="a", t=t)])
        a.add([host("mlx5.hw", {"out_of_sequence": 9 + t}, source="b", t=t + 1)])
        assert value(frame_at(a, t + 2).blocks["port"], "h1/mlx5_0/1", "out_of_sequence_rx") == 7 + t


def test_columns_that_were_sampled_at_different_times_keep_them():
    a = assembler()
    a.add([host("mlx5.hw", {"out_of_sequence": 1}, t=1.0), host("mlx5.port", {"port_xmit_wait": 2}, t=1.4)])
    a.add(
        [
            host("mlx5.ethtool", {"rx_crc_errors_phy": 3}, t=1.9),
            switch("sonic.port", {"SAI_PORT_STAT_IF_IN_OCTETS": "4"}, t=0.2),
        ]
    )
    block = frame_at(a, 2).blocks["port"]

    assert seconds(block, "h1/mlx5_0/1", "out_of_sequence_rx") == 1.0
    assert seconds(block, "h1/mlx5_0/1", "xmit_wait") == 1.4
    assert seconds(block, "h1/mlx5_0/1", "rx_crc_errors") == 1.9
    assert seconds(block, "s1/Ethernet0", "rx_bytes") == 0.2
    assert [(t - T0 * 10**9) / 1e9 for t in block.t_ns.tolist()] == [1.9, 0.2]
    assert block.times.shape[0] <= 3


def test_widths_of_mixed_makers():
    a = assembler()
    a.add(
        [
            host("mlx5.hw", {"packet_seq_err": 5}),
            host("bnxt.hw", {"seq_err_naks_rcvd": 6}, name="h2", device="bnxt_re0"),
        ]
    )
    block = frame_at(a, 1).blocks["port"]

    assert width(block, "h1/mlx5_0/1", "seq_naks_rx") == 32
    assert width(block, "h2/bnxt_re0/1", "seq_naks_rx") == 64
    assert block.widths_at.shape == block.counters.shape


# ---- sums, lanes, parts ---------------------------------------------------------------------------------------------
PACKETS = {"SAI_PORT_STAT_IF_IN_UCAST_PKTS": "8", "SAI_PORT_STAT_IF_IN_NON_UCAST_PKTS": "3"}


def test_sums_are_whole_or_absent():
    a = assembler()
    a.add([switch("sonic.port", PACKETS)])
    a.add([switch("sonic.port", {**PACKETS, "SAI_PORT_STAT_IF_IN_NON_UCAST_PKTS": None}, port="Ethernet4")])
    a.add([switch("sonic.port", {"SAI_PORT_STAT_IF_IN_UCAST_PKTS": "8"}, port="Ethernet8")])
    block = frame_at(a, 1).blocks["port"]

    assert value(block, "s1/Ethernet0", "rx_packets") == 11
    assert value(block, "s1/Ethernet4", "rx_packets") is None
    assert (a.counts.framed, a.counts.unreadable, a.counts.read) == (2, 3, 5)


def test_lanes_in_json():
    a = assembler()
    lanes = '{"0": ["T", 1678886400000, 5], "1": ["F*", 0, 0]}'
    a.add([switch("sonic.port_phy_attr", {"phy_rx_signal_detect": lanes, "pcs_fec_lane_alignment_lock": "{"})])
    block = frame_at(a, 1).blocks["port"]

    assert value(block, "s1/Ethernet0", "signal_detected[0]") == 1
    assert value(block, "s1/Ethernet0", "signal_detected[1]") == 0
    assert list(a.unbound.report()) == [("sonic.port_phy_attr", "pcs_fec_lane_alignment_lock")]
    assert a.counts.accounted() == a.counts.read == 3


@pytest.mark.parametrize(
    ("dialect", "labels", "native", "kind", "column"),
    [
        ("sonic.queue", {"queue": "3"}, "SAI_QUEUE_STAT_DROPPED_PACKETS", "port", "queue_drops[3]"),
        (
            "sonic.pg_watermarks",
            {"pg": "4"},
            "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES",
            "port",
            "pg_watermark_bytes[4]",
        ),
        (
            "sonic.pool_watermarks",
            {"pool": "egress_lossy_pool"},
            "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES",
            "switch",
            "buffer_pool_watermark_bytes[egress_lossy_pool]",
        ),
        (
            "openconfig",
            {"queue": "UC3"},
            "/qos/interfaces/interface/output/queues/queue/state/dropped-pkts",
            "port",
            "queue_drops[3]",
        ),
        (
            "openconfig",
            {"component": "CPU0"},
            "/components/component/state/temperature/instant",
            "switch",
            "sensor_temperature_c[CPU0]",
        ),
    ],
)
def test_parts_that_labels_say(dialect, labels, native, kind, column):
    a = assembler()
    a.add([switch(dialect, {native: "7"}, labels=labels)])
    block = frame_at(a, 1).blocks[kind]

    assert value(block, "s1/Ethernet0" if kind == "port" else "s1", column) == 7


def test_a_part_that_can_not_be_is_unbound():
    a = assembler()
    a.add([switch("sonic.queue", {"SAI_QUEUE_STAT_PACKETS": "7"}, labels={"queue": "third"})])
    a.add([switch("sonic.queue", {"SAI_QUEUE_STAT_PACKETS": "7"})])
    frame_at(a, 1)

    assert a.counts.unbound == 2


def test_one_value_of_one_name_stands_back_for_a_better_one():
    a = assembler()
    a.add([host("bnxt.hw", {"to_retransmits": 4, "local_ack_timeout_err": 9})])

    assert value(frame_at(a, 1).blocks["port"], "h1/mlx5_0/1", "ack_timeouts") == 4
    assert a.counts.superseded == 1


# ---- nothing is lost ------------------------------------------------------------------------------------------------
def test_unknown_names_are_kept_with_a_sample():
    a = assembler()
    a.add([host("ionic.hw", {"new_counter": 7}, t=1), host("ionic.hw", {"new_counter": 9}, t=3, source="b")])
    a.add([reading("nobody.knows", {"host": "h"}, {"x": 1})])
    frame_at(a, 4)
    kept = a.unbound.report()["ionic.hw", "new_counter"]

    assert (kept.count, kept.sample, kept.source) == (2, "9", "b")
    assert ("nobody.knows", "x") in a.unbound.report()
    assert a.counts.unbound == 3


def test_strange_states_are_kept_as_text():
    a = assembler()
    a.add([switch("sonic.appl_port", {"oper_status": "dormant", "admin_status": "up"})])
    block = frame_at(a, 1).blocks["port"]

    assert value(block, "s1/Ethernet0", "oper_up") is None
    assert value(block, "s1/Ethernet0", "admin_up") == 1
    assert a.unbound.report()["sonic.appl_port", "oper_status"].sample == "dormant"


def test_leftovers_are_bounded_and_what_did_not_fit_is_counted():
    kept = Leftovers(room=2)
    for name in "abcab":
        kept.note(("d", name), reading("d", {}, {}), sample="x" * 1000)

    assert (len(kept), kept.total, kept.no_room) == (2, 5, 1)
    assert len(kept.report()["d", "a"].sample) < 200


def test_objects_that_name_no_host_are_unplaced():
    a = assembler()
    a.add([reading("mlx5.hw", {"device": "mlx5_0"}, {"out_of_sequence": 1, "packet_seq_err": 2})])
    frame_at(a, 1)

    assert a.counts.unplaced == 2
    assert list(a.unplaced.report()) == [("mlx5.hw", "device=mlx5_0")]


NAMES = {
    "mlx5.hw": [
        "out_of_sequence",
        "packet_seq_err",
        "np_cnp_sent",
        "cc_tx_cnp_pkts",
        "lifespan",
        "news",
        "req_cqe_error",
        "resp_cqe_error",
    ],
    "sonic.port": [
        "SAI_PORT_STAT_IF_IN_OCTETS",
        "SAI_PORT_STAT_PFC_3_RX_PKTS",
        "SAI_PORT_STAT_IF_IN_UCAST_PKTS",
        "SAI_PORT_STAT_IF_IN_NON_UCAST_PKTS",
        "X",
    ],
    "sonic.port_phy_attr": ["phy_rx_signal_detect", "rx_snr"],
    "rdma.port": ["state", "rate", "link_layer"],
    "node_exporter": [
        "node_infiniband_packet_sequence_errors_total",
        "node_boot_time_seconds",
        "node_timex_offset_seconds",
    ],
    "pcie": ["current_link_speed", "aer_dev_fatal.TOTAL_ERR_FATAL"],
    "unheard.of": ["a"],
}
VALUES = st.one_of(
    st.integers(0, 9),
    st.just(2**64 - 1),
    st.floats(0, 9),
    st.sampled_from(["7", "up", "4: ACTIVE", "N/A", "odd", '{"0": "T", "1": "F"}', "{}"]),
    st.none(),
)


@st.composite
def readings(draw):
    dialect = draw(st.sampled_from(sorted(NAMES)))
    names = draw(st.lists(st.sampled_from(NAMES[dialect]), min_size=1, unique=True))
    labels = {"device": draw(st.sampled_from("ab")), "port": "1"}
    if draw(st.integers(0, 5)):
        labels["switch" if dialect.startswith("sonic") else "host"] = draw(st.sampled_from("xy"))
    values = {name: draw(VALUES) for name in names}
    t = draw(st.sampled_from([-50, 0, 1, 2, 90]))
    return reading(dialect, labels, values, t=t, source=draw(st.sampled_from("pq")))


def content(a: Assembler, t: float):
    """All that a frame says, by name."""
    out = {}
    for kind, block in frame_at(a, t).blocks.items():
        for i in range(len(block.entities)):
            name = block.entities.name_of(i)
            for column in (*block.counter_names, *block.gauge_names):
                if (found := value(block, name, column)) is not None:
                    out[kind, name, column] = (
                        found,
                        seconds(block, name, column) if column in block.counter_names else 0,
                    )
    return out


@given(st.lists(readings(), max_size=25), st.randoms())
@settings(max_examples=150, deadline=None)
def test_every_value_is_accounted_for_and_the_order_within_a_tick_is_nothing(some, order):
    shuffled = list(some)
    order.shuffle(shuffled)
    first, second = assembler(), assembler()
    first.add(some)
    for one in shuffled:
        second.add([one])

    assert content(first, 3) == content(second, 3)
    for a in (first, second):
        assert a.counts.read == a.counts.accounted() >= sum(len(r.values) for r in some)
        assert a.counts.unbound == a.unbound.total
    assert first.counts == second.counts


@given(st.lists(st.lists(readings(), max_size=8), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_every_value_is_accounted_for_over_ticks(ticks):
    a = assembler()
    for i, some in enumerate(ticks):
        a.add(some)
        content(a, 3 + i)
        assert a.counts.read == a.counts.accounted()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), min_size=1, max_size=30))
def test_the_newest_of_many_wins(samples):
    a = assembler()
    a.add(host("mlx5.hw", {"out_of_sequence": v}, t=t) for t, v in samples)

    assert value(frame_at(a, 21).blocks["port"], "h1/mlx5_0/1", "out_of_sequence_rx") == max(samples)[1]


def test_many_entities_and_columns_agree_with_a_plain_reading():
    """The same over 300 ports as value by value in plain Python."""
    rng = random.Random(7)
    wanted, some = {}, []
    for port in range(300):
        for _ in range(2):
            t, values = rng.randrange(9), {f"SAI_PORT_STAT_PFC_{p}_RX_PKTS": rng.randrange(2**63) for p in range(8)}
            some.append(switch("sonic.port", values, port=f"Ethernet{port}", t=t))
            for p in range(8):
                new = (t, values[f"SAI_PORT_STAT_PFC_{p}_RX_PKTS"])
                wanted[port, p] = max(wanted.get((port, p), (-1, 0)), new)
    rng.shuffle(some)
    a = assembler()
    a.add(some)
    block = frame_at(a, 9).blocks["port"]

    for (port, p), (t, v) in wanted.items():
        assert value(block, f"s1/Ethernet{port}", f"pfc_rx_frames[{p}]") == v
        assert seconds(block, f"s1/Ethernet{port}", f"pfc_rx_frames[{p}]") == t


def test_entities_that_come_later_find_room():
    a = assembler()
    for tick in range(4):
        a.add(
            switch("sonic.port", {"SAI_PORT_STAT_IF_IN_OCTETS": i}, port=f"Ethernet{i}", t=tick)
            for i in range(50 * tick + 1)
        )
        block = frame_at(a, tick + 0.5).blocks["port"]
        assert len(block.entities) == 50 * tick + 1 == block.counters.shape[1]
        assert block.counters[0].tolist() == list(range(50 * tick + 1))


def test_a_frame_of_nothing_is_empty():
    a = Assembler(NamedPlaces())
    assert frame_at(a, 0).blocks == {}
    a.add([])
    assert frame_at(a, 1).blocks == {}


def test_names_without_end_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("railkeeper.telemetry.assemble.MAX_PLANS", 10)
    monkeypatch.setattr("railkeeper.telemetry.assemble.MAX_OBJECTS", 10)
    a = Assembler(NamedPlaces(max_entities=20))
    for tick in range(5):
        a.add(
            host("ionic.hw", {f"invented_{tick}_{i}": 1, "resp_rx_dup_request": i}, name=f"h{tick}-{i}", t=tick)
            for i in range(30)
        )
        frame_at(a, tick + 0.5)

    assert a.counts.read == a.counts.accounted() == 300
    assert len(a._objects) <= 30
    assert len(a._plans) <= 30
    assert a.counts.unplaced == 130
    assert np.ptp([len(frame_at(a, 9).blocks["port"].entities), 20]) == 0
