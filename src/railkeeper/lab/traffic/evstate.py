"""The path-state machine of MRC: which entropy values (EVs) of a queue pair may carry data.

One table of transitions, applied to arrays. Everything is a pure function of an `EvSet`; time comes in as a number.

- A bad EV is replaced by a backup of the *same plane*, so that all planes stay equally loaded.
- An EV that a loss took away comes back only by several answered probes in a row.
- `min_active` is a floor: rather than go below it, the machine refuses to mark (or to deny) an EV, and the bad path
  stays in use. That is a trap for operators, so every refusal is counted.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class State(enum.IntEnum):
    """What an EV is held for; only GOOD ones carry data."""

    GOOD = 0
    SKIP = 1
    ASSUMED_BAD = 2
    DENIED = 3


class Event(enum.IntEnum):
    """What can happen to an EV."""

    ECHO = 0  # a SACK with M = NONE
    SKIP_ONCE = 1  # a SACK with M = SKIP_ONCE: the forward path marked congestion
    ALWAYS_SKIP = 2  # a SACK with M = ALWAYS_SKIP: the receiver has had enough of the path
    TRIMMED = 3  # a NACK: a switch within the fabric trimmed the packet
    TRIMMED_LASTHOP = 4  # a NACK: the last hop trimmed it, which says nothing of the path
    LOST = 5  # neither SACK nor NACK
    SKIP_OVER = 6  # the time of a SKIP has passed
    RECOVERED = 7  # enough probes in a row were answered, the last with M = NONE
    RECOVERED_MARKED = 8  # as above, the last with M = SKIP_ONCE
    SET_GOOD = 9  # the controller says so
    DENY = 10  # the controller says so


_G, _S, _B, _D = (int(s) for s in State)
# Rows are events, columns the state before: GOOD, SKIP, ASSUMED_BAD, DENIED.
TRANSITIONS = np.array(
    [
        [_G, _S, _B, _D],  # ECHO
        [_S, _S, _B, _D],  # SKIP_ONCE
        [_B, _B, _B, _D],  # ALWAYS_SKIP
        [_S, _S, _B, _D],  # TRIMMED
        [_G, _S, _B, _D],  # TRIMMED_LASTHOP
        [_B, _B, _B, _D],  # LOST
        [_G, _G, _B, _D],  # SKIP_OVER
        [_G, _S, _G, _D],  # RECOVERED
        [_G, _S, _S, _D],  # RECOVERED_MARKED
        [_G, _G, _G, _G],  # SET_GOOD
        [_D, _D, _D, _D],  # DENY
    ],
    dtype=np.int8,
)


@dataclass(frozen=True)
class EvRules:
    """Settings of one EV profile.

    - active_per_plane: EVs of a plane that carry data; the rest are backups
    - min_active: floor of EVs that stay usable, whatever is marked or denied
    - probes_to_good: answered probes in a row that bring an ASSUMED_BAD EV back
    - skip_ns: how long a SKIP lasts
    """

    active_per_plane: int
    min_active: int = 1
    probes_to_good: int = 5
    skip_ns: int = 50_000_000


@dataclass(frozen=True)
class EvSet:
    """EVs of one queue pair, columns of (n,).

    - plane, state, active (in the set that carries data, GOOD or SKIP)
    - streak: answered probes in a row; until_ns: end of a SKIP; bad_ns: when it became ASSUMED_BAD
    - rank: order in which backups are taken, least first
    - floor_holds: how many marks and denials the floor has refused so far
    """

    rules: EvRules
    plane: Ints
    state: npt.NDArray[np.int8]
    active: Bools
    streak: Ints
    until_ns: Ints
    bad_ns: Ints
    rank: Ints
    floor_holds: int = 0

    def __len__(self) -> int:
        return len(self.state)

    @property
    def usable(self) -> Bools:
        """(n,) EVs that are GOOD or SKIP."""
        return np.asarray(self.state <= State.SKIP)

    def counts(self) -> tuple[int, int, int, int]:
        """Return how many EVs are GOOD, SKIP, ASSUMED_BAD, DENIED."""
        good, skip, bad, denied = np.bincount(self.state, minlength=4).tolist()
        return good, skip, bad, denied


def make_evset(plane: npt.ArrayLike, rules: EvRules, rng: np.random.Generator) -> EvSet:
    """Return a fresh set, all GOOD; a random choice of each plane's EVs is active, the others are backups."""
    planes = np.asarray(plane, dtype=np.int64)
    n = len(planes)
    zero = np.zeros(n, dtype=np.int64)
    fresh = EvSet(
        rules=rules, plane=planes, state=np.zeros(n, dtype=np.int8), active=np.zeros(n, dtype=np.bool_),
        streak=zero, until_ns=zero, bad_ns=zero, rank=rng.permutation(n).astype(np.int64),
    )  # fmt: skip
    return _refill(fresh)


