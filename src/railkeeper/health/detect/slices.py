"""Slices: judge one contiguous part of a large fleet each tick, for what drifts over minutes and hours.

Dense work on millions of ports costs one part in `k` of its price; each entity has its turn every k ticks. Small fleets
are judged whole each tick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import tell
from railkeeper.health.detect.past import Past
from railkeeper.telemetry.frame import Rates

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.cases import Cases, Hits
    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Mask = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float32]

WHOLE = 100_000
PARTS = 8


@dataclass
class Turns:
    """Whose turn it is: `turn` counts the ticks."""

    n: int
    turn: int = 0
    most: int = PARTS

    @property
    def parts(self) -> int:
        """How many parts the entities are cut into."""
        return 1 if self.n <= WHOLE else self.most

    @property
    def part(self) -> int:
        """The part whose turn it is."""
        return self.turn % self.parts

    def bounds(self) -> tuple[int, int]:
        """Return the first id of the part whose turn it is, and the one after its last."""
        return self.n * self.part // self.parts, self.n * (self.part + 1) // self.parts


class SlicedPast:
    """The past of a column, learnt part by part; `None` in a part that never had a value."""

    def __init__(self, turns: Turns, half_life_s: float) -> None:
        self.turns = turns
        self.half_life_s = half_life_s
        self._parts: dict[int, Past] = {}

    def mine(self) -> Past:
        """Return the past of the part whose turn it is."""
        start, end = self.turns.bounds()
        return self._parts.setdefault(self.turns.part, Past(end - start, self.half_life_s))

    def of(self, ids: Ids) -> tuple[Floats, Floats]:
        """Return mean and weight in seconds of some entities; NaN and 0 where nothing is known."""
        mean, weight = np.full(len(ids), np.nan, dtype=np.float32), np.zeros(len(ids), dtype=np.float32)
        for part, past in self._parts.items():
            start = self.turns.n * part // self.turns.parts
            here = (ids >= start) & (ids < start + len(past.mean))
            mean[here], weight[here] = past.mean[ids[here] - start], past.weight_s[ids[here] - start]
        return mean, weight


class Rounds:
    """What a detector that judges in parts keeps: whose turn it is, and who had no data at its last turn."""

    def __init__(self, n: int, parts: int = PARTS) -> None:
        self.turns = Turns(n, most=parts)
        self.blind = np.ones(n, dtype=np.bool_)

    def tell(self, held: Cases, view: View, hits: Hits, p: dict[str, float], blind: Mask) -> Judged:
        """Tell the hits (ids of the whole view) of the part whose turn it is, `blind` (m,) of it; then the next's.

        Seconds of holding run only while an entity is looked at, so they are fewer by the number of parts.
        """
        start, end = self.turns.bounds()
        self.blind[start:end] = blind
        unjudged = None
        if self.turns.parts > 1:
            unjudged = np.ones(self.turns.n, dtype=np.bool_)
            unjudged[start:end] = False
        parts = self.turns.parts
        shorter = p | {"hold_s": p["hold_s"] / parts, "persist_s": p["persist_s"] / parts}
        self.turns.turn += 1
        return tell(held, view, hits, shorter, self.blind, unjudged=unjudged)


def part_of(view: View, turns: Turns) -> View:
    """Return the view of the part whose turn it is; shared by all detectors with the same turns."""
    start, end = turns.bounds()
    if end - start == turns.n:
        return view
    place = ("part", (start, end))
    if place not in view._cache:  # noqa: SLF001 - the cache is the view's, for helpers
        view._cache[place] = _cut(view, start, end)  # noqa: SLF001
    found: View = view._cache[place]  # type: ignore[assignment]  # noqa: SLF001
    return found


def _cut(view: View, start: int, end: int) -> View:
    here = slice(start, end)
    block, rates = view.block, view.rates
    return replace(
        view,
        block=replace(
            block, entities=_entities(block.entities, start, end), t_ns=block.t_ns[here],
            counters=block.counters[:, here], gauges=block.gauges[:, here],
        ),
        rates=Rates(rates.names, rates.dt_s[here], rates.per_s[:, here], rates.flags[:, here]),
        _cache={},
    )  # fmt: skip


def _entities(entities: Entities, start: int, end: int) -> Entities:
    """Cut; ends that lie in another part are unknown here: who needs them asks the whole view."""
    here = slice(start, end)
    other = entities.other[here] - start
    return replace(
        entities, domain=entities.domain[here], role=entities.role[here], owner=entities.owner[here],
        other=np.where((other >= 0) & (other < end - start), other, -1).astype(np.int32), group=entities.group[here],
        name_of=lambda i: entities.name_of(i + start), id_of=lambda name: _shifted(entities.id_of(name), start, end),
    )  # fmt: skip


def _shifted(found: int | None, start: int, end: int) -> int | None:
    return found - start if found is not None and start <= found < end else None
