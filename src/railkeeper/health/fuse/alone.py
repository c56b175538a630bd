"""Faults that counters alone show: one for each part, whose links tell the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Kind, name_of
from railkeeper.health.fault import ALONE
from railkeeper.health.fuse.fuse import fuse
from railkeeper.health.fuse.kinds import COUNTED_ALONE, founds, founds_with_others, struck

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railkeeper.fabric.names import Component
    from railkeeper.health.detect.finding import Finding
    from railkeeper.health.fault import Fault
    from railkeeper.health.fleet.space import PartSpace

NEARLY_ALL = 0.9  # of a part's links, from which on it is the part: an end or two may not have been read
LEAST = 2
BOTH = 2  # directions of one link
MARK = "known by counters alone"
LINES = 3  # of the links of a wider part


def counted_faults(
    space: PartSpace, findings: Iterable[Finding], covered: Iterable[int], tick: int, tick_s: float
) -> list[Fault]:
    """Return what findings show on links that are not in `covered`, the surest first.

    `tick`: the newest; each begins in the tick of its first finding.
    """
    fabric, taken = space.fabric, set(covered)
    mine = [f for f in findings if f.entity // 2 not in taken and struck(fabric, f)]
    sure = [f for f in mine if founds(f)]
    weak = [replace(f, confidence=COUNTED_ALONE) for f in mine if not founds(f) and founds_with_others(f)]
    strong, alone = sure + weak, {f.entity // 2 for f in sure}
    if not strong:
        return []
    onset: dict[int, float] = {}
    for f in strong:
        onset[f.entity // 2] = min(f.since_s, onset.get(f.entity // 2, f.since_s))
    told = fuse(fabric, findings=strong, tick=tick, space=space)
    begun = [replace(f, since_tick=min(tick, int(onset[f.denied_links[0] // 2] / tick_s))) for f in told]
    made = [f for f in by_part(space, begun) if alone & {d // 2 for d in f.denied_links} or len(f.denied_links) > BOTH]
    marked = [replace(f, counters=ALONE, evidence=(MARK, *f.evidence)) for f in made]
    return sorted(marked, key=lambda f: (-f.confidence, f.target))


def by_part(space: PartSpace, faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults with one for each switch, NIC, node or transceiver whose links show the same kind."""
    out: list[Fault] = []
    for kind in dict.fromkeys(f.kind for f in faults):
        left = {f.denied_links[0] // 2: f for f in faults if f.kind == kind}
        for part in _whole_parts(space, left) if len(left) >= LEAST else ():
            mine = [left.pop(link) for link in space.links(part).tolist() if link in left]
            out.append(_joined(space, part, mine))
        out += left.values()
    return out


def _whole_parts(space: PartSpace, links: Iterable[int]) -> list[int]:
    """Return parts, the widest first, that have nearly all their links among some; no link is in two of them."""
    free = np.array(sorted(links), dtype=np.int64)
    out: list[int] = []
    while len(free) >= LEAST:
        held = space.parts_of_link[free, 1:]
        parts, count = np.unique(held[held >= 0], return_counts=True)
        whole = np.flatnonzero((count >= LEAST) & (count >= NEARLY_ALL * space.size(parts)))
        if not len(whole):
            break
        part = int(parts[whole[np.argmax(count[whole])]])
        out.append(part)
        free = np.setdiff1d(free, space.links(part))
    return out


def _joined(space: PartSpace, part: int, faults: list[Fault]) -> Fault:
    component = space.component(part)
    ways = {f.direction for f in faults}
    way = ways.pop() if len(ways) == 1 else "both"
    kind, also = _kind(component, faults[0])
    lines = tuple(f.evidence[0] for f in faults[:LINES])
    return replace(
        faults[0], target=name_of(space.fabric, component), kind=kind, also_kinds=also, direction=way,
        directions=(way,), confidence=max(f.confidence for f in faults), since_tick=min(f.since_tick for f in faults),
        evidence=(f"{len(faults)} of its {int(space.size(np.array([part]))[0])} links show the same", *lines),
        denied_links=tuple(sorted(d for f in faults for d in f.denied_links)),
    )  # fmt: skip


def _kind(component: Component, one: Fault) -> tuple[str, tuple[str, ...]]:
    """Return the kind of a part whose links all are of one kind, and what fits too."""
    if one.kind != "down":
        return one.kind, one.also_kinds
    if component.kind is Kind.NODE:
        return "node-down", ("down",)
    if component.kind in {Kind.NIC_OPTIC, Kind.T0_OPTIC}:
        return "optic", ("down",)
    return "down", ("reboot",) if component.kind in {Kind.T0, Kind.T1} else ()
