"""Detector: the door for anything that judges telemetry. Ours and strangers' come by the same entry points.

Entry point group `railkeeper.detectors`: name -> class with no arguments of its constructor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities


@dataclass(frozen=True)
class About:
    """What a detector is: for lists, docs and settings.

    - kinds: kinds of entity that it judges; needs: signals without which it has no data; uses: those that it reads too
    - against: what it compares with, in this order: "peers", "past", "limit"
    - parameters: name -> (default, unit, meaning)
    """

    name: str
    text: str
    kinds: tuple[str, ...]
    needs: tuple[str, ...]
    uses: tuple[str, ...]
    against: tuple[str, ...]
    parameters: dict[str, tuple[float, str, str]]


class Detector(Protocol):
    """One way to see that something is not well.

    No clock, no I/O, no chance: the same views give the same findings. `state` is the detector's own, made by `start`,
    handed back each tick; it may be changed in place.
    """

    about: About

    def start(self, entities: Entities, parameters: dict[str, float]) -> Any:
        """Return the state before the first tick."""
        ...

    def judge(self, state: Any, view: View) -> tuple[Any, Judged]:
        """Return the next state, and what is said of each entity."""
        ...
