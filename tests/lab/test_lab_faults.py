"""Every kind of fault, seen on packets; and after any of them the lab is as it was."""

import itertools
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab_packets import fabric_of, fault, oneway, send_over, small_fabric, t0_bounce, t1_bounce

from railkeeper.base.errors import InputError
from railkeeper.fabric.faults import KINDS
from railkeeper.lab.faults import Injector
from railkeeper.lab.shaping import lab_bps

pytestmark = pytest.mark.lab

LINK = "p0/t0-0--p0/t1-0"
ALL = 300


@pytest.fixture
def injector(lab):
    return Injector(lab)


def forth(lab):
    """Packets that cross LINK upwards only."""
    return send_over(lab, oneway(0, 3, 0, 0), ALL)


def back(lab):
    """Packets that cross LINK downwards only."""
    return send_over(lab, oneway(3, 0, 0, 0), ALL)


def beside(lab):
    """Packets that go round LINK."""
    return send_over(lab, t1_bounce(0, 0, 1), ALL)


def inject(lab, injector, **fields):
    injector.inject(fault(lab.fabric, **fields))


@pytest.mark.parametrize("kind", ["loss", "corrupt"])
@pytest.mark.parametrize(("direction", "hit_up", "hit_down"), [("up", 1, 0), ("down", 0, 1), ("both", 1, 1)])
def test_loss_and_corruption_hit_their_direction_and_nothing_else(lab, injector, kind, direction, hit_up, hit_down):
    inject(lab, injector, kind=kind, target=LINK, direction=direction, rate=0.2)
    hits = [s.lost if kind == "loss" else s.corrupt for s in (forth(lab), back(lab))]

    assert [bool(h) for h in hits] == [hit_up, hit_down]
    others = injector.packets_hit("f") - sum(hits)  # the kernel's multicast reports can be hit as well
    assert 0 <= others <= 8
    assert all(0.1 < h / ALL < 0.3 for h in hits if h)
    assert beside(lab).good == ALL


def test_corruption_loses_no_packet_and_spares_the_headers_of_the_payload(lab, injector):
    inject(lab, injector, kind="corrupt", target=LINK, rate=1.0)
    seen = forth(lab)

    assert (seen.lost, seen.good, seen.corrupt) == (0, 0, ALL)
    assert seen.least_ms == 0.0


def test_a_loss_of_one_in_ten_thousand_is_not_rounded_away(lab, injector):
    inject(lab, injector, kind="loss", target=LINK, rate=1e-4)

    assert forth(lab).lost < 5


def test_slow_shapes_one_direction_to_its_share_of_the_nominal_speed(lab, injector):
    inject(lab, injector, kind="slow", target=LINK, direction="up", gbps=25)
    start = time.monotonic()
    seen = send_over(lab, oneway(0, 3, 0, 0), 400, pps=4000, wait_s=0.5)
    arrived_bps = 8 * 296 * seen.good / (time.monotonic() - start)

    assert lab_bps(25, 100) == 5e6
    assert seen.lost > 0
    assert seen.most_ms > 10
    assert arrived_bps < 8e6
    assert back(lab).good == ALL


def test_slow_never_goes_below_half_a_megabit():
    assert lab_bps(0.001, 400) == 0.5e6


@pytest.mark.parametrize(("direction", "up_ms", "down_ms"), [("up", 3, 0), ("down", 0, 3), ("both", 3, 3)])
def test_delay_holds_every_packet_in_its_direction_and_loses_none(lab, injector, direction, up_ms, down_ms):
    inject(lab, injector, kind="delay", target=LINK, direction=direction, ms=3)
    for seen, ms in ((forth(lab), up_ms), (back(lab), down_ms)):
        assert seen.good == ALL
        assert ms <= seen.least_ms < ms + 2


def test_delay_at_a_nic_reaches_sockets_that_are_bound_to_the_port(lab, injector):
    inject(lab, injector, kind="delay", target="n0", ms=2)
    seen = send_over(lab, t0_bounce(0, 0), 50, device="nic0p0")

    assert seen.good == 50
    assert seen.least_ms >= 4


def test_delay_keeps_up_with_five_thousand_packets_a_second(lab, injector):
    inject(lab, injector, kind="delay", target=LINK, ms=2)
    seen = send_over(lab, t1_bounce(0, 0, 0), 5000, pps=5000, wait_s=1.0)

    assert seen.lost == 0
    assert seen.least_ms >= 4


