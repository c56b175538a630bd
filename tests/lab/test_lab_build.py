"""Labs come up as planned, carry packets on every path, and go down wholly."""

import subprocess
from pathlib import Path

import pytest
from lab_packets import fabric_of, oneway, send_over, small_fabric, t0_bounce, t1_bounce

from railkeeper.base.errors import OutsideError
from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.lab import names, netns
from railkeeper.lab.build import build

pytestmark = pytest.mark.lab


def spaces_of(prefix):
    return sorted(p.name for p in Path("/run/netns").iterdir() if p.name.startswith(f"{prefix}-"))


def test_packets_take_every_kind_of_path(lab):
    f = lab.fabric
    for plane in range(f.planes):
        assert send_over(lab, t0_bounce(1, plane), 10).good == 10
        for t1 in range(f.t1_per_plane):
            assert send_over(lab, t1_bounce(0, plane, t1), 10).good == 10
            assert send_over(lab, oneway(0, 3, plane, t1), 10).good == 10
            far = make_paths(PathKind.FAR_BOUNCE, 0, plane, t1=t1, far=1, back=1 - t1)
            assert send_over(lab, far, 10).good == 10
    assert send_over(lab, oneway(0, 1, 0, 0), 10).good == 10


def test_two_nics_of_a_node_in_the_same_plane_are_told_apart_by_the_device(make_lab):
    """NIC 0 and 1 sit under different T0s as number 0 of each: they even have the same address."""
    lab = make_lab(fabric_of(planes=1, t0_per_plane=2, t1_per_plane=1, nics_per_t0=1, nics_per_node=2))
    for nic in (0, 1):
        device = names.nic_interface(lab.fabric, nic)
        assert send_over(lab, t0_bounce(nic, 0), 10, device=device).good == 10
        assert send_over(lab, t1_bounce(nic, 0, 0), 10, device=device).good == 10
    with netns.entered(names.node_ns(lab.prefix, 0)):
        subprocess.run(["ip", "link", "set", "nic1p0", "down"], check=True)
    assert send_over(lab, t1_bounce(0, 0, 0), 10, device="nic0p0").good == 10


def test_rails_are_fabrics_of_their_own(make_lab):
    lab = make_lab(fabric_of(planes=2, t0_per_plane=2, t1_per_plane=2, nics_per_t0=2, nics_per_node=2, rails=2))
    for nic in (0, 1):
        assert send_over(lab, t1_bounce(nic, 1, 1), 10).good == 10
        assert send_over(lab, oneway(nic, nic + 4, 0, 1), 10).good == 10


@pytest.mark.parametrize(
    ("planes", "t0", "t1", "nics_per_t0"),
    [(2, 4, 4, 4), (4, 8, 8, 8), pytest.param(4, 16, 16, 56, marks=pytest.mark.slow)],
)
def test_labs_up_to_a_thousand_namespaces_come_up_and_carry_packets(make_lab, planes, t0, t1, nics_per_t0):
    lab = make_lab(fabric_of(planes=planes, t0_per_plane=t0, t1_per_plane=t1, nics_per_t0=nics_per_t0))

    assert send_over(lab, oneway(0, lab.fabric.n_nics - 1, planes - 1, t1 - 1), 20).good == 20


def test_closing_leaves_nothing_and_may_be_done_twice(prefix):
    lab = build(small_fabric(), prefix)

    assert len(spaces_of(prefix)) == 12
    lab.close()
    lab.close()

    assert spaces_of(prefix) == []
    assert not Path(f"/run/railkeeper/{prefix}.lab.json").exists()


def test_closing_goes_on_when_a_helper_fails(prefix):
    lab = build(small_fabric(), prefix)
    lab.at_close(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        lab.close()

    assert spaces_of(prefix) == []


def test_a_prefix_serves_one_lab_at_a_time(lab):
    with pytest.raises(OutsideError, match="already runs"):
        build(small_fabric(), lab.prefix)

    assert lab.verify() == []


def test_two_labs_stand_side_by_side(lab, make_lab):
    other = make_lab(small_fabric())
    other.close()

    assert send_over(lab, t1_bounce(0, 0, 0), 10).good == 10


def test_a_namespace_that_somebody_else_made_is_left_alone(prefix):
    theirs = f"{prefix}-n1"
    subprocess.run(["ip", "netns", "add", theirs], check=True)
    try:
        with pytest.raises(OutsideError, match=theirs):
            build(small_fabric(), prefix)

        assert spaces_of(prefix) == [theirs]
    finally:
        subprocess.run(["ip", "netns", "delete", theirs], check=True)


def test_a_build_that_fails_leaves_nothing(prefix, monkeypatch):
    def fail(*_):
        raise OutsideError("no more")

    monkeypatch.setattr("railkeeper.lab.build._configure", fail)
    with pytest.raises(OutsideError, match="no more"):
        build(small_fabric(), prefix)

    assert spaces_of(prefix) == []