def apply(evset: EvSet, event: Event, evs: npt.ArrayLike, now_ns: int) -> EvSet:
    """Return the set after `event` has happened to the EVs of the numbers `evs`."""
    rows = np.atleast_1d(np.asarray(evs, dtype=np.int64))
    state = evset.state.copy()
    state[rows] = TRANSITIONS[event, state[rows]]
    if np.array_equal(state, evset.state) and event not in (Event.SKIP_ONCE, Event.TRIMMED):
        return evset
    kept = _over_floor(evset, state)
    state[kept] = evset.state[kept]
    after = _stamp(evset, state, rows, event, now_ns)
    return _refill(replace(after, floor_holds=evset.floor_holds + len(kept)))


def _over_floor(before: EvSet, state: npt.NDArray[np.int8]) -> Ints:
    """Return EVs whose mark is refused, since fewer than `min_active` would stay usable."""
    taken = np.flatnonzero(before.usable & (state > State.SKIP))
    floor = min(before.rules.min_active, len(state))
    short = floor - int(np.count_nonzero(state <= State.SKIP))
    if short <= 0 or not len(taken):
        return np.empty(0, dtype=np.int64)
    return taken[_fair_order(before, taken)][:short]


def _fair_order(evset: EvSet, rows: Ints) -> Ints:
    """Return an order of `rows` that takes one of each plane before a second of any, by rank within a plane."""
    by_rank = np.lexsort((evset.rank[rows], evset.plane[rows]))
    turn = np.empty(len(rows), dtype=np.int64)
    plane = evset.plane[rows][by_rank]
    turn[by_rank] = np.arange(len(rows)) - np.searchsorted(plane, plane)
    return np.lexsort((evset.rank[rows], turn))


def _stamp(evset: EvSet, state: npt.NDArray[np.int8], rows: Ints, event: Event, now_ns: int) -> EvSet:
    """Return the set in the new states, with the clocks and streaks that go with them."""
    changed = state != evset.state
    until, bad, streak, rank = evset.until_ns, evset.bad_ns, evset.streak, evset.rank
    if event in (Event.SKIP_ONCE, Event.TRIMMED, Event.RECOVERED_MARKED):
        until = until.copy()
        until[rows[state[rows] == State.SKIP]] = now_ns + evset.rules.skip_ns
    if changed.any():
        bad = np.where(changed & (state == State.ASSUMED_BAD), now_ns, bad)
        streak = np.where(changed, 0, streak)
        # An EV that failed goes to the end of the queue of backups.
        rank = np.where(changed & (state > State.SKIP), rank + len(state), rank)
    return replace(evset, state=state, until_ns=until, bad_ns=bad, streak=streak, rank=rank)


def _refill(evset: EvSet) -> EvSet:
    """Return the set with each plane's active EVs refilled from that plane's backups."""
    usable = evset.usable
    active = evset.active & usable
    want = evset.rules.active_per_plane
    for p in distinct(evset.plane):
        own = evset.plane == p
        free = np.flatnonzero(own & usable & ~active)
        short = want - int(np.count_nonzero(active & own))
        if short > 0 and len(free):
            # A SKIP is no replacement while a GOOD backup is there.
            order = np.lexsort((evset.rank[free], evset.state[free]))
            active[free[order[:short]]] = True
    return replace(evset, active=active)


def end_skips(evset: EvSet, now_ns: int) -> EvSet:
    """Return the set with the SKIPs over whose time has passed."""
    over = np.flatnonzero((evset.state == State.SKIP) & (evset.until_ns <= now_ns))
    return apply(evset, Event.SKIP_OVER, over, now_ns) if len(over) else evset


