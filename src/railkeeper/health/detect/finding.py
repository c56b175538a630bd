"""Finding: what a detector says of an entity: verdict, since when, how much, on what evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Verdicts, in a (n,) uint8 array over the entities.
VERDICTS = ("ok", "degraded", "failed", "no data", "skipped", "error")
V_OK, V_DEGRADED, V_FAILED, V_NO_DATA, V_SKIPPED, V_ERROR = range(6)


@dataclass(frozen=True)
class Finding:
    """One entity that is not well.

    - entity: its id in its kind; signal: the column that weighs most
    - value, expected: measured, and what peers, its own past or a limit say it should be; both in `unit`
    - against: "peers", "past" or "limit"
    - since_s: unix time of the onset; verdict: one of VERDICTS
    - confidence: 0-1; evidence: lines for people, the most telling first
    - others: entities that are part of it, as the victims of a pause tree
    """

    detector: str
    kind: str
    entity: int
    verdict: str
    signal: str
    value: float
    expected: float
    unit: str
    against: str
    since_s: float
    confidence: float
    evidence: tuple[str, ...] = ()
    others: tuple[int, ...] = field(default=())


@dataclass(frozen=True)
class Judged:
    """What a detector says of all its entities in one tick: findings (open ones), and a verdict for each entity.

    `verdicts` is (n,) uint8: V_NO_DATA wherever what the detector needs was not read: never V_OK. `error` is what went
    wrong where all are V_ERROR; the engine writes it.
    """

    findings: tuple[Finding, ...]
    verdicts: npt.NDArray[np.uint8]
    error: str = ""
