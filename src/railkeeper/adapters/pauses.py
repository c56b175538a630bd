"""Pauses: when a target is asked again. Deterministic by seed, spread so that many targets never start at once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_S = 1.0  # pause after a stream's first failure; a target's is its interval
CAP_S = 120.0  # longest pause of one that fails again and again
JITTER = 0.25  # a pause is this part longer or shorter by chance, so that what failed together returns apart


@dataclass(frozen=True)
class Backoff:
    """Pause after the n-th failure in a row: doubles from `first_s` up to `cap_s`, each with jitter."""

    first_s: float = FIRST_S
    cap_s: float = CAP_S
    jitter: float = JITTER

    def pause_s(self, failures: int, chance: random.Random) -> float:
        """Return the pause after so many failures in a row (1 or more)."""
        doubled = self.first_s * 2.0 ** min(failures - 1, 32)
        return min(doubled, max(self.cap_s, self.first_s)) * chance.uniform(1 - self.jitter, 1 + self.jitter)


def chance_of(seed: int, source: str, name: str) -> random.Random:
    """Return the chance that belongs to one target alone, the same in every run with this seed."""
    return random.Random(f"{seed}/{source}/{name}")  # noqa: S311 - jitter, no secret


def spread(intervals_s: Sequence[float], seed: int) -> list[float]:
    """Return for each target when in its interval it is asked, evenly spread over all of one interval."""
    offsets = [0.0] * len(intervals_s)
    for interval_s in set(intervals_s):
        mine = [k for k, other in enumerate(intervals_s) if other == interval_s]
        random.Random(f"{seed}/{interval_s}").shuffle(mine)  # noqa: S311
        for rank, k in enumerate(mine):
            offsets[k] = interval_s * rank / len(mine)
    return offsets


def next_due_s(due_s: float, interval_s: float, now_s: float) -> float:
    """Return the next moment of a regular beat that lies ahead; moments that were missed are left out."""
    missed = max(0, int((now_s - due_s) // interval_s))
    return due_s + (missed + 1) * interval_s
