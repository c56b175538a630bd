"""Detectors that are tables: counters, each with its floor, its normal ratio and what it means when it stands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_OK, Finding
from railkeeper.health.detect.judging import (
    both_ends,
    first_verdicts,
    number,
    part_columns,
    percent,
    roles_judged,
    told_together,
)
from railkeeper.health.detect.known import column as column_of
from railkeeper.health.detect.known import settled
from railkeeper.health.detect.lasting import Lasting
from railkeeper.health.detect.outlier import Counter, Outliers, PeerSample, Rule, follow_counter
from railkeeper.health.detect.together import Owners

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities


@dataclass(frozen=True)
class Row:
    """One counter of a table, the most telling first.

    - exposure: packets that it is a share of, None for events per s
    - per_s: floor in events per s; ratio: share that is normal in any case; failed: share from which it has failed
    - means: what it says, for people; about: where the floor comes from
    - peers: whether peers excuse it; False for what must not be at all
    """

    signal: str
    exposure: str | None
    per_s: float
    ratio: float
    failed: float
    means: str
    about: str
    peers: bool = True


@dataclass
class State:
    """What lasts by column, the peers' sample, and which entities are judged."""

    chosen: dict[str, float]
    sample: PeerSample
    owners: Owners
    judged: npt.NDArray[np.uint8]
    lasting: dict[str, Lasting]


@dataclass(frozen=True)
class _Hit:
    row: Row
    column: str
    at: int
    found: Outliers


def about_counts(
    name: str, text: str, kinds: tuple[str, ...], rows: tuple[Row, ...], *, uses: tuple[str, ...] = (),
    persist_s: float = 240.0, factor: float = 10.0, burst: float = 10.0,
) -> About:  # fmt: skip
    """Return what a table of counters says of itself: one floor a counter, and how it is compared."""
    exposures = {row.exposure for row in rows if row.exposure}
    floors = {f"{row.signal}_per_s": (row.per_s, "1/s", f"floor; {row.about}") for row in rows}
    return About(
        name=name, text=text, kinds=kinds, needs=tuple(row.signal for row in rows),
        uses=(*sorted(exposures), *uses),
        against=("peers", "limit") if any(row.peers for row in rows) else ("limit",),
        parameters={
            **floors,
            "factor": (factor, "", "times the peers' 90% quantile of the ratio; above what healthy bursts reach"),
            "burst": (burst, "events", "events that come together and count as one; losses of one queue overflow"),
            "strict": (6.0, "-log10 p", "chance of one tick; with persistence below one in a day over 10^7 entities"),
            "persist_s": (persist_s, "s", "how long it must last; job starts and reboots are over sooner"),
            "hold_s": (300.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip


class CountDetector:
    """A detector that is a table. Subclasses give `about`, `rows`, `roles`, and may add lines of evidence."""

    about: About
    rows: tuple[Row, ...]
    roles: tuple[int, ...] = ()
    beside: tuple[str, ...] = ()

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which nothing has been hit."""
        roles = self.roles if entities.kind == "port" else ()
        return State(
            settled(self.about, parameters), PeerSample(entities), Owners(entities),
            roles_judged(entities.role, *roles), {},
        )  # fmt: skip

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Follow every counter of the table for a tick."""
        hits: dict[int, list[_Hit]] = {}
        needs = []
        for row in self.rows:
            for column, values in part_columns(view, row.signal):
                if self.wanted(state, column):
                    needs.append(values)
                    self._follow(state, view, row, column, hits)
        verdicts = first_verdicts(needs, state.judged)
        findings = [self._finding(view, entity, mine) for entity, mine in sorted(hits.items())]
        return state, told_together(state.owners, findings, verdicts, view.entities.kind)

    def wanted(self, state: State, column: str) -> bool:
        """Return whether a column is judged; subclasses may leave parts out."""
        del state
        return bool(column)

    def lines(self, view: View, entity: int, signals: tuple[str, ...]) -> tuple[str, ...]:
        """Return further evidence; by default what else counts at both ends of the link."""
        del signals
        return both_ends(view, entity, self.beside) if view.entities.kind == "port" else ()

    def _follow(self, state: State, view: View, row: Row, column: str, hits: dict[int, list[_Hit]]) -> None:
        c = state.chosen
        lasting = state.lasting.setdefault(column, Lasting(c["persist_s"], c["hold_s"]))
        rule = Rule(
            floor_per_s=c[f"{row.signal}_per_s"], floor_ratio=row.ratio, factor=c["factor"], burst=c["burst"],
            strict=c["strict"], peers=row.peers,
        )  # fmt: skip
        values = column_of(view, column)
        if values is None:
            return
        packets = column_of(view, row.exposure) if row.exposure else None
        counter = Counter(state.sample, view.entities.group, values, packets, rule, view.tick_s)
        found = follow_counter(lasting, counter, view)
        for at, entity in enumerate(found.ids.tolist()):
            if state.judged[entity] == V_OK:
                hits.setdefault(entity, []).append(_Hit(row, column, at, found))

    def _finding(self, view: View, entity: int, hits: list[_Hit]) -> Finding:
        first = hits[0]
        failed = any(hit.found.ratio[hit.at] >= hit.row.failed for hit in hits)
        by_peers = bool(first.found.by_peers[first.at])
        scale = _packets(view, first, entity)
        other = int(view.entities.other[entity])
        return Finding(
            detector=self.about.name, kind=view.entities.kind, entity=entity,
            verdict="failed" if failed else "degraded", signal=first.column, value=float(first.found.value[first.at]),
            expected=float(first.found.normal[first.at]) * scale, unit="1/s",
            against="peers" if by_peers else "limit",
            since_s=min(float(hit.found.since_s[hit.at]) for hit in hits),
            confidence=_confidence(by_peers=by_peers, n_hits=len(hits)),
            evidence=(*(_line(hit) for hit in hits), *self.lines(view, entity, tuple(h.row.signal for h in hits))),
            others=(other,) if other >= 0 else (),
        )  # fmt: skip


def _packets(view: View, hit: _Hit, entity: int) -> float:
    """Packets per s that a ratio is of; 1 where it is not of packets."""
    found = column_of(view, hit.row.exposure) if hit.row.exposure else None
    return 1.0 if found is None or np.isnan(found[entity]) else float(found[entity])


def _line(hit: _Hit) -> str:
    value, ratio, normal = hit.found.value[hit.at], hit.found.ratio[hit.at], hit.found.normal[hit.at]
    whose = "its peers have" if hit.found.by_peers[hit.at] else "the limit is"
    if hit.row.exposure is None or np.isnan(ratio):
        return f"{hit.column} {number(float(value))}/s, {whose} {number(float(normal))}/s: {hit.row.means}"
    return (
        f"{hit.column} {number(float(value))}/s, {percent(float(ratio))} of packets, "
        f"{whose} {percent(float(normal))}: {hit.row.means}"
    )


def _confidence(*, by_peers: bool, n_hits: int) -> float:
    """Peers say more than limits; counters that agree say more than one."""
    doubt = (0.2 if by_peers else 0.4) / n_hits
    return round(1.0 - doubt, 3)
