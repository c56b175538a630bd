"""Stable names of components, both ways.

`n12` node, `n12/nic0` NIC, `n12/nic0/p3` its port in plane 3, `p3/t0-7` T0, `p3/t1-11` T1 (`r2p3/...` with
several rails), `LOWER--UPPER` link, `n12/nic0/optic0` and `p3/t0-7/optic4` optics.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric


class Kind(enum.IntEnum):
    """What a component is."""

    NODE = 0
    NIC = 1
    PORT = 2
    T0 = 3
    T1 = 4
    LINK = 5
    NIC_OPTIC = 6
    T0_OPTIC = 7


class Component(NamedTuple):
    """One part of a fabric: its kind and its dense id within that kind."""

    kind: Kind
    id: int


_NODE = re.compile(r"n(0|[1-9]\d*)(?:/nic(0|[1-9]\d*)(?:/(p|optic)(0|[1-9]\d*))?)?", re.ASCII)
_SWITCH = re.compile(r"(?:r(0|[1-9]\d*))?p(0|[1-9]\d*)/t([01])-(0|[1-9]\d*)(?:/optic(0|[1-9]\d*))?", re.ASCII)
_MAX_DIGITS = 10  # more than any id has; Python itself refuses to read numbers of thousands of digits
_FORMS = "n12, n12/nic0, n12/nic0/p3, n12/nic0/optic0, p3/t0-7, p3/t1-11, p3/t0-7/optic4 or LOWER--UPPER"


def name_of(fabric: Fabric, component: Component) -> str:
    """Return the stable name of a component."""
    return _NAMERS[component.kind](fabric, component.id)


def domain_name(fabric: Fabric, domain: int) -> str:
    """Return `p3`, or `r2p3` where there are several rails."""
    rail, plane = divmod(domain, fabric.planes)
    return f"r{rail}p{plane}" if fabric.rails > 1 else f"p{plane}"


def nic_name(fabric: Fabric, nic: int) -> str:
    """Return `n12/nic0`."""
    node, index = divmod(int(nic), fabric.nics_per_node)
    return f"n{node}/nic{index}"


def port_name(fabric: Fabric, port: int) -> str:
    """Return `n12/nic0/p3`."""
    nic, plane = divmod(int(port), fabric.planes)
    return f"{nic_name(fabric, nic)}/p{plane}"


def t0_name(fabric: Fabric, t0: int) -> str:
    """Return `p3/t0-7`."""
    domain, i = divmod(int(t0), fabric.t0_per_plane)
    return f"{domain_name(fabric, domain)}/t0-{i}"


def t1_name(fabric: Fabric, t1: int) -> str:
    """Return `p3/t1-11`."""
    domain, j = divmod(int(t1), fabric.t1_per_plane)
    return f"{domain_name(fabric, domain)}/t1-{j}"


def link_name(fabric: Fabric, link: int) -> str:
    """Return `LOWER--UPPER`."""
    lower, upper = int(fabric.link_lower[link]), int(fabric.link_upper[link])
    if link < fabric.n_ports:
        return f"{port_name(fabric, lower)}--{t0_name(fabric, upper)}"
    return f"{t0_name(fabric, lower)}--{t1_name(fabric, upper)}"


def directed_name(fabric: Fabric, directed: int) -> str:
    """Return `LOWER--UPPER up` or `LOWER--UPPER down` of a directed link."""
    link, way = divmod(int(directed), 2)
    return f"{link_name(fabric, link)} {'down' if way else 'up'}"


def _nic_optic_name(fabric: Fabric, optic: int) -> str:
    nic, o = divmod(int(optic), fabric.optics_per_nic)
    return f"{nic_name(fabric, nic)}/optic{o}"


def _t0_optic_name(fabric: Fabric, optic: int) -> str:
    t0, o = divmod(int(optic), fabric.optics_per_t0)
    return f"{t0_name(fabric, t0)}/optic{o}"


_NAMERS = {
    Kind.NODE: lambda _f, i: f"n{i}",
    Kind.NIC: nic_name,
    Kind.PORT: port_name,
    Kind.T0: t0_name,
    Kind.T1: t1_name,
    Kind.LINK: link_name,
    Kind.NIC_OPTIC: _nic_optic_name,
    Kind.T0_OPTIC: _t0_optic_name,
}


def parse_name(fabric: Fabric, text: str, *, where: str = "name") -> Component:
    """Return the component of a name.

    Raises InputError when the form is unknown or the fabric has no such part.
    """
    if "--" in text:
        return _parse_link(fabric, text, where)
    if m := _NODE.fullmatch(text):
        return _parse_node(fabric, text, m, where)
    if m := _SWITCH.fullmatch(text):
        return _parse_switch(fabric, text, m, where)
    raise InputError(where, f"{text!r} is not a component name", f"use {_FORMS}")


def _parse_node(f: Fabric, text: str, m: re.Match[str], where: str) -> Component:
    node = _index(m[1], f.n_nodes, "node", text, where)
    if m[2] is None:
        return Component(Kind.NODE, node)
    nic = node * f.nics_per_node + _index(m[2], f.nics_per_node, "nic", text, where)
    if m[3] is None:
        return Component(Kind.NIC, nic)
    if m[3] == "p":
        return Component(Kind.PORT, nic * f.planes + _index(m[4], f.planes, "plane", text, where))
    _need_optics(f, text, where)
    return Component(Kind.NIC_OPTIC, nic * f.optics_per_nic + _index(m[4], f.optics_per_nic, "optic", text, where))


def _parse_switch(f: Fabric, text: str, m: re.Match[str], where: str) -> Component:
    if (m[1] is None) != (f.rails == 1):
        right = "p3/..." if f.rails == 1 else "r2p3/..."
        raise InputError(where, f"{text!r} has the wrong plane name", f"this fabric has {f.rails} rail(s): {right}")
    rail = _index(m[1] or "0", f.rails, "rail", text, where)
    domain = rail * f.planes + _index(m[2], f.planes, "plane", text, where)
    if m[3] == "1":
        if m[5] is not None:
            raise InputError(
                where, f"{text!r}: optics of a T1 are not modelled", "name the T0 side's optic or the link"
            )
        return Component(Kind.T1, domain * f.t1_per_plane + _index(m[4], f.t1_per_plane, "t1", text, where))
    t0 = domain * f.t0_per_plane + _index(m[4], f.t0_per_plane, "t0", text, where)
    if m[5] is None:
        return Component(Kind.T0, t0)
    _need_optics(f, text, where)
    return Component(Kind.T0_OPTIC, t0 * f.optics_per_t0 + _index(m[5], f.optics_per_t0, "optic", text, where))


def _parse_link(f: Fabric, text: str, where: str) -> Component:
    lower_text, _, upper_text = text.partition("--")
    if "--" in upper_text:
        raise InputError(where, f"{text!r} has more than two ends", "name the lower end first, then the upper")
    lower, upper = parse_name(f, lower_text, where=where), parse_name(f, upper_text, where=where)
    link = -1
    if lower.kind is Kind.PORT and upper.kind is Kind.T0:
        link = lower.id
    elif lower.kind is Kind.T0 and upper.kind is Kind.T1:
        link = int(f.fabric_link(lower.id, upper.id % f.t1_per_plane))
    if link < 0 or f.link_upper[link] != upper.id:
        raise InputError(
            where,
            f"this fabric has no link {text!r}",
            "name the lower end first, then the upper: PORT--T0 or T0--T1 of one plane",
        )
    return Component(Kind.LINK, link)


def _need_optics(f: Fabric, text: str, where: str) -> None:
    if f.spec.optics is None:
        raise InputError(where, f"{text!r}: this fabric's spec has no [optics]", "add the table or name ports")


def _index(digits: str, count: int, what: str, text: str, where: str) -> int:
    if len(digits) > _MAX_DIGITS or int(digits) >= count:
        raise InputError(where, f"{text!r}: {what} {digits} does not exist", f"0 to {count - 1}")
    return int(digits)
