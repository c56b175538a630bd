"""The traps of SRv6 in namespaces, each held open by a test."""

import subprocess
import time

import pytest
from lab_packets import fault, oneway, send_over, t1_bounce, udp_socket

from railkeeper.lab import configure, names, netns, rtnl
from railkeeper.lab.faults import Injector
from railkeeper.lab.portstate import Ports
from railkeeper.lab.readback import read_links, read_routes

pytestmark = pytest.mark.lab


def in_space(lab, space, *argv):
    with netns.entered(lab.plan.space_names[space]):
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_usids_are_on_a_device_that_stays_up_when_all_ports_go_down(lab):
    space = lab.plan.space_of_t0(0)
    ports = Ports(lab.plan)
    ports.hold(lab.plan.space(space).ends, "test")
    with netns.entered(lab.plan.space_names[space]), rtnl.RouteSocket() as s:
        link = read_links(s)[names.SID_INDEX]
        sids = [r for r in read_routes(s) if r.next_csid]
    ports.free(lab.plan.space(space).ends, "test")

    assert (link.name, link.up) == (names.SID_LINK, True)
    assert [r.link for r in sids] == [names.SID_INDEX]
    assert lab.verify() == []


def test_no_neighbour_discovery_crosses_a_link_so_loss_is_what_was_asked_for(lab):
    """With discovery, one lost answer is an outage of a second: 10% asked for had become 61%."""
    injector = Injector(lab)
    injector.inject(fault(lab.fabric, kind="loss", target="p0/t0-0--p0/t1-0", rate=0.3))
    seen = send_over(lab, oneway(0, 3, 0, 0), 2000)

    assert 0.2 < seen.lost / seen.sent < 0.4
    counters = in_space(lab, 0, "cat", "/proc/net/snmp6")
    sent = {line.split()[0]: int(line.split()[1]) for line in counters.splitlines()}
    assert sent["Icmp6OutNeighborSolicits"] == 0


def test_static_neighbours_routes_and_addresses_come_back_with_a_link_that_was_down(lab):
    """The kernel drops them all when a link is set down."""
    ends = [2 * 0, 2 * 0 + 1]
    ports = Ports(lab.plan)
    ports.hold(ends, "test")
    while_down = lab.verify(patience_s=0)
    for end in ends:
        space = names.space_of_end(lab.fabric, end)
        index = names.index_of_end(lab.fabric, end)
        with netns.entered(lab.plan.space_names[space]), rtnl.RouteSocket() as s:
            s.apply([rtnl.set_link(index, up=True)], "up by hand")
    by_hand = lab.verify(patience_s=0.1)
    ports.free(ends, "test")

    assert any("down" in p for p in while_down)
    assert any("route" in p for p in by_hand)
    assert lab.verify() == []
    assert send_over(lab, t1_bounce(0, 0, 0), 20).good == 20


def test_a_full_udp_checksum_does_not_survive_the_usid_shift_and_a_zero_one_does(lab):
    """The kernel does not mend the checksum when the destination address is shifted.

    Between veths checksums are not even computed until a device needs them; the TAP of a delayed link is one.
    """
    Injector(lab).inject(fault(lab.fabric, kind="delay", target="n0/nic0/p0", direction="up", ms=1))

    assert send_over(lab, t1_bounce(0, 0, 0), 20).good == 20
    assert send_over(lab, t1_bounce(0, 0, 0), 20, zero_checksum=False).good == 0


def test_reading_back_notices_a_flavour_that_was_dropped_in_silence(lab):
    """A library that does not know `flavors` installs a plain End without a word."""
    space = lab.plan.space_of_t1(0)
    (sid,) = configure.own_sids(lab.plan.space(space))
    plain = rtnl.attr(22 | rtnl.NESTED, rtnl.attr_u32(1, 1)) + rtnl.attr(21, b"\x07\x00")
    with netns.entered(lab.plan.space_names[space]), rtnl.RouteSocket() as s:
        s.apply([rtnl.new_route(sid.prefix, sid.bits, index=names.SID_INDEX, encap=plain)], "plain End")

    (problem,) = lab.verify(patience_s=0)
    assert problem.startswith(lab.plan.space_names[space])
    assert send_over(lab, t1_bounce(0, 0, 0), 20).good == 0


def test_iproute2_sees_what_we_have_written(lab):
    shown = in_space(lab, lab.plan.space_of_t1(1), "ip", "-6", "route", "show", "dev", names.SID_LINK)

    assert "fcbb:0:8001::/48" in shown
    assert "End flavors next-csid lblen 32 nflen 16" in shown


def test_a_packet_that_no_route_wants_raises_no_icmp_error(lab):
    """An error would go to a local uSID, which under another T0 is another NIC."""
    with udp_socket(lab, 0) as s:
        s.setsockopt(41, 25, 1)  # IPV6_RECVERR
        s.sendto(b"x" * 100, ("fcbb:0:100:8000:7777::", 9100))
        time.sleep(0.05)
        with pytest.raises(BlockingIOError):
            s.recv(100, 0x2000)  # MSG_ERRQUEUE
    counters = in_space(lab, lab.plan.space_of_t1(0), "cat", "/proc/net/snmp6").splitlines()
    assert [x.split()[1] for x in counters if x.startswith("Icmp6OutDestUnreachs")] == ["0"]
