"""The receiving end of one queue pair: place data, say what has arrived, find a way back for that.

Functions over the arrays of an `RxFlow`, which they change in place; no I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.fabric.paths import Paths, links_crossed, outer_addresses
from railkeeper.lab.traffic.sender import SLOTS, ev_paths
from railkeeper.lab.traffic.wire import NO_EV, SACK_BITS, Sack

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

_MASK = SLOTS - 1
_EPOCHS = 1 << 32
_BACK = np.arange(SACK_BITS - 1, -1, -1, dtype=np.int64)
_RING = np.arange(SLOTS, dtype=np.int64)
NONE = -1
# Lab switches mark nothing, so a delay well above the path's own stands for ECN; the path's own creeps up to what it
# is, so that a path that is merely long is soon no longer marked.
MARK_NS, CREEP_NS = 5_000_000, 100_000


@dataclass
class RxFlow:
    """What the receiving end knows of the flow from NIC `src` to NIC `dst`.

    - seen: transmissions by seq modulo SLOTS, up to `top`; got: data by PSN modulo SLOTS, all below `cum` complete
    - marked: of those seen, which met congestion; delay_ns: (EVs of the data,) least one-way delay of each of late
    - back: paths from dst to src, their addresses (n, 16) and links (n, 4), which are allowed; best: (planes,) the EV
      that brings answers, -1 where none does; asked: EVs whose probe has not been answered
    """

    src: int
    dst: int
    back: Paths
    addresses: npt.NDArray[np.uint8]
    links: npt.NDArray[np.int32]
    allowed: Bools
    best: Ints
    delay_ns: Ints
    rng: np.random.Generator
    seen: Bools = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.bool_))
    marked: Bools = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.bool_))
    got: Bools = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.bool_))
    epoch: int = NONE
    top: int = 0
    cum: int = 0
    echo_ns: int = 0
    echo_at_ns: int = 0
    bad_ev: int = NO_EV
    owed: bool = False
    said_ns: int = 0
    turn: int = 0
    requests: int = 0
    asked: set[int] = field(default_factory=set)
    duplicate: int = 0
    corrupt: int = 0
    in_order: int = 0


def make_receiver(fabric: Fabric, src: int, dst: int, rng: np.random.Generator) -> RxFlow:
    """Return a fresh receiving end."""
    back = ev_paths(fabric, dst, src)
    n = len(back)
    return RxFlow(
        src, dst, back, outer_addresses(fabric, back), links_crossed(fabric, back), np.ones(n, dtype=np.bool_),
        np.full(fabric.planes, NONE, dtype=np.int64), np.full(n, _EPOCHS, dtype=np.int64), rng,
    )  # fmt: skip


# -- data -------------------------------------------------------------------------------------------
def on_data(flow: RxFlow, head: npt.NDArray[Any], arrived_ns: Ints) -> None:
    """Take in data packets (n,) of this flow in order of arrival."""
    if not enter_epoch(flow, int(head["epoch"][-1])):
        return
    mine = head["epoch"] == flow.epoch
    head, arrived_ns = head[mine], arrived_ns[mine]
    seqs = head["seq"].astype(np.int64)
    _see(flow, seqs)
    _mark(flow, seqs, head["ev"].astype(np.int64), arrived_ns - head["time_ns"].astype(np.int64))
    adopt(flow, int(head["mark"].max()))
    _place(flow, head["psn"].astype(np.int64))
    flow.echo_ns, flow.echo_at_ns = int(head["time_ns"][-1]), int(arrived_ns[-1])
    flow.owed = True


def enter_epoch(flow: RxFlow, epoch: int) -> bool:
    """Follow the sender into a newer run of it; return whether `epoch` is the current run."""
    if flow.epoch == epoch:
        return True
    if flow.epoch != NONE and (epoch - flow.epoch) % _EPOCHS >= _EPOCHS // 2:
        return False  # a packet that an earlier run of the sender has left behind
    flow.epoch, flow.top = epoch, 0
    flow.seen[:] = False
    return True


def adopt(flow: RxFlow, mark: int) -> None:
    """Take as complete what the sender knows to be acknowledged: an earlier run of this end said so."""
    if mark > flow.cum:
        flow.got[np.arange(flow.cum, min(mark, flow.cum + SLOTS)) & _MASK] = False
        flow.cum = mark
        _advance(flow, counted=False)


def _see(flow: RxFlow, seqs: Ints) -> None:
    top = max(flow.top, int(seqs.max()))
    if top > flow.top:
        flow.seen[np.arange(flow.top + 1, min(top, flow.top + SLOTS) + 1) & _MASK] = False
        flow.top = top
    flow.seen[seqs[seqs > top - SLOTS] & _MASK] = True


def _mark(flow: RxFlow, seqs: Ints, evs: Ints, delay_ns: Ints) -> None:
    evs = np.minimum(evs, len(flow.delay_ns) - 1)
    above_ns = delay_ns - flow.delay_ns[evs]
    # What delays all packets alike is a sender that had to wait for its CPU, not a queue on a path.
    flow.marked[seqs & _MASK] = above_ns > max(0, int(above_ns.min())) + MARK_NS
    flow.delay_ns[evs] += CREEP_NS
    np.minimum.at(flow.delay_ns, evs, delay_ns)


def _place(flow: RxFlow, psns: Ints) -> None:
    fits = psns[(psns >= flow.cum) & (psns < flow.cum + SLOTS)]
    fresh = fits[~flow.got[fits & _MASK]]
    flow.duplicate += len(psns) - len(set(fresh.tolist()))
    flow.got[fresh & _MASK] = True
    _advance(flow, counted=True)


def _advance(flow: RxFlow, *, counted: bool) -> None:
    run = flow.got[(flow.cum + _RING) & _MASK]
    n = SLOTS if run.all() else int(run.argmin())
    if n:
        flow.got[(flow.cum + _RING[:n]) & _MASK] = False
        flow.cum += n
        flow.in_order += n if counted else 0


def on_corrupt(flow: RxFlow, ev: int) -> None:
    """Note damaged data over `ev`: the next SACK tells the sender to leave that path alone."""
    flow.corrupt += 1
    flow.bad_ev, flow.owed = ev, True


def write_sack(flow: RxFlow, now_ns: int) -> Sack:
    """Return what is to be said now, and take it as said."""
    seqs = flow.top - _BACK
    sack = Sack(
        peer_epoch=max(flow.epoch, 0), top=flow.top, echo_ns=flow.echo_ns,
        hold_ns=min(max(0, now_ns - flow.echo_at_ns), _EPOCHS - 1), bad_ev=flow.bad_ev,
        seen=flow.seen[seqs & _MASK] & (seqs >= 0), marked=flow.marked[seqs & _MASK],
    )  # fmt: skip
    flow.echo_ns, flow.bad_ev, flow.owed, flow.said_ns = 0, NO_EV, False, now_ns
    return sack


# -- the way back -------------------------------------------------------------------------------------
def way_back(flow: RxFlow) -> int:
    """Return the EV (of `back`) for the next answer: the planes' best in turn, else any that is allowed."""
    flow.turn += 1
    good = flow.best[flow.best != NONE]
    if len(good):
        return int(good[flow.turn % len(good)])
    allowed = np.flatnonzero(flow.allowed)
    return int(flow.rng.choice(allowed))


