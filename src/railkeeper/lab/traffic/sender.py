"""The sending end of one queue pair: spray over EVs, find losses, send again over another path.

Functions over the arrays of a `TxFlow`, which they change in place; no I/O, no clock. A transmission is lost when a
later one over the same EV has arrived and it has not (paths keep order), when one sent much later over any EV has, or
when the receiver has looked again after a long time and still not seen it. A peer of which nothing at all is heard is
silent: that says nothing of paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.paths import PathKind, Paths, links_crossed, make_paths, outer_addresses
from railkeeper.lab.traffic import evstate
from railkeeper.lab.traffic.evstate import Event, EvRules, EvSet, State
from railkeeper.lab.traffic.wire import NO_EV, SACK_BITS, Sack

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

SLOTS = 1024  # transmissions remembered, a power of two
_MASK = SLOTS - 1
WINDOW = 128  # packets between the oldest missing one and the newest sent, MRC's maximum PSN range
FREE, FLYING, ACKED, LOST, UNANSWERED = range(5)
# Packets of one burst carry one time; what was sent in an earlier burst over the same EV can't be behind by order.
SAME_EV_NS = 5_000_000
OTHER_EV_NS = 60_000_000
TIMEOUT_NS = 250_000_000
SILENT_NS = 2_000_000_000
SKIP_NS = 200_000_000  # a few wake-ups: a mark tells of what was some round trips ago
MAX_PATIENCE, PATIENCE_ENDS_NS = 16, 10_000_000_000
PROBE_EVERY_NS, PROBE_TIMEOUT_NS = 150_000_000, 400_000_000
_BITS = np.arange(SACK_BITS, dtype=np.int64)
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass
class Tally:
    """Counts per EV since the last report."""

    sent: Ints
    retransmitted: Ints
    lost: Ints
    spurious: Ints
    delivered: Ints


def new_tally(n: int) -> Tally:
    """Return zeros for `n` EVs."""
    return Tally(*(np.zeros(n, dtype=np.int64) for _ in range(5)))


@dataclass
class TxFlow:
    """What the sending end knows.

    - paths (ONEWAY rows), addresses (n, 16), links (n, 4) directed: of the EVs
    - psn_of, ev_of, sent_ns_of, fate: of the last SLOTS transmissions, by seq modulo SLOTS
    - done: PSNs acknowledged, by PSN modulo SLOTS; cum: all below are; again: (PSN, EV it was
      lost on) to send once more
    - acked_ns: newest sending time acknowledged, per EV; looked_ns: when the peer last looked into its socket
    - asked_ns, asked: when an ASSUMED_BAD EV was last probed, and under which number, 0 once that is answered
    """

    src: int
    dst: int
    paths: Paths
    addresses: npt.NDArray[np.uint8]
    links: npt.NDArray[np.int32]
    evs: EvSet
    rng: np.random.Generator
    acked_ns: Ints
    asked_ns: Ints
    asked: Ints
    tally: Tally
    requests: int = 0
    order: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    cursor: int = 0
    psn_of: Ints = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.int64))
    ev_of: Ints = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.int64))
    sent_ns_of: Ints = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.int64))
    fate: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.int8))
    done: Bools = field(default_factory=lambda: np.zeros(SLOTS, dtype=np.bool_))
    again: list[tuple[int, int]] = field(default_factory=list)
    base_seq: int = 0
    next_seq: int = 0
    next_psn: int = 0
    cum: int = 0
    looked_ns: int = 0
    heard_ns: int = 0
    open: bool = False
    rtt_ns: float = 0.0
    patience: int = 1
    patient_since_ns: int = 0
    unanswered: int = 0
    refused: int = 0
    unsent: int = 0


def make_flow(fabric: Fabric, src: int, dst: int, rng: np.random.Generator, rules: EvRules | None = None) -> TxFlow:
    """Return a fresh flow from NIC `src` to NIC `dst`, over all paths between them.

    By default three quarters of a plane's paths are active, the others backups, and a quarter is the floor.
    """
    paths = ev_paths(fabric, src, dst)
    n = len(paths)
    evs = evstate.make_evset(paths.plane, rules or default_rules(paths), rng)
    acked_ns, asked_ns, asked = np.zeros((3, n), dtype=np.int64)
    return TxFlow(
        src, dst, paths, outer_addresses(fabric, paths), links_crossed(fabric, paths), evs, rng,
        acked_ns, asked_ns, asked, new_tally(n),
    )  # fmt: skip


def ev_paths(fabric: Fabric, src: int, dst: int) -> Paths:
    """Return the one-way paths between two NICs of a rail: plane x T1, or one a plane under the same T0."""
    local = fabric.nic_t0_index[src] == fabric.nic_t0_index[dst]
    t1 = np.array([-1]) if local else np.arange(fabric.t1_per_plane)
    plane = np.repeat(np.arange(fabric.planes), len(t1))
    return make_paths(PathKind.ONEWAY, src, plane, dst=dst, t1=np.tile(t1, fabric.planes))


def default_rules(paths: Paths) -> EvRules:
    """Return the rules for a set of paths: see `make_flow`."""
    per_plane = int(np.bincount(paths.plane).max())
    return EvRules(active_per_plane=-(-3 * per_plane // 4), min_active=max(1, len(paths) // 4), skip_ns=SKIP_NS)


# -- sending ----------------------------------------------------------------------------------------
def due(flow: TxFlow, budget: int, limit: int) -> tuple[Ints, Ints]:
    """Return PSNs (n,) to send now, at most `budget`, and the EVs (n,) over which they were lost, -1 for new ones.

    New ones end before the PSN `limit` and where the window is full.
    """
    old: list[tuple[int, int]] = []
    if not flow.open:
        return _NOTHING, _NOTHING
    budget = min(budget, flow.base_seq + SLOTS - flow.next_seq)
    while flow.again and len(old) < budget:
        psn, ev = flow.again.pop(0)
        if psn >= flow.cum and not flow.done[psn & _MASK]:
            old.append((psn, ev))
    fresh = max(0, min(budget - len(old), limit - flow.next_psn, flow.cum + WINDOW - flow.next_psn))
    psns = [*(psn for psn, _ in old), *range(flow.next_psn, flow.next_psn + fresh)]
    flow.next_psn += fresh
    return np.array(psns, dtype=np.int64), np.array([*(ev for _, ev in old), *[-1] * fresh], dtype=np.int64)


def spray(flow: TxFlow, lost_on: Ints) -> Ints:
    """Return the EVs (n,) of the next packets, `lost_on` (n,) being those that each should not take again."""
    if not len(flow.order):
        flow.order, flow.cursor = evstate.spray_order(flow.evs, flow.rng), 0
    n, order = len(lost_on), flow.order
    chosen = order[(flow.cursor + np.arange(n)) % len(order)]
    for i in np.flatnonzero(chosen == lost_on).tolist():
        others = order[order != chosen[i]]
        if len(others):  # else the floor has left us this one only
            chosen[i] = others[(flow.cursor + i) % len(others)]
    flow.cursor += n
    if flow.cursor >= len(order):
        flow.order = order[:0]  # a new random order next time
    return chosen


def sent(flow: TxFlow, psns: Ints, lost_on: Ints, evs: Ints, ok: Bools, *, now_ns: int) -> None:
    """Note packets handed to the kernel with numbers from `next_seq` on; those not `ok` never left the host."""
    again = lost_on >= 0
    seqs = flow.next_seq + np.arange(len(psns))
    at = seqs & _MASK
    flow.psn_of[at], flow.ev_of[at], flow.sent_ns_of[at] = psns, evs, now_ns
    flow.fate[at] = np.where(ok, FLYING, FREE)
    flow.done[psns[~again] & _MASK] = False
    flow.next_seq += len(psns)
    np.add.at(flow.tally.sent, evs[ok], 1)
    np.add.at(flow.tally.retransmitted, evs[ok & again], 1)
    flow.again.extend(zip(psns[~ok].tolist(), evs[~ok].tolist(), strict=True))


def refused(flow: TxFlow, evs: Ints, now_ns: int) -> None:
    """Take EVs out of use whose local port turned packets down: nothing needs to be lost to know that it is dead."""
    flow.refused += len(evs)
    change(flow, evstate.apply(flow.evs, Event.LOST, evstate.distinct(evs), now_ns))


def change(flow: TxFlow, evs: EvSet) -> None:
    """Put a new state of the EVs into force."""
    if evs is not flow.evs:
        flow.evs, flow.order = evs, flow.order[:0]


# -- hearing ----------------------------------------------------------------------------------------
def heard(flow: TxFlow, mark: int, now_ns: int) -> None:
    """Note that the peer said something; `mark` is how far the data is complete at its end."""
    flow.heard_ns = now_ns
    if not flow.open:
        flow.open = True
        # Where an earlier run of this end, or of the peer, has left off.
        flow.cum = max(flow.cum, mark)
        flow.next_psn = max(flow.next_psn, flow.cum)


def looked(flow: TxFlow, looked_ns: int) -> None:
    """Note when the peer last looked into its socket before it wrote a SACK, even one that knows nothing of this run.

    It is the peer's clock: all of the lab has one.
    """
    flow.looked_ns = max(flow.looked_ns, looked_ns)


def on_sack(flow: TxFlow, sack: Sack, *, mark: int, now_ns: int, size: int) -> None:
    """Take in a SACK that answers this run of the flow; `size`: payload bytes of a packet."""
    seqs = sack.top - (SACK_BITS - 1) + _BITS
    seen = sack.seen & (seqs >= max(0, flow.next_seq - SLOTS)) & (seqs < flow.next_seq)
    marked = seqs[seen & sack.marked] & _MASK
    congested = flow.ev_of[marked[flow.fate[marked] == FLYING]]
    if len(congested):
        change(flow, evstate.apply(flow.evs, Event.SKIP_ONCE, evstate.distinct(congested), now_ns))
    _acknowledge(flow, seqs[seen] & _MASK, size, now_ns)
    _complete(flow, mark, sack.top, size, now_ns)
    if sack.echo_ns:
        rtt = max(0, now_ns - sack.echo_ns - sack.hold_ns)
        flow.rtt_ns += ((rtt - flow.rtt_ns) / 8) if flow.rtt_ns else rtt
    if sack.bad_ev != NO_EV and sack.bad_ev < len(flow.evs):
        change(flow, evstate.apply(flow.evs, Event.ALWAYS_SKIP, sack.bad_ev, now_ns))


def _acknowledge(flow: TxFlow, at: Ints, size: int, now_ns: int) -> None:
    """Take the transmissions in slots `at` as arrived."""
    at = at[(flow.fate[at] != ACKED) & (flow.fate[at] != FREE)]
    if not len(at):
        return
    late = at[flow.fate[at] == LOST]
    if len(late):
        np.add.at(flow.tally.spurious, flow.ev_of[late], 1)
        flow.patience, flow.patient_since_ns = min(2 * flow.patience, MAX_PATIENCE), now_ns
    flow.fate[at] = ACKED
    np.maximum.at(flow.acked_ns, flow.ev_of[at], flow.sent_ns_of[at])
    psn = flow.psn_of[at]
    new = (psn >= flow.cum) & ~flow.done[psn & _MASK]
    flow.done[psn[new] & _MASK] = True
    # Of two transmissions of the same data that are acknowledged at once, one has delivered it.
    delivered = dict(zip(psn[new].tolist(), flow.ev_of[at[new]].tolist(), strict=True))
    np.add.at(flow.tally.delivered, list(delivered.values()), size)


def _complete(flow: TxFlow, mark: int, top: int, size: int, now_ns: int) -> None:
    """Advance what is complete; transmissions older than the bitmap are known by that alone."""
    mark = min(mark, flow.next_psn)
    if flow.next_seq - flow.base_seq > 0 and top - SACK_BITS >= flow.base_seq:
        old = np.arange(flow.base_seq, min(top - SACK_BITS + 1, flow.next_seq)) & _MASK
        _acknowledge(flow, old[(flow.fate[old] == FLYING) & (flow.psn_of[old] < mark)], size, now_ns)
    flow.cum = max(flow.cum, mark)


# -- losing -----------------------------------------------------------------------------------------
def find_lost(flow: TxFlow, now_ns: int) -> int:
    """Give up what must be lost, take its EVs out of use, and queue its data again; return how many were."""
    seqs = np.arange(flow.base_seq, flow.next_seq)
    at = seqs & _MASK
    flying = flow.fate[at] == FLYING
    at = at[flying]
    flow.base_seq = int(seqs[flying][0]) if len(at) else flow.next_seq
    if flow.patience > 1 and now_ns - flow.patient_since_ns > PATIENCE_ENDS_NS:
        flow.patience, flow.patient_since_ns = flow.patience // 2, now_ns
    if not len(at):
        return 0
    sent_ns, ev = flow.sent_ns_of[at], flow.ev_of[at]
    timeout = max(TIMEOUT_NS, 4 * int(flow.rtt_ns)) * flow.patience
    horizon = max(int(flow.acked_ns.max()) - OTHER_EV_NS * flow.patience, flow.looked_ns - timeout)
    gone = at[(sent_ns < flow.acked_ns[ev] - SAME_EV_NS) | (sent_ns < horizon)]
    if len(gone):
        _give_up(flow, gone, LOST)
        np.add.at(flow.tally.lost, flow.ev_of[gone], 1)
        change(flow, evstate.apply(flow.evs, Event.LOST, evstate.distinct(flow.ev_of[gone]), now_ns))
    return len(gone)


def fall_silent(flow: TxFlow, now_ns: int) -> bool:
    """Stop when nothing at all has been heard of the peer for long; return whether that happened now."""
    if not flow.open or now_ns - flow.heard_ns < SILENT_NS:
        return False
    at = np.flatnonzero(flow.fate == FLYING)
    _give_up(flow, at[np.argsort(flow.psn_of[at])], UNANSWERED)
    flow.unanswered += len(at)
    flow.open = False
    return True


def _give_up(flow: TxFlow, at: Ints, fate: int) -> None:
    flow.fate[at] = fate
    psns = flow.psn_of[at]
    missing = (psns >= flow.cum) & ~flow.done[psns & _MASK]
    flow.again.extend(zip(psns[missing].tolist(), flow.ev_of[at[missing]].tolist(), strict=True))


# -- EV probes ----------------------------------------------------------------------------------------
def probes(flow: TxFlow, now_ns: int) -> list[tuple[int, int]]:
    """Return (EV, request number) of the ASSUMED_BAD EVs to probe now; a probe not answered by then has failed."""
    wait_ns = np.where(flow.asked > 0, PROBE_TIMEOUT_NS, PROBE_EVERY_NS)
    due_now = np.flatnonzero((flow.evs.state == State.ASSUMED_BAD) & (now_ns - flow.asked_ns >= wait_ns))
    if not len(due_now):
        return []
    failed = due_now[flow.asked[due_now] > 0]
    if len(failed):
        change(flow, evstate.probe_lost(flow.evs, failed))
    numbers = flow.requests + 1 + np.arange(len(due_now))
    flow.asked[due_now], flow.asked_ns[due_now] = numbers, now_ns
    flow.requests += len(due_now)
    return list(zip(due_now.tolist(), numbers.tolist(), strict=True))


def probe_answered(flow: TxFlow, ev: int, request: int, now_ns: int) -> None:
    """Take in the answer to an EV probe; one that came too late, or that nobody asked for, says nothing."""
    if ev < len(flow.evs) and request and flow.asked[ev] == request:
        flow.asked[ev] = 0
        change(flow, evstate.probe_answered(flow.evs, ev, now_ns))


# -- denials ----------------------------------------------------------------------------------------
def obey(flow: TxFlow, denied_links: npt.NDArray[np.integer], now_ns: int) -> tuple[int, int]:
    """Deny exactly the EVs that cross one of the directed links; return (EVs denied, refused for the floor)."""
    wanted = np.asarray(np.isin(flow.links, denied_links).any(axis=1))
    evs, refused_evs = evstate.deny(flow.evs, wanted, now_ns)
    change(flow, evs)
    return int(np.count_nonzero(evs.state == State.DENIED)), int(np.count_nonzero(refused_evs))
