"""Tracker: which entities are in a finding, since when. Sparse: it holds the few that were hit of late.

A finding opens when enough of the last ticks hit, stays open for a while after the last hit, and does neither while
there is no data: silence is not healing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]

MAX_TICKS = 32


class Tracker:
    """Entities that were hit of late; all columns are over `ids`, ascending.

    - hits: (m,) uint32: bit i says whether the tick i ticks ago hit
    - is_open: (m,) bool; since_s: (m,) the first hit that counted; last_s: (m,) the last hit
    - values: (m,) float32 value at the last hit
    """

    def __init__(self) -> None:
        self.now_s: float | None = None
        self.ids = np.empty(0, dtype=np.int32)
        self.hits = np.empty(0, dtype=np.uint32)
        self.is_open = np.empty(0, dtype=np.bool_)
        self.since_s = np.empty(0, dtype=np.float64)
        self.last_s = np.empty(0, dtype=np.float64)
        self.values = np.empty(0, dtype=np.float32)

    @property
    def open_values(self) -> npt.NDArray[np.float32]:
        """Value at the last hit of each open entity, in the order in which `follow` returned them."""
        return self.values[self.is_open]


def follow(  # noqa: PLR0917 - hits, when, how many, for how long: read as a sentence
    tracker: Tracker, ids: Ids, now_s: float, need: int, hold_s: float,
    values: npt.NDArray[np.float32] | None = None, *,
    blind: npt.NDArray[np.int32] | npt.NDArray[np.bool_] | None = None, of: int | None = None,
) -> tuple[Ids, npt.NDArray[np.float64]]:  # fmt: skip
    """Take in the hits of one tick; return the ids (m,) that are open now, ascending, and since when (unix s).

    - ids: ascending ids that hit in this tick, `values` theirs (kept in the tracker, see `open_values`)
    - opens after `need` hits within the last `of` ticks (as many as `need` if not given, at most 32)
    - closes when the last hit is more than `hold_s` ago
    - blind: entities without data in this tick, as ids or as (n,) bool: for them the tick did not happen
    """
    window = np.uint32(2 ** min(of or need, MAX_TICKS) - 1)
    elapsed_s = 0.0 if tracker.now_s is None else max(now_s - tracker.now_s, 0.0)
    tracker.now_s = now_s
    _meet(tracker, ids, now_s)
    dark = _blind(tracker.ids, blind)
    hit = np.isin(tracker.ids, ids, assume_unique=True) & ~dark
    tracker.last_s[dark] += elapsed_s
    earlier = (tracker.hits << np.uint32(1)) & window
    tracker.since_s[hit & (earlier == 0) & ~tracker.is_open] = now_s
    tracker.hits = np.where(dark, tracker.hits, earlier | hit)
    tracker.last_s[hit] = now_s
    if values is not None:
        tracker.values[hit] = values[np.searchsorted(ids, tracker.ids[hit])]
    opens = ~tracker.is_open & (np.bitwise_count(tracker.hits) >= need)
    closes = tracker.is_open & (now_s - tracker.last_s > hold_s)
    tracker.is_open = (tracker.is_open | opens) & ~closes
    tracker.hits[closes] = 0
    _forget(tracker)
    return tracker.ids[tracker.is_open], tracker.since_s[tracker.is_open]


def _meet(tracker: Tracker, ids: Ids, now_s: float) -> None:
    """Make room for entities that are hit and not held."""
    fresh = np.setdiff1d(ids, tracker.ids)
    if not len(fresh):
        return
    m = len(fresh)
    order = np.argsort(np.concatenate([tracker.ids, fresh]), kind="stable")
    tracker.ids = np.concatenate([tracker.ids, fresh.astype(np.int32)])[order]
    tracker.hits = np.concatenate([tracker.hits, np.zeros(m, dtype=np.uint32)])[order]
    tracker.is_open = np.concatenate([tracker.is_open, np.zeros(m, dtype=np.bool_)])[order]
    tracker.since_s = np.concatenate([tracker.since_s, np.full(m, now_s)])[order]
    tracker.last_s = np.concatenate([tracker.last_s, np.full(m, now_s)])[order]
    tracker.values = np.concatenate([tracker.values, np.full(m, np.nan, dtype=np.float32)])[order]


def _blind(ids: Ids, blind: npt.NDArray[np.int32] | npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    if blind is None:
        return np.zeros(len(ids), dtype=np.bool_)
    if blind.dtype == np.bool_:
        mask: npt.NDArray[np.bool_] = blind[ids]  # type: ignore[assignment]
        return mask
    return np.isin(ids, blind)


def _forget(tracker: Tracker) -> None:
    """Let go of those with no hit left; the next hit of one that is not open begins anew."""
    stays = tracker.is_open | (tracker.hits != 0)
    for name in ("ids", "hits", "is_open", "since_s", "last_s", "values"):
        setattr(tracker, name, getattr(tracker, name)[stays])
