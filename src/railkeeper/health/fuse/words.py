"""What counters and port states say of directed links: odds, and words for people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fuse.kinds import kind_of, struck
from railkeeper.telemetry.fabric_entities import port_end_name
from railkeeper.telemetry.ports import DOWN, UP

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding
    from railkeeper.health.fuse.evidence import Evidence

MOST_NATS = 9.0  # no counter is believed more than paths would be after some losses
CLEAN_NATS = -0.5  # a switch that drops without counting is what probes are for: clean counters say little
DOWN_NATS = 9.0
# A link is at fault once in so many before anything is said of it: a detector that is 95% sure has learnt all the rest.
PRIOR_NATS = -math.log(10_000)


@dataclass(frozen=True)
class Word:
    """What was said of a directed link: nats for its being at fault, and what to tell people."""

    nats: float
    text: str
    finding: Finding | None = None
    down: bool = False
    clean: bool = False


def link_words(fabric: Fabric, e: Evidence) -> dict[int, list[Word]]:
    """Return what is said of each directed link that anything is said of."""
    out: dict[int, list[Word]] = {}
    for finding in e.findings:
        for directed in struck(fabric, finding):
            out.setdefault(directed, []).append(_of_finding(fabric, finding))
    for directed in e.clean:
        if directed not in out:
            out[int(directed)] = [Word(CLEAN_NATS, "counters clean at both ends", clean=True)]
    if e.ports is not None:
        down = (e.ports.lower == DOWN) | (e.ports.upper == DOWN)
        for link in np.flatnonzero(down).tolist():
            up = bool((e.ports.lower[link] == UP) or (e.ports.upper[link] == UP))
            text = "one end without carrier" if up else "no carrier"
            for directed in (2 * link, 2 * link + 1):
                out.setdefault(directed, []).append(Word(DOWN_NATS, text, down=True))
    return out


def odds_of(words: dict[int, list[Word]]) -> dict[int, float]:
    """Return the logarithm of odds for each directed link."""
    return {d: max(min(sum(w.nats for w in said), MOST_NATS), -MOST_NATS) for d, said in words.items()}


def _of_finding(fabric: Fabric, finding: Finding) -> Word:
    sure = min(max(finding.confidence, 1e-4), 1 - 1e-4)
    text = f"{finding.signal} {finding.value:g} {finding.unit} where {finding.expected:g} is usual".replace("  ", " ")
    if finding.evidence:
        text = finding.evidence[0]
    text = f"{finding.detector} at {port_end_name(fabric, finding.entity)}: {text}"
    return Word(
        min(math.log(sure / (1 - sure)) - PRIOR_NATS, MOST_NATS), text, finding, down=kind_of(finding) == "down"
    )