def ask(flow: RxFlow) -> tuple[int, int]:
    """Return (EV, request number) of a probe to send now: of each plane in turn its best, then a random one."""
    flow.requests += 1
    planes = len(flow.best)
    plane, best = flow.requests % planes, int(flow.best[flow.requests % planes])
    if best != NONE and (flow.requests // planes) % 2:
        ev = best
    else:
        own = np.flatnonzero(flow.allowed & (flow.back.plane == plane))
        ev = int(flow.rng.choice(own if len(own) else np.flatnonzero(flow.allowed)))
    if ev in flow.asked:  # and has not answered since
        flow.best[flow.best == ev] = NONE
    flow.asked.add(ev)
    return ev, flow.requests


def answered(flow: RxFlow, ev: int) -> None:
    """Note the answer to a probe over `ev`: it becomes its plane's way back unless a working one is there."""
    if not (0 <= ev < len(flow.back) and flow.allowed[ev]):
        return
    flow.asked.discard(ev)
    plane = int(flow.back.plane[ev])
    if flow.best[plane] == NONE:
        flow.best[plane] = ev


def obey(flow: RxFlow, denied_links: npt.NDArray[np.integer]) -> None:
    """Leave ways back that cross one of the directed links, as long as any other is left."""
    allowed = np.asarray(~np.isin(flow.links, denied_links).any(axis=1))
    flow.allowed = allowed if allowed.any() else np.ones(len(allowed), dtype=np.bool_)
    used = np.flatnonzero(flow.best != NONE)
    flow.best[used[~flow.allowed[flow.best[used]]]] = NONE
