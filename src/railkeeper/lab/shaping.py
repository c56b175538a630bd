"""Slow links: a token bucket at the sending end. Of several on one link the slowest counts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railkeeper.lab import names
from railkeeper.lab.command import run_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.lab.plan import LabPlan

_BURST_BYTES = 1600
_QUEUE_S = 0.05
_MIN_QUEUE_BYTES = 8192
_MIN_BPS = 0.5e6


def lab_bps(gbps: float, link_gbps: float) -> float:
    """Return the lab's bit rate that stands for `gbps` in a fabric of `link_gbps` links."""
    return max(_MIN_BPS, names.LAB_LINK_BPS * gbps / link_gbps)


class Shapers:
    """The token buckets of a lab, by the end that sends."""

    def __init__(self, plan: LabPlan) -> None:
        self._plan = plan
        self._wanted: dict[int, dict[str, float]] = defaultdict(dict)

    def add(self, ends: Iterable[int], who: str, bps: float) -> None:
        """Slow the links that these ends send into, on behalf of `who`."""
        for end in ends:
            self._wanted[end][who] = bps
            self._set(end)

    def remove(self, ends: Iterable[int], who: str) -> None:
        """Take back what `who` wanted."""
        for end in ends:
            if self._wanted[end].pop(who, None) is not None:
                self._set(end)

    def _set(self, end: int) -> None:
        device = names.interface_of_end(self._plan.fabric, end)
        space, wanted = self._plan.name_of_end(end), self._wanted[end].values()
        run_in(space, _tbf(device, min(wanted)) if wanted else ["tc", "qdisc", "del", "dev", device, "root"])


def _tbf(device: str, bps: float) -> list[str]:
    limit = _BURST_BYTES + max(_MIN_QUEUE_BYTES, round(bps / 8 * _QUEUE_S))
    rate = f"rate {round(bps)}bit burst {_BURST_BYTES} limit {limit}"
    return ["tc", "qdisc", "replace", "dev", device, "root", "tbf", *rate.split()]
