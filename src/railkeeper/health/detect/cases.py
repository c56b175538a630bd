"""Cases: from the hits of a tick to open findings. What is said of an entity stays as it was at its last hit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.finding import V_DEGRADED, V_NO_DATA, VERDICTS, Finding, Judged
from railkeeper.health.detect.known import first_verdicts
from railkeeper.health.detect.together import Group, Owners, together
from railkeeper.health.detect.track import MAX_TICKS, Tracker, follow

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from railkeeper.health.detect.detector import About
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

# Beyond this many open entities, words are made for the worst of each group only.
MOST_WORDS = 1000

PERSISTENCE = {
    "need_ticks": (2, "ticks", "hits that open a finding: one alone may be a burst"),
    "of_ticks": (3, "ticks", "the hits have to be among so many last ticks"),
    "persist_s": (30, "s", "more hits are needed where ticks are so short that they would take less time than this"),
    "hold_s": (300, "s", "a finding stays open so long after its last hit, so that it does not come and go"),
}


@dataclass(frozen=True)
class Said:
    """What a detector says of one entity at a hit: fields of a Finding; since_s if it is not the first hit."""

    signal: str
    value: float
    expected: float
    unit: str
    against: str
    confidence: float
    evidence: tuple[str, ...]
    verdict: int = V_DEGRADED
    others: tuple[int, ...] = ()
    since_s: float | None = None


@dataclass
class Cases:
    """What a detector holds open: the tracker, what was said at the last hit, and who belongs to whom."""

    about: About
    owners: Owners
    tracker: Tracker = field(default_factory=Tracker)
    said: dict[int, Said] = field(default_factory=dict)


@dataclass(frozen=True)
class Hits:
    """The hits of a tick: ascending ids (m,), weights (m,) the worse the larger, and the words for hit i of m."""

    ids: Ids
    weights: Floats
    say: Callable[[int], Said]


def cases(about: About, entities: Entities) -> Cases:
    """Return a detector's cases before the first tick."""
    return Cases(about, Owners(entities))


def no_hits() -> Hits:
    """Return the hits of a tick in which nothing is wrong."""
    return Hits(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32), _nothing)


def _nothing(_: int) -> Said:
    raise IndexError("no hits")


def needed(p: dict[str, float], tick_s: float) -> tuple[int, int]:
    """Return (need, of): hits that open a finding, among how many ticks; at most as many as the tracker holds."""
    need = max(int(p["need_ticks"]), math.ceil(p.get("persist_s", 0) / tick_s))
    of = math.ceil(need * p["of_ticks"] / p["need_ticks"])
    return (need, of) if of <= MAX_TICKS else (int(MAX_TICKS * need / of), MAX_TICKS)


def tell(
    held: Cases, view: View, hits: Hits, p: dict[str, float],
    blind: npt.NDArray[np.bool_], *, unjudged: npt.NDArray[np.bool_] | None = None,
) -> Judged:  # fmt: skip
    """Follow the hits, group what is open, and return findings and verdicts.

    `blind` (n,) are without data: their verdict is "no data", and what is open of them stays open. `unjudged` (n,) were
    not looked at in this tick: the same, but their verdict is left to who asked (default: as blind).
    """
    order = np.argsort(hits.ids, kind="stable")
    ids, weights = hits.ids[order], hits.weights[order]
    dark = blind if unjudged is None else blind | unjudged
    need, of = needed(p, view.tick_s)
    opened, since = follow(held.tracker, ids, view.now_s, need, p["hold_s"], weights, blind=dark, of=of)
    verdicts = first_verdicts(blind)
    speaks = np.isin(opened, ids) | np.isin(opened, np.fromiter(held.said, dtype=np.int32, count=len(held.said)))
    opened, since, worst = opened[speaks], since[speaks], held.tracker.open_values[speaks]
    if not len(opened):
        held.said.clear()
        return Judged((), verdicts)
    groups = together(held.owners, opened)
    _put_into_words(held, hits, (order, ids), (opened, worst), groups)
    findings = [_finding(held, view, (opened, worst), since, g) for g in groups]
    for g in groups:
        verdicts[opened[g.members]] = _verdict(held, opened, worst, g)
    verdicts[opened[blind[opened]]] = V_NO_DATA
    return Judged(tuple(sorted(findings, key=lambda f: f.entity)), verdicts)


def _put_into_words(
    held: Cases,
    hits: Hits,
    sorted_hits: tuple[npt.NDArray[np.int64], Ids],
    now: tuple[Ids, Floats],
    groups: list[Group],
) -> None:
    """Renew what is said of who hit now; who never had words of its own shares those of its group."""
    (order, ids), (opened, worst) = sorted_hits, now
    wanted = opened if len(opened) <= MOST_WORDS else opened[[_head(worst, g) for g in groups]]
    said = {int(i): hits.say(int(order[k])) for i, k in _both(wanted, ids)}
    for i in opened.tolist():
        if i not in said and i in held.said:
            said[i] = held.said[i]
    for g in groups:
        members = opened[g.members].tolist()
        first = next((said[m] for m in members if m in said), None)
        if first is not None:
            said |= {m: first for m in members if m not in said}
    held.said = said


def _both(wanted: Ids, ids: Ids) -> list[tuple[int, int]]:
    """Return (id, its place among the hits) for the wanted that hit now."""
    if not len(ids):
        return []
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    there = ids[place] == wanted
    return list(zip(wanted[there].tolist(), place[there].tolist(), strict=True))


def _head(worst: Floats, group: Group) -> int:
    return int(group.members[np.argmax(np.nan_to_num(worst[group.members], nan=-np.inf))])


def _verdict(held: Cases, opened: Ids, worst: Floats, group: Group) -> int:
    return held.said[int(opened[_head(worst, group)])].verdict


def _finding(held: Cases, view: View, now: tuple[Ids, Floats], since: npt.NDArray[np.float64], group: Group) -> Finding:
    opened, worst = now
    head = _head(worst, group)
    entity = int(opened[head])
    said = held.said[entity]
    rest = {*opened[group.members].tolist(), *said.others} - {entity}
    return Finding(
        detector=held.about.name, kind=view.entities.kind, entity=entity, verdict=VERDICTS[said.verdict],
        signal=said.signal, value=said.value, expected=said.expected, unit=said.unit, against=said.against,
        since_s=float(since[group.members].min()) if said.since_s is None else said.since_s,
        confidence=said.confidence,
        evidence=(group.words, *said.evidence) if group.words else said.evidence, others=tuple(sorted(rest)),
    )  # fmt: skip