@pytest.mark.parametrize(("direction", "up_lost", "down_lost"), [("up", ALL, 0), ("down", 0, ALL)])
def test_a_one_way_cut_leaves_the_other_way(lab, injector, direction, up_lost, down_lost):
    inject(lab, injector, kind="down", target=LINK, direction=direction)

    assert (forth(lab).lost, back(lab).lost) == (up_lost, down_lost)


@pytest.mark.parametrize("target", [LINK, "p0/t0-0/optic1", "p0/t0-0", "p0/t1-0", "n0", "n0/nic0", "n0/nic0/p0"])
def test_down_cuts_whatever_the_target_carries_and_clearing_restores_all_of_it(lab, injector, target):
    inject(lab, injector, kind="down", target=target)

    assert send_over(lab, t1_bounce(0, 0, 0), 20).good == 0
    assert send_over(lab, t1_bounce(0, 1, 0), 20).good == (0 if target in {"n0", "n0/nic0"} else 20)
    injector.clear("f")
    assert lab.verify() == []
    assert forth(lab).good == ALL


def test_flap_goes_down_and_up_and_down_again(lab, injector):
    inject(lab, injector, kind="flap", target=LINK, down_s=0.1, up_s=0.1)
    states = []
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        states.append(bool(lab.verify(patience_s=0)))
        time.sleep(0.01)

    assert sum(a != b for a, b in itertools.pairwise(states)) >= 4
    injector.clear("f")
    assert lab.verify() == []


@pytest.mark.parametrize("switch", ["p0/t1-0", "p0/t0-0"])
def test_a_black_hole_swallows_all_with_its_ports_up(lab, injector, switch):
    inject(lab, injector, kind="blackhole", target=switch)

    assert lab.verify() == []
    assert forth(lab).lost == ALL
    assert send_over(lab, t1_bounce(0, 0, 0), 20).good == 0
    assert send_over(lab, t1_bounce(0, 1, 0), 20).good == 20


@pytest.mark.parametrize(
    ("kind", "target"),
    [("reboot", "p0/t1-0"), ("reboot", "p0/t0-0"), ("optic", "p0/t0-0/optic1"), ("optic", "n0/nic0/optic0")],
)
def test_reboots_and_optic_flaps_end_by_themselves(lab, injector, kind, target):
    inject(lab, injector, kind=kind, target=target, seconds=1.5)

    assert send_over(lab, t1_bounce(0, 0, 0), 20).good == 0
    assert not injector.over("f")
    deadline = time.monotonic() + 5
    while not injector.over("f") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lab.verify() == []
    assert [f.id for f in injector.active()] == ["f"]
    assert forth(lab).good == ALL


def test_a_node_that_is_down_has_no_ports_and_comes_back(lab, injector):
    inject(lab, injector, kind="node-down", target="n0")

    assert send_over(lab, t0_bounce(0, 0), 20).good == 0
    assert send_over(lab, t1_bounce(1, 0, 0), 20).good == 20
    injector.clear("f")
    assert lab.verify() == []


def test_several_faults_on_one_link_add_up_and_leave_one_by_one(lab, injector):
    inject(lab, injector, id="loss", kind="loss", target=LINK, direction="up", rate=0.5)
    inject(lab, injector, id="corrupt", kind="corrupt", target=LINK, direction="up", rate=0.5)
    inject(lab, injector, id="d1", kind="delay", target=LINK, direction="up", ms=2)
    inject(lab, injector, id="d2", kind="delay", target="p0/t1-0", direction="up", ms=3)
    seen = forth(lab)
    assert seen.lost > 0
    assert seen.corrupt > 0
    assert seen.least_ms >= 5
    for gone in ("loss", "d1", "corrupt"):
        injector.clear(gone)
    seen = forth(lab)
    assert seen.good == ALL
    assert 3 <= seen.least_ms < 5
    injector.clear_all()
    assert forth(lab).least_ms < 2


def test_a_port_that_two_faults_hold_down_comes_up_with_the_last(lab, injector):
    inject(lab, injector, id="a", kind="down", target=LINK)
    inject(lab, injector, id="b", kind="reboot", target="p0/t1-0", seconds=60)
    injector.clear("a")
    assert any("p0t1-0" in p for p in lab.verify(patience_s=0))
    injector.clear("b")

    assert lab.verify() == []


