"""The shapes of inference: what was observed over which parts, and who is blamed.

A *part* is anything that may lose packets alone (a directed link, as a rule); a *composite* is a set of parts that may
fail together (a switch: its links). Parts have ids 0 … n_parts-1, composite j has the id n_parts + j.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


class Kind(IntEnum):
    """What is known about the way that the packets of a row took."""

    KNOWN = 0
    """All packets took the path `route`."""
    ONE_OF = 1
    """All packets took one path, which is one of the set `route`, each as likely as the others."""
    SPRAYED = 2
    """The packets were spread evenly over all paths of the set `route`."""
    LOSSY_ONLY = 3
    """Path `route` is known, but rows without a loss were not reported; `chosen_from` is the set that the path was
    drawn from, each path as likely as the others (-1: not known, then only the size of the loss is evidence)."""


@dataclass(frozen=True)
class Csr:
    """Rows of ids: row i is `ids[start[i]:start[i + 1]]`; start (rows + 1,) int64, ids (entries,) int32."""

    start: Longs
    ids: Ints

    def __len__(self) -> int:
        return len(self.start) - 1

    def row(self, i: int) -> Ints:
        """Return the ids of one row."""
        return self.ids[self.start[i] : self.start[i + 1]]


def csr(rows: list[list[int]]) -> Csr:
    """Return lists of ids as a Csr."""
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=start[1:])
    return Csr(start, np.array([i for row in rows for i in row], dtype=np.int32))


EMPTY = Csr(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))


@dataclass(frozen=True)
class Observations:
    """Counts of N rows, all (N,): kind uint8 (`Kind`), route int32, sent and lost int64 packets, 0 <= lost <= sent.

    `ends` (N, 2) int32: parts that every packet of the row crosses besides its path (the links of the two hosts, as a
    rule), -1 for none. `chosen_from` (N,) int32: see `Kind.LOSSY_ONLY`; -1 elsewhere.
    """

    kind: npt.NDArray[np.uint8]
    route: Ints
    sent: Longs
    lost: Longs
    ends: Ints
    chosen_from: Ints

    def __len__(self) -> int:
        return len(self.sent)


def known(route: npt.NDArray[np.integer], sent: npt.NDArray[np.integer], lost: npt.NDArray[np.integer]) -> Observations:
    """Return rows whose paths are all known, without ends."""
    n = len(route)
    none = np.full((n, 2), -1, dtype=np.int32)
    return Observations(
        np.zeros(n, dtype=np.uint8),
        np.asarray(route, dtype=np.int32),
        np.asarray(sent, dtype=np.int64),
        np.asarray(lost, dtype=np.int64),
        none,
        none[:, 0].copy(),
    )


@dataclass(frozen=True)
class Problem:
    """What `infer` reads.

    `paths`: the parts of each path (a part may stand more than once: it is crossed that often). `sets`: the paths of
    each set. `composites`: the parts of each composite. `log_odds` (n_parts,) float64 or None: what other evidence
    (port counters, states) says for a part being at fault, as a natural logarithm of odds; 0 says nothing. `groups`
    (n_parts,) int32 or None: parts whose good rates are alike (a tier); None is one group.
    """

    n_parts: int
    paths: Csr
    obs: Observations
    sets: Csr = field(default_factory=lambda: EMPTY)
    composites: Csr = field(default_factory=lambda: EMPTY)
    log_odds: Floats | None = None
    groups: Ints | None = None


@dataclass(frozen=True)
class Config:
    """The one thing to choose: how many false alarms are allowed in a window in which nothing is wrong."""

    false_alarms_per_window: float = 0.01
    max_faults: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.false_alarms_per_window < 1:
            where, right = "false_alarms_per_window", "a number between 0 and 1, e.g. 0.001"
            raise InputError(where, f"{self.false_alarms_per_window} is no such rate", right)


@dataclass(frozen=True)
class Blame:
    """One fault: `component` is a part or a composite; `rate` with its 95% interval, a share of packets.

    `confidence` is the chance that it is this one and not another that could take its place. `indistinguishable`
    lists other components that the evidence can't tell from it, ascending. A composite's rate is the mean of its parts
    that are at fault, weighted by their packets.
    """

    component: int
    rate: float
    rate_low: float
    rate_high: float
    confidence: float
    indistinguishable: tuple[int, ...] = ()


def check(problem: Problem) -> Problem:
    """Return the problem; raises InputError naming the first thing that does not fit."""
    obs, n = problem.obs, len(problem.obs)
    columns = (obs.kind, obs.route, obs.lost, obs.ends, obs.chosen_from)
    if any(len(column) != n for column in columns):
        raise InputError("observations", "columns are not of one length", f"all of {n} rows")
    bad = np.flatnonzero((obs.lost < 0) | (obs.lost > obs.sent))
    if len(bad):
        raise InputError(f"observation {bad[0]}", f"{obs.lost[bad[0]]} lost of {obs.sent[bad[0]]}", "0 <= lost <= sent")
    sets = (obs.kind == Kind.ONE_OF) | (obs.kind == Kind.SPRAYED)
    limit = np.where(sets, len(problem.sets), len(problem.paths))
    bad = np.flatnonzero((obs.route < 0) | (obs.route >= limit))
    if len(bad):
        raise InputError(f"observation {bad[0]}", f"no route {obs.route[bad[0]]}", f"0 to {limit[bad[0]] - 1}")
    _within("paths", problem.paths.ids, problem.n_parts)
    _within("sets", problem.sets.ids, len(problem.paths))
    _within("composites", problem.composites.ids, problem.n_parts)
    _within("ends", obs.ends, problem.n_parts, low=-1)
    _within("chosen_from", obs.chosen_from, len(problem.sets), low=-1)
    return problem


def _within(what: str, ids: npt.NDArray[np.int32], limit: int, low: int = 0) -> None:
    if ids.size and (ids.min() < low or ids.max() >= limit):
        raise InputError(what, f"ids from {ids.min()} to {ids.max()}", f"{low} to {limit - 1}")
