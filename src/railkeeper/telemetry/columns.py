"""What stands of each column: the newest value of every entity, when it was sampled, and which source gives it.

Several sources may give one column of one entity. Their counters differ (other start, other moment), so that one of
them is followed until it is gone: until it has given nothing readable for as long as its readings hold. Of those that
are there then, the one of the lowest rank is taken, then the first by name. An answer never depends on the order in
which readings of one tick came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.telemetry.frame import ABSENT, NO_TIME

if TYPE_CHECKING:
    import numpy.typing as npt

NOBODY = -1
RANKS = 128  # an owner is a stream and a rank: stream * RANKS + rank
_FIRST_ROOM = 64


@dataclass
class Offers:
    """What the readings of a tick say about one column: columns of equal length, in no order.

    - row: entity; t_ns: time of the sample; owner: who says it; width: bits; values: uint64 or float32
    - weight: how many native values are in it
    """

    row: npt.NDArray[np.int64]
    t_ns: npt.NDArray[np.int64]
    owner: npt.NDArray[np.int64]
    width: npt.NDArray[np.uint8]
    values: npt.NDArray[Any]
    weight: npt.NDArray[np.uint8]

    def take(self, which: npt.NDArray[Any]) -> Offers:
        """Return some of them."""
        return Offers(*(getattr(self, name)[which] for name in Offers.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.row)


def join(parts: list[Offers]) -> Offers:
    """Put offers one behind the other."""
    if len(parts) == 1:
        return parts[0]
    return Offers(*(np.concatenate([getattr(p, name) for p in parts]) for name in Offers.__dataclass_fields__))


def peaks(o: Offers) -> Offers:
    """Return offers of a watermark: each says the most that its source said of its entity in the tick.

    A watermark is cleared by being read, so that of several readings none holds the others' highest point.
    """
    _, same = np.unique(np.stack([o.row, o.owner]), axis=1, return_inverse=True)
    same = same.reshape(-1)
    most = np.full(int(same.max(initial=-1)) + 1, np.nan, dtype=np.float32)
    np.fmax.at(most, same, o.values)
    return replace(o, values=most[same])


@dataclass
class Standing:
    """One column over n entities: values (uint64 or float32), times, owners and widths; what is nowhere is empty."""

    counter: bool
    values: npt.NDArray[Any] = field(init=False)
    t_ns: npt.NDArray[np.int64] = field(init=False)
    owner: npt.NDArray[np.int64] = field(init=False)
    width: npt.NDArray[np.uint8] = field(init=False)
    anew: npt.NDArray[np.int64] = field(init=False)
    seen: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.values = np.empty(0, dtype=np.uint64 if self.counter else np.float32)
        self.t_ns = np.empty(0, dtype=np.int64)
        self.owner = np.empty(0, dtype=np.int64)
        self.width = np.empty(0, dtype=np.uint8)
        self.anew = np.empty(0, dtype=np.int64)
        self.seen = np.empty(0, dtype=np.bool_)

    def grow(self, n: int) -> None:
        """Make room for n entities."""
        more = n - len(self.values)
        if more <= 0:
            return
        room = more if not len(self.values) else max(more, len(self.values) // 2)
        none = ABSENT if self.counter else np.nan
        self.values = np.concatenate([self.values, np.full(room, none, dtype=self.values.dtype)])
        self.t_ns = np.concatenate([self.t_ns, np.full(room, NO_TIME)])
        self.owner = np.concatenate([self.owner, np.full(room, NOBODY)])
        self.width = np.concatenate([self.width, np.full(room, 64, dtype=np.uint8)])
        self.seen = np.zeros(len(self.values), dtype=np.bool_)

    def readable(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which values say something."""
        out: npt.NDArray[np.bool_] = values != np.uint64(ABSENT) if self.counter else ~np.isnan(values)
        return out

    def settle(self, offers: Offers, holds_since: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> int:
        """Let the offers of a tick stand; return how many native values came into the column.

        - holds_since: by stream, time from which its readings still hold
        - order: by stream, its place among all streams by name
        """
        self.anew = np.empty(0, dtype=np.int64)
        plain = self._is_plain(offers)
        if not plain:
            offers = self._choose(offers, holds_since, order)
        newer = (offers.t_ns > self.t_ns[offers.row]) | (offers.owner != self.owner[offers.row])
        if not newer.all():
            offers = offers.take(newer)
        before = self.owner[offers.row]
        self.anew = offers.row[(before != NOBODY) & (before != offers.owner)]
        self.values[offers.row], self.t_ns[offers.row] = offers.values, offers.t_ns
        self.owner[offers.row], self.width[offers.row] = offers.owner, offers.width
        return int(offers.weight[self.readable(offers.values)].sum(dtype=np.int64))

    def _is_plain(self, offers: Offers) -> bool:
        """Whether each entity has one offer, of who gives its values already."""
        before = self.owner[offers.row]
        if not ((before == offers.owner) | (before == NOBODY)).all():
            return False
        self.seen[offers.row] = True
        once = int(np.count_nonzero(self.seen)) == len(offers)
        self.seen[offers.row] = False
        return once

    def _choose(self, o: Offers, holds_since: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> Offers:
        """Return one offer for each entity."""
        readable = self.readable(o.values)
        own = o.owner == self.owner[o.row]
        gave = np.zeros(len(self.values), dtype=np.int8)  # by entity: its owner gave 1 something, 2 something readable
        np.maximum.at(gave, o.row[own], np.where(readable[own], 2, 1).astype(np.int8))
        stands = self._stands(o.row, holds_since)
        alive = (gave[o.row] == 2) | ((gave[o.row] == 0) & stands)
        stream, rank = np.divmod(o.owner, RANKS)
        # The owner while it is alive; else who can be read, the lowest rank, the first by name; its newest.
        keys = (o.values, o.t_ns, -order[stream], -rank, own, readable, alive & own, o.row)
        sort = np.lexsort(keys)
        last = np.append(o.row[sort][1:] != o.row[sort][:-1], True)
        best = sort[last]
        return o.take(best[~alive[best] | own[best]])

    def _stands(self, row: npt.NDArray[np.int64], holds_since: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return where the value that stands is readable and still holds."""
        owner = self.owner[row]
        since = holds_since[np.maximum(owner, 0) // RANKS]
        fresh: npt.NDArray[np.bool_] = (owner != NOBODY) & (self.t_ns[row] >= since) & self.readable(self.values[row])
        return fresh

    def fresh(self, n: int, holds_since: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return (n,) where the value that stands still holds."""
        owner = self.owner[:n]
        since = holds_since[np.maximum(owner, 0) // RANKS] if np.ptp(holds_since) else holds_since[0]
        out: npt.NDArray[np.bool_] = (owner != NOBODY) & (self.t_ns[:n] >= since)
        return out