def probe_answered(evset: EvSet, ev: int, now_ns: int, *, marked: bool = False) -> EvSet:
    """Return the set after an EV probe came back; `marked` is M = SKIP_ONCE in the answer."""
    if evset.state[ev] != State.ASSUMED_BAD:
        return evset
    streak = evset.streak.copy()
    streak[ev] += 1
    after = replace(evset, streak=streak)
    if streak[ev] < evset.rules.probes_to_good:
        return after
    return apply(after, Event.RECOVERED_MARKED if marked else Event.RECOVERED, ev, now_ns)


def probe_lost(evset: EvSet, evs: Ints) -> EvSet:
    """Return the set after probes over these EVs were not answered: their streaks begin again."""
    streak = evset.streak.copy()
    streak[evs] = 0
    return replace(evset, streak=streak)


def deny(evset: EvSet, wanted: Bools, now_ns: int) -> tuple[EvSet, Bools]:
    """Make the whole set of DENIED EVs equal to `wanted` (n,), down to the floor; return also what was refused (n,).

    EVs that are no longer wanted become GOOD: the controller lifts a denial by evidence of its own.
    """
    refused = _refused(evset, wanted)
    denied = wanted & ~refused
    lifted = np.flatnonzero((evset.state == State.DENIED) & ~denied)
    after = apply(evset, Event.SET_GOOD, lifted, now_ns) if len(lifted) else evset
    new = np.flatnonzero(denied & (after.state != State.DENIED))
    if len(new):
        state = after.state.copy()
        state[new] = State.DENIED
        after = _hold_floor(_stamp(after, state, new, Event.DENY, now_ns))
    held = int(np.count_nonzero(refused))
    return _refill(replace(after, floor_holds=after.floor_holds + held)), refused


def _refused(evset: EvSet, wanted: Bools) -> Bools:
    refused = np.zeros(len(evset), dtype=np.bool_)
    short = min(evset.rules.min_active, len(evset)) - int(np.count_nonzero(~wanted))
    if short > 0:
        rows = np.flatnonzero(wanted)
        fair = rows[_fair_order(evset, rows)]
        # Of paths that all should go, those that still seem to work are the least bad to keep.
        worst_last = np.argsort(evset.state[fair] == State.ASSUMED_BAD, kind="stable")
        refused[fair[worst_last[:short]]] = True
    return refused


def _hold_floor(evset: EvSet) -> EvSet:
    """Return the set with the longest ASSUMED_BAD EVs back in use where a denial left fewer than the floor."""
    short = min(evset.rules.min_active, len(evset)) - int(np.count_nonzero(evset.usable))
    bad = np.flatnonzero(evset.state == State.ASSUMED_BAD)
    if short <= 0 or not len(bad):
        return evset
    back = bad[np.lexsort((evset.bad_ns[bad], -evset.streak[bad]))][:short]
    state = evset.state.copy()
    state[back] = State.GOOD
    return replace(evset, state=state, floor_holds=evset.floor_holds + len(back))


def spray_order(evset: EvSet, rng: np.random.Generator, turns: int = 4) -> Ints:
    """Return EVs in the order in which the next packets take them: planes in turn, pseudo-random within a plane.

    A plane whose active EVs are all SKIP lends those (waiting would idle the plane); a plane without any is left out.
    """
    lanes = [_lane(evset, int(p)) for p in distinct(evset.plane)]
    lanes = [rng.permutation(lane) for lane in lanes if len(lane)]
    if not lanes:
        return np.empty(0, dtype=np.int64)
    length = turns * max(len(lane) for lane in lanes)
    lanes = [lanes[i] for i in rng.permutation(len(lanes))]
    return np.stack([np.resize(lane, length) for lane in lanes], axis=1).reshape(-1)


def _lane(evset: EvSet, plane: int) -> Ints:
    own = evset.active & (evset.plane == plane)
    good = np.flatnonzero(own & (evset.state == State.GOOD))
    return good if len(good) else np.flatnonzero(own)


def distinct(small: Ints) -> Ints:
    """Return the different values of an array of small numbers, ascending."""
    return np.flatnonzero(np.bincount(small))
