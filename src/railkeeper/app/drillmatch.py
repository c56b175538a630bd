"""Whether a reported fault is the injected one: same part, same kind, or a part that can't be told from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import Kind, parse_name

if TYPE_CHECKING:
    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fault import Fault


def is_found(fabric: Fabric, injected: InjectedFault, fault: Fault) -> bool:
    """Return whether the reported part is the injected one, or says itself that the two can't be told apart."""
    names = {fault.target, *fault.indistinguishable}
    if injected.target_name in names:
        return True
    if injected.target.kind is Kind.PORT:  # a NIC port and the link that it ends are one part to any observer
        return any(_is_link(fabric, name, injected.target.id) for name in names)
    return False


def _is_link(fabric: Fabric, name: str, link: int) -> bool:
    part = parse_name(fabric, name)
    return part.kind is Kind.LINK and part.id == link


def same_kind(injected: InjectedFault, fault: Fault) -> bool:
    """Return whether kind and direction are the injected ones, or said to fit the evidence as well."""
    kinds, directions = {fault.kind, *fault.also_kinds}, {fault.direction, *fault.directions}
    return injected.kind in kinds and injected.direction in directions


def explains(fabric: Fabric, injected: InjectedFault, fault: Fault) -> bool:
    """Return whether an injected fault is the reason for a report: the same part, or an inner part of it in effect."""
    if is_found(fabric, injected, fault):
        return True
    part = parse_name(fabric, fault.target)
    mine = set(links_of(fabric, injected.target).tolist())
    # Two words for one thing: all links of the report are links of the injected part, and of it alone.
    return part.kind is not Kind.LINK and set(links_of(fabric, part).tolist()) == mine
