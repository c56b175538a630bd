"""Paths that an agent probes for a while because the keeper asked it to, beside its plan.

The agent has the last word: how many paths, how often, for how long. What an agent can't or won't probe it leaves, and
nothing is told back: the rows that come are the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.fabric.paths import Paths, join_paths
from railkeeper.probe.wire import fits

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

MOST_PATHS = 64
MOST_SECONDS = 120.0
MOST_SHARE = 0.25  # of what the plan sends, for all extra paths together
KEEP_TICKS = 4  # for which a path that is over keeps its row, so that what is under way is still counted


@dataclass(frozen=True)
class Ask:
    """What a keeper asks of one node's agent: `rate` probes a second on each of `paths`, for `seconds`."""

    node: int
    paths: Paths
    rate: float
    seconds: float


def ask_message(ask: Ask) -> dict[str, Any]:
    """Return the wire form: a message of the type `probe`."""
    columns = {f.name: getattr(ask.paths, f.name).astype("<i4").tobytes() for f in fields(Paths)}
    return {"type": "probe", "rate": float(ask.rate), "seconds": float(ask.seconds), "paths": columns}


def read_ask(fabric: Fabric, node: int, message: dict[str, Any]) -> Ask | None:
    """Return what a message asks of a node; None where it is none, or not of this fabric and node."""
    try:
        paths = Paths(*(np.frombuffer(message["paths"][f.name], dtype="<i4").astype(np.int32) for f in fields(Paths)))
        rate, seconds = float(message["rate"]), float(message["seconds"])
    except (KeyError, TypeError, ValueError):
        return None
    if len({len(getattr(paths, f.name)) for f in fields(Paths)}) != 1 or not (rate > 0 and seconds > 0):
        return None
    good = fits(fabric, paths)
    good[good] &= fabric.node_of(paths.src[good]) == node
    return Ask(node, paths.take(good), rate, seconds) if good.any() else None


@dataclass
class Extra:
    """The extra paths of an agent, each until its time is over; times are monotonic seconds and are handed in."""

    plan: Paths
    most_rate: float
    tick_s: float
    paths: Paths = field(init=False)
    rate: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    until_s: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.paths = self.plan.take(slice(0, 0))

    def __len__(self) -> int:
        return len(self.rate)

    def add(self, ask: Ask, now_s: float) -> bool:
        """Take up what is asked, as far as there is room; returns whether anything has changed."""
        self.drop(now_s)
        known = {tuple(k) for k in np.concatenate([self.plan.key(), self.paths.key()]).tolist()}
        new = np.array([tuple(k) not in known for k in ask.paths.key().tolist()], dtype=np.bool_)
        rows = np.flatnonzero(new)
        _, first = np.unique(ask.paths.take(rows).key(), axis=0, return_index=True)
        rows = rows[np.sort(first)][: MOST_PATHS - len(self)]
        if not len(rows):
            return False
        self.paths = join_paths([self.paths, ask.paths.take(rows)])
        until = now_s + min(ask.seconds, MOST_SECONDS)
        self.rate = np.concatenate([self.rate, np.full(len(rows), ask.rate)])
        self.until_s = np.concatenate([self.until_s, np.full(len(rows), until)])
        self.rate *= min(1.0, self.most_rate / float(self.rate.sum()))
        return True

    def drop(self, now_s: float) -> bool:
        """Forget all paths once all have been over for some ticks; returns whether anything has changed.

        Rows go together, so that the others keep their places.
        """
        if not len(self) or now_s < float(self.until_s.max()) + KEEP_TICKS * self.tick_s:
            return False
        self.paths, self.rate, self.until_s = self.plan.take(slice(0, 0)), self.rate[:0], self.until_s[:0]
        return True

    def rates(self, now_s: float) -> npt.NDArray[np.float64]:
        """Return (n,) probes a second of each path now: none after its time."""
        return np.where(self.until_s > now_s, self.rate, 0.0)
