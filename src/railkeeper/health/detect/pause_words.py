"""What a pause tree says to people: the root and why it holds, both witnesses, and who is held back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.judging import number, percent, summed
from railkeeper.health.detect.known import at, column
from railkeeper.health.detect.pause_share import LINK, Held
from railkeeper.health.detect.pause_tree import EGRESS, HOST, RING, PauseTree
from railkeeper.health.detect.together import owner_name

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.families import Families
    from railkeeper.health.detect.view import View

_NAMED = 5


def words(view: View, priority: str, tree: PauseTree, held: Held, switches: Families) -> tuple[str, ...]:
    """Return the lines of evidence of a tree; `held` are the ports that the root holds itself."""
    worst = int(np.argmax(np.nan_to_num(held.share)))
    port = int(held.ids[worst])
    holder = int(view.entities.other[port])
    lines = [_root(view, priority, tree, holder, port), _witnesses(view, held, worst)]
    if tree.kind == HOST:
        lines += _host(view, holder)
    elif tree.kind == EGRESS:
        lines += _egress(view, holder, switches)
    return (*lines, *_victims(view, tree))


def _root(view: View, priority: str, tree: PauseTree, holder: int, port: int) -> str:
    what = "the whole link" if priority == LINK else f"priority {priority}"
    if tree.kind == RING:
        ring = sorted({owner_name(view.entities, p) for p in tree.holders})
        return f"deadlock: {', '.join(ring)} hold each other in a ring ({what})"
    if holder < 0 or tree.kind not in {HOST, EGRESS}:
        return f"{view.entities.name_of(port)} is held ({what}); who is at the other end is not known"
    root = owner_name(view.entities, holder)
    if tree.kind == HOST:
        return f"root: {root} holds the fabric ({what}): the host does not take what arrives"
    return f"root: {root} holds those who send to it ({what}) and is not held itself: an egress of it is congested"


def _witnesses(view: View, held: Held, worst: int) -> str:
    port = int(held.ids[worst])
    bound = "" if held.measured[worst] else "at most "
    ends = ((held.said_here[worst], "is held", port), (held.said_there[worst], "holds", int(view.entities.other[port])))
    said = [
        f"{view.entities.name_of(end)} was not read" if np.isnan(share)
        else f"{view.entities.name_of(end)} {verb} {bound}{percent(float(share))} of the time"
        for share, verb, end in ends if end >= 0
    ]  # fmt: skip
    return "; ".join(said)


def _host(view: View, holder: int) -> list[str]:
    """Return what else says that the host is slow: drops at its door, PCIe that waits, no receives posted."""
    ports, nic = view, view.beside.get("nic")
    said = []
    for name in ("rx_discards", "no_receive_buffer"):
        value = float(at(ports, name, np.array([holder]))[0])
        if value > 0:
            said.append(f"{name} {number(value)}/s")
    owner = np.array([view.entities.owner[holder]])
    for name in ("pcie_stalled_seconds", "pcie_buffer_overflows", "no_receive_buffer"):
        value = float(at(nic, name, owner)[0]) if nic is not None else 0.0
        if value > 0:
            said.append(f"{name} {number(value)}/s")
    return [f"its host: {', '.join(said)}"] if said else []


def _egress(view: View, holder: int, switches: Families) -> list[str]:
    """Return the busiest egress of the switch, by fill of queues, else by marks, else by bytes."""
    mine = switches.siblings(holder)
    for signal, unit in (("queue_watermark_bytes", " B"), ("ecn_marked_packets", "/s"), ("tx_bytes", " B/s")):
        values = _of(view, signal, mine)
        if values is not None and np.nanmax(values, initial=0) > 0:
            top = int(mine[np.nanargmax(values)])
            value = float(np.nanmax(values))
            return [
                f"its fullest egress: {view.entities.name_of(top)}, {signal} {number(value)}{unit}{_load(view, top)}"
            ]
    return ["which egress it is can't be told: no queue, mark or byte of its ports was read"]


def _of(view: View, signal: str, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.float32] | None:
    if signal == "tx_bytes":
        return at(view, signal, ids) if column(view, signal) is not None else None
    values = summed(view, signal)
    return None if values is None else values[ids]


def _load(view: View, port: int) -> str:
    sent, speed = (float(at(view, name, np.array([port]))[0]) for name in ("tx_bytes", "speed_gbps"))
    return f", {percent(sent * 8e-9 / speed)} of its speed" if sent > 0 and speed > 0 else ""


def _victims(view: View, tree: PauseTree) -> tuple[str, ...]:
    named = ", ".join(view.entities.name_of(p) for p in tree.victims[:_NAMED])
    more = len(tree.victims) - _NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (f"holds back {len(tree.victims)} ports over {tree.depth} links: {named}{rest}",)
