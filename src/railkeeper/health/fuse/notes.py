"""What counters add to a fault that paths have located: agreement, contradiction, silence, a narrower answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name
from railkeeper.health.fault import AGREE, CLEAN, DISAGREE, Fault
from railkeeper.health.fuse.kinds import kind_of
from railkeeper.health.parts import BOTH, DIRECTION_NAMES
from railkeeper.telemetry.ports import DOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.fuse.words import Word
    from railkeeper.telemetry.ports import PortStates

    Ints = npt.NDArray[np.int64]
    Words = Mapping[int, list[Word]]
    CleanLinks = Callable[[Ints], npt.NDArray[np.bool_]]

LOSING = frozenset({"loss", "corrupt"})
PASSING = LOSING | {"slow", "delay"}
GRADUAL = frozenset({"slow", "delay"})
MOST_LINES = 6


class Note(NamedTuple):
    """One of the words of `Fault.counters`, and lines for people."""

    counters: str
    lines: tuple[str, ...]


def links_named(fabric: Fabric, fault: Fault) -> Ints:
    """Return all links that a fault may be of, ascending; those of a name that is not of this fabric are left out."""
    found = [np.array(fault.denied_links, dtype=np.int64) // 2]
    found += [_links(fabric, name) for name in (fault.target, *fault.indistinguishable)]
    return np.unique(np.concatenate(found))


def _links(fabric: Fabric, name: str) -> Ints:
    try:
        return links_of(fabric, parse_name(fabric, name)).astype(np.int64)
    except InputError:
        return np.zeros(0, dtype=np.int64)


def note_of(fabric: Fabric, fault: Fault, words: Words, clean: CleanLinks | None, ports: PortStates) -> Note:
    """Return what counters and port states say of a fault.

    `words`: of directed links, by findings; `clean`: which of some links were read at both ends and show nothing; None
    while the fault is so young that counters could not have shown it: then they can but agree.
    """
    links = _links(fabric, fault.target)
    ways = {w for d in fault.directions or (fault.direction,) for w in _ways(d)}
    here = _said(fault, words, (int(2 * link + w) for link in links for w in sorted(ways)))
    there = _said(fault, words, (int(2 * link + w) for link in links for w in (0, 1) if w not in ways))
    if not here and clean is None:
        return Note("", ())
    lines = [f"{w.text}: agrees" for w in here]
    lines += [f"{w.text}, the other direction: contradicts" for w in there if w not in here]
    lines += _states(fault, links, ports)
    if lines:
        return Note(AGREE if here else DISAGREE, _some(lines))
    if fault.kind in LOSING and len(links) and clean is not None and clean(links).all():
        return Note(CLEAN, (_clean_line(fault, len(links)),))
    return Note("", ())


def _ways(direction: str) -> tuple[int, ...]:
    way = DIRECTION_NAMES.index(direction)
    return (0, 1) if way == BOTH else (way,)


def _said(fault: Fault, words: Words, directed: Iterable[int]) -> list[Word]:
    """Return what findings say, once each; of a speed for a part that is slow, of all else for one that loses."""
    said = dict.fromkeys(w for d in directed for w in words.get(d, ()) if w.finding is not None)
    gradual = fault.kind in GRADUAL
    return [w for w in said if w.finding is not None and (kind_of(w.finding) == "slow") == gradual]


def _states(fault: Fault, links: Ints, ports: PortStates) -> list[str]:
    if fault.kind not in PASSING:
        return []  # the locator of dead parts has read them itself
    down = links[(ports.lower[links] == DOWN) | (ports.upper[links] == DOWN)]
    if not len(down):
        return []
    which = "a port" if len(down) == 1 else f"ports of {len(down)} links"
    return [f"{which} without carrier, and packets pass: contradicts"]


def _some(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - MOST_LINES
    return (*lines[:MOST_LINES], *((f"and {more} findings more",) if more > 0 else ()))


def _clean_line(fault: Fault, n: int) -> str:
    where = "at both ends" if n == 1 else f"at both ends of all {n} links"
    if fault.kind == "corrupt":
        return f"counters {where} are clean: damaged in a memory on the way, not on the wire"
    return f"counters {where} are clean: it loses without counting, as a gray switch does"


# -- a narrower answer -----------------------------------------------------------------------------------
def is_open(fault: Fault) -> bool:
    """Return whether paths have left open which part it is, or in which direction."""
    return len(fault.directions) > 1 or bool(fault.indistinguishable)


def narrowed(fabric: Fabric, fault: Fault, fused: Iterable[Fault], words: Words) -> Fault:
    """Return a fault with only those names and directions that all evidence together leaves.

    Only where counters have said something of what is left. What traffic avoids stays as paths have it: counters deny
    nothing, and take no denial away.
    """
    mine = set(links_named(fabric, fault).tolist())
    near = [g for g in fused if mine & set(_links(fabric, g.target).tolist())]
    if len(near) != 1:
        return fault
    left = _left(fabric, fault, near[0])
    if not _spoken_of(fabric, left, words):
        return fault
    return left


def _left(fabric: Fabric, fault: Fault, fused: Fault) -> Fault:
    fit = {tuple(_links(fabric, n).tolist()) for n in (fused.target, *fused.indistinguishable)}
    names = [n for n in (fault.target, *fault.indistinguishable) if tuple(_links(fabric, n).tolist()) in fit]
    if not names:
        return fault
    ways = tuple(d for d in fault.directions if d in fused.directions) or fault.directions
    way = fault.direction if fault.direction in ways or not ways else ways[0]
    return replace(fault, target=names[0], indistinguishable=tuple(names[1:]), directions=ways, direction=way)


def _spoken_of(fabric: Fabric, fault: Fault, words: Words) -> bool:
    ways = {w for d in fault.directions for w in _ways(d)}
    return any(2 * int(link) + w in words for link in _links(fabric, fault.target) for w in ways)
