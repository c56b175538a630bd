"""Fabrics to test with: small random shapes, and a second model of a fabric that is built from names alone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import strategies as st

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec


def make_fabric(
    planes=2, t0=4, t1=4, nics=4, *, per_node=1, rails=1, gbps=100, optics: tuple[int, int] | None = None
) -> Fabric:
    table = {
        "planes": planes, "t0_per_plane": t0, "t1_per_plane": t1, "nics_per_t0": nics,
        "nics_per_node": per_node, "rails": rails, "link_gbps": gbps,
    }  # fmt: skip
    data: dict = {"fabric": table}
    if optics:
        data["optics"] = {"nic_ports_per_optic": optics[0], "t0_ports_per_optic": optics[1]}
    return Fabric(check_spec(data))


@st.composite
def fabrics(draw) -> Fabric:
    """Small fabrics of every kind of shape: one or several rails, with and without shared optics."""
    planes, t0, t1, nics = (draw(st.integers(1, 4)) for _ in range(4))
    rails = draw(st.sampled_from([1, 1, 2, 3]))
    divisors = [d for d in range(1, 9) if (t0 * nics) % d == 0]
    per_node = rails if rails > 1 else draw(st.sampled_from(divisors))
    optics = draw(st.none() | st.tuples(st.integers(1, planes), st.integers(1, nics + t1)))
    return make_fabric(planes, t0, t1, nics, per_node=per_node, rails=rails, optics=optics)


@dataclass
class Device:
    """A switch with nothing but its own SID and a static table from the next uSID to a neighbour."""

    block: bytes
    sid: bytes
    table: dict[bytes, str] = field(default_factory=dict)


@dataclass
class Wiring:
    """The same fabric as names, cables and static tables, laid out by the written rules and not by the model."""

    nics: list[str] = field(default_factory=list)
    home: dict[tuple[str, int], str] = field(default_factory=dict)  # (NIC, plane) -> T0
    own_address: dict[tuple[str, int], bytes] = field(default_factory=dict)
    switches: dict[str, Device] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)  # (lower end, upper end), in the order of link ids
    optic: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # link -> names of its optics

    def link_names(self) -> list[str]:
        return [f"{lower}--{upper}" for lower, upper in self.links]


def wire(f: Fabric) -> Wiring:
    """Lay a fabric out by hand, from its spec."""
    shape, w = f.spec.fabric, Wiring()
    for rail, plane in itertools.product(range(shape.rails), range(shape.planes)):
        _lay_switches(shape, w, rail, plane)
    nodes = shape.t0_per_plane * shape.nics_per_t0 * shape.rails // shape.nics_per_node
    for node, index, plane in itertools.product(range(nodes), range(shape.nics_per_node), range(shape.planes)):
        _attach(f, w, node, index, plane)
    for rail, plane in itertools.product(range(shape.rails), range(shape.planes)):
        for i, j in itertools.product(range(shape.t0_per_plane), range(shape.t1_per_plane)):
            t0, t1 = f"{_plane(shape, rail, plane)}/t0-{i}", f"{_plane(shape, rail, plane)}/t1-{j}"
            w.links.append((t0, t1))
            w.optic[t0, t1] = _t0_optic(f, t0, shape.nics_per_t0 + j)
    return w


def _plane(shape, rail: int, plane: int) -> str:
    return f"r{rail}p{plane}" if shape.rails > 1 else f"p{plane}"


def _lay_switches(shape, w: Wiring, rail: int, plane: int) -> None:
    name, block = _plane(shape, rail, plane), bytes.fromhex(f"fcbb{rail * shape.planes + plane:04x}")
    t0s = {f"{name}/t0-{i}": bytes.fromhex(f"{0x100 + i:04x}") for i in range(shape.t0_per_plane)}
    t1s = {f"{name}/t1-{j}": bytes.fromhex(f"{0x8000 + j:04x}") for j in range(shape.t1_per_plane)}
    for t0, sid in t0s.items():
        w.switches[t0] = Device(block, sid, {s: t1 for t1, s in t1s.items()})
    for t1, sid in t1s.items():
        w.switches[t1] = Device(block, sid, {s: t0 for t0, s in t0s.items()})


def _attach(f: Fabric, w: Wiring, node: int, index: int, plane: int) -> None:
    shape, nic = f.spec.fabric, f"n{node}/nic{index}"
    rail = index if shape.rails > 1 else 0
    k = node if shape.rails > 1 else node * shape.nics_per_node + index
    t0 = f"{_plane(shape, rail, plane)}/t0-{k // shape.nics_per_t0}"
    usid = bytes.fromhex(f"{0xE000 + k % shape.nics_per_t0:04x}")
    if plane == 0:
        w.nics.append(nic)
    w.home[nic, plane] = t0
    w.own_address[nic, plane] = w.switches[t0].block + usid + bytes(10)
    w.switches[t0].table[usid] = nic
    link = (f"{nic}/p{plane}", t0)
    w.links.append(link)
    w.optic[link] = _t0_optic(f, t0, k % shape.nics_per_t0)
    if f.spec.optics:
        w.optic[link].append(f"{nic}/optic{plane // f.spec.optics.nic_ports_per_optic}")


def _t0_optic(f: Fabric, t0: str, position: int) -> list[str]:
    return [f"{t0}/optic{position // f.spec.optics.t0_ports_per_optic}"] if f.spec.optics else []


def walk(w: Wiring, nic: str, plane: int, outer: bytes) -> tuple[list[str], str]:
    """Send a packet from a NIC's port and follow the static tables; return (directed link names, NIC it ends at)."""
    here, links = w.home[nic, plane], [f"{nic}/p{plane}--{w.home[nic, plane]} up"]
    for _ in range(20):
        switch = w.switches[here]
        assert outer[:4] == switch.block, "the packet is in another plane than its address"
        if outer[4:6] == switch.sid:
            outer = outer[:4] + outer[6:] + bytes(2)
        there = switch.table[outer[4:6]]  # a KeyError is a packet without a route
        if there not in w.switches:
            assert outer == w.own_address[there, plane], "arrived under an address that is not the NIC's"
            return [*links, f"{there}/p{plane}--{here} down"], there
        up = "/t0-" in here
        links.append(f"{here}--{there} up" if up else f"{there}--{here} down")
        here = there
    raise AssertionError("the packet goes round in circles")