def test_slow_and_delayed_links_stay_so_after_a_flap(lab, injector):
    inject(lab, injector, id="slow", kind="slow", target=LINK, direction="up", gbps=25)
    inject(lab, injector, id="delay", kind="delay", target=LINK, direction="up", ms=5)
    inject(lab, injector, id="down", kind="down", target="p0/t0-0")
    injector.clear("down")
    assert lab.verify() == []
    seen = send_over(lab, oneway(0, 3, 0, 0), 60, pps=20_000)

    assert seen.good > 0
    assert seen.least_ms >= 5
    assert seen.most_ms > 10


def test_clearing_one_delay_does_not_hold_up_another(lab, injector):
    for i in range(3):
        inject(lab, injector, id="a", kind="delay", target="p1/t1-0", ms=2)
        inject(lab, injector, id=f"b{i}", kind="delay", target=LINK, ms=1)
        injector.clear("a")

    assert 6 <= send_over(lab, t1_bounce(0, 0, 0), 50).least_ms < 9


def test_an_id_is_used_once_at_a_time_and_unknown_ones_clear_to_nothing(lab, injector):
    inject(lab, injector, kind="down", target=LINK)
    with pytest.raises(InputError, match="active already"):
        inject(lab, injector, kind="down", target=LINK)
    injector.clear("nobody")
    injector.clear("f")
    injector.clear("f")

    assert injector.active() == ()


def test_without_agents_an_agent_can_t_be_down(lab, injector):
    with pytest.raises(InputError, match="runs no agents"):
        inject(lab, injector, kind="agent-down", target="n0")

    assert injector.active() == ()


def test_closing_the_lab_ends_what_is_still_broken(make_lab):
    lab = make_lab(small_fabric())
    injector = Injector(lab)
    for i, line in enumerate([{"kind": "flap", "down_s": 0.05, "up_s": 0.05}, {"kind": "delay", "ms": 2}]):
        inject(lab, injector, id=f"f{i}", target="p0/t1-0", **line)
    lab.close()

    assert injector.active() == ()


NUMBERS = {"rate": 0.1, "gbps": 10, "ms": 1, "down_s": 0.02, "up_s": 0.02, "seconds": 0.02}
TARGETS = [
    "n0",
    "n1/nic0",
    "n2/nic0/p1",
    "p1/t0-0",
    "p0/t1-1",
    LINK,
    "n0/nic0/p0--p0/t0-0",
    "n3/nic0/optic0",
    "p0/t0-1/optic0",
]


@st.composite
def fault_lines(draw):
    kind = draw(st.sampled_from([k for k in KINDS if k != "agent-down"]))
    targets = {"blackhole": TARGETS[3:5], "reboot": TARGETS[3:5], "optic": TARGETS[7:], "node-down": TARGETS[:1]}
    used = {"loss": "rate", "corrupt": "rate", "slow": "gbps", "delay": "ms", "reboot": "seconds", "optic": "seconds"}
    fields = ("down_s", "up_s") if kind == "flap" else (used[kind],) if kind in used else ()
    return {
        "kind": kind,
        "target": draw(st.sampled_from(targets.get(kind, TARGETS))),
        "direction": draw(st.sampled_from(["up", "down", "both"])),
        **{field: NUMBERS[field] for field in fields},
    }


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(fault_lines(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_any_faults_cleared_in_any_order_leave_the_lab_as_it_was(lab, lines, random):
    injector = Injector(lab)
    try:
        for i, line in enumerate(lines):
            inject(lab, injector, id=f"f{i}", **line)
        order = [f.id for f in injector.active()]
        random.shuffle(order)
        for fault_id in order:
            injector.clear(fault_id)

        assert lab.verify() == []
        for t1 in (0, 1):
            for plane in (0, 1):
                seen = send_over(lab, oneway(0, 3, plane, t1), 20)
                assert (seen.good, seen.least_ms < 1) == (20, True)
    finally:
        injector.close()


def test_faults_work_in_a_fabric_with_rails(make_lab):
    lab = make_lab(fabric_of(planes=1, t0_per_plane=2, t1_per_plane=1, nics_per_t0=2, nics_per_node=2, rails=2))
    injector = Injector(lab)
    inject(lab, injector, kind="down", target="r1p0/t0-0--r1p0/t1-0")

    assert send_over(lab, t1_bounce(1, 0, 0), 10).good == 0
    assert send_over(lab, t1_bounce(0, 0, 0), 10).good == 10
