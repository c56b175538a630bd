"""What explains the evidence, put into words: faults, and which kind of evidence says what of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Component, Kind, link_name, name_of, t0_name
from railkeeper.health.fault import OPEN, Fault
from railkeeper.health.fleet.solve import rate_of
from railkeeper.health.fuse.kinds import BOTH_WAYS, WORST_FIRST, founds, kind_of
from railkeeper.health.fuse.pose import SOURCES, Found, Rows
from railkeeper.health.parts import BOTH, DIRECTION_NAMES

if TYPE_CHECKING:
    from railkeeper.health.fleet.solve import Suspect
    from railkeeper.health.fleet.space import PartSpace
    from railkeeper.health.fuse.evidence import Evidence
    from railkeeper.health.fuse.words import Word

DEAD_RATE = 0.97
EXPECTED = 12.0  # losses that evidence should have seen before its silence contradicts
TOO_FEW = 7.0  # nats by which it has seen too few
AGAINST = 0.5  # factor on confidence for each kind of evidence that contradicts
LIKE = 2.0  # factor within which rates by paths and by totals agree


@dataclass(frozen=True)
class Telling:
    """All that is known, to be told."""

    space: PartSpace
    evidence: Evidence
    rows: Rows
    words: dict[int, list[Word]]
    tick: int

    def faults(self, by_path: Found, by_total: Found) -> tuple[Fault, ...]:
        """Return all faults: those of parts by their paths, then classes by totals, then what counters say alone."""
        told = [self._of_paths(s) for s in by_path.suspects]
        left = list(by_total.suspects)
        out = []
        for fault in told:
            mine = [s for s in left if self._same(fault, s)]
            left = [s for s in left if s not in mine]
            out.append(self._with_totals(fault, by_total.usual, agree=bool(mine)))
        out += [self._of_totals(s) for s in left]
        covered = {d for f in out for d in f.denied_links}
        return (*out, *self._counted_alone(covered))

    # -- by paths -----------------------------------------------------------------------------------
    def _of_paths(self, s: Suspect) -> Fault:
        directed = self._directed(s.part, s.direction)
        fit = {d for way in s.directions for d in self._directed(s.part, way)}
        rivals = {d for p, way in s.rival_hyps for d in self._directed(p, way)}
        fault = self._fault(s, sorted(fit | rivals | set(directed)))
        fault = replace(fault, indistinguishable=tuple(self._name(p) for p in s.rivals))
        return self._with_words(self._with_sources(fault, directed), directed)

    def _directed(self, part: int, direction: int) -> list[int]:
        links = self.space.links(part).astype(int)
        ways = (0, 1) if direction == BOTH else (direction,)
        return sorted(int(2 * link + way) for link in links for way in ways)

    def _name(self, part: int) -> str:
        return name_of(self.space.fabric, self.space.component(part))

    def _fault(self, s: Suspect, denied: list[int]) -> Fault:
        component, rate = self.space.component(s.part), rate_of(s.u)
        kind, also = _kind(component, rate, s.direction)
        name, way = name_of(self.space.fabric, component), DIRECTION_NAMES[s.direction]
        sure = 1 / (1 + math.exp(-max(-30.0, min(s.margin, 30.0))))
        return Fault(
            key=f"fused:{name}:{way}:{self.tick}", target=name, kind=kind, direction=way, since_tick=self.tick,
            status=OPEN, confidence=round(sure, 4), rate=rate, rate_low=math.nan, rate_high=math.nan,
            delay_ms=math.nan, gbps=math.nan, also_kinds=also,
            directions=tuple(DIRECTION_NAMES[d] for d in sorted(set(s.directions))), indistinguishable=(),
            evidence=(), network=True, denied_links=tuple(denied),
        )  # fmt: skip

    def _with_sources(self, fault: Fault, directed: list[int]) -> Fault:
        """Say what each kind of path evidence has seen on the links of a fault, and how sure its rate is."""
        times = np.isin(self.rows.crossed, directed).sum(axis=1)
        lost = 0
        for i, source in enumerate(SOURCES):
            on = (times > 0) & (self.rows.source == i)
            if not on.any():
                continue
            n, x = int(self.rows.sent[on].sum()), int(self.rows.lost[on].sum())
            chance = 1 - (1 - min(fault.rate, 1 - 1e-9)) ** times[on]
            fault = _with_line(
                fault, f"{source}: {x} of {n} packets lost",
                against=_too_few(x, float((self.rows.sent[on] * chance).sum())),
            )  # fmt: skip
            lost += x
        spread = 1.96 / math.sqrt(max(lost, 1))
        low, high = fault.rate * max(0.0, 1 - spread), min(1.0, fault.rate * (1 + spread))
        return replace(fault, rate_low=low, rate_high=high)

    def _with_words(self, fault: Fault, directed: list[int]) -> Fault:
        """Say what counters and port states add: agreement, or a part that loses without counting."""
        said = [w for d in directed for w in self.words.get(d, ())]
        for word in dict.fromkeys(w for w in said if w.finding is not None or w.down):
            fault = _with_line(fault, f"{word.text}: agrees", against=False)
        if directed and all(any(w.clean for w in self.words.get(d, ())) for d in directed):
            fault = _with_line(fault, "counters clean at both ends: it loses without counting", against=False)
        return fault

    # -- by totals ----------------------------------------------------------------------------------
    def _of_totals(self, s: Suspect) -> Fault:
        """Tell a host link, or a class of links that evenly spread packets can't tell apart."""
        members = dict.fromkeys(d for p, way in self._class(s) for d in self._side(p, way))
        names = dict.fromkeys(link_name(self.space.fabric, d // 2) for d in members)
        fault = self._fault(s, sorted(members))
        others = tuple(n for n in names if n != fault.target)
        x, n = self._flows_over(s.part, s.direction)
        text = f"flow totals: {x} of {n} packets lost"
        if len(names) > 1:
            text += f"; spread evenly, they can't tell {len(names)} links apart"
        return self._with_words(replace(fault, indistinguishable=others, evidence=(text,)), list(members))

    def _class(self, s: Suspect) -> list[tuple[int, int]]:
        """Return the parts and ways of a suspect and its rivals; a part that is no rival in one way is none in it."""
        ways = [s.direction] if s.direction != BOTH else [0, 1]
        out = [(s.part, way) for way in ways]
        for hyp in s.rival_hyps:
            part, way = hyp
            out += [(part, w) for w in ((0, 1) if way == BOTH else (way,))]
        return list(dict.fromkeys(out))

    def _side(self, part: int, way: int) -> list[int]:
        """Return the directed links of a host link, or of a T0's side."""
        f = self.space.fabric
        if part < f.n_links:
            return [2 * part + way]
        links = f.fabric_link(part - self.space.first[1], np.arange(f.t1_per_plane))
        return [int(2 * link + way) for link in links]

    def _same(self, fault: Fault, s: Suspect) -> bool:
        """Whether totals show, as a class, what paths show as a fault in it."""
        members = {d for p, way in self._class(s) for d in self._side(p, way)}
        own = set(fault.denied_links)
        side = set(self._side(s.part, s.direction if s.direction != BOTH else 0))
        share = len(side & own) / len(side) if side & own else 1 / len(side)
        seen, expected = rate_of(s.u), fault.rate * share
        return bool(members & own) and expected / LIKE <= seen <= expected * LIKE

    def _with_totals(self, fault: Fault, usual: float, *, agree: bool) -> Fault:
        """Say whether flows' totals bear out a fault of a fabric link, as far as they could."""
        f, links = self.space.fabric, {d // 2 for d in fault.denied_links}
        link = min(links)
        if self.evidence.flow_totals is None or link < f.n_ports:
            return fault
        t0 = int(f.link_lower[link])
        if agree:
            return _with_line(fault, f"flow totals of {t0_name(f, t0)}: agree", against=False)
        part = self.space.first[1] + t0
        ways = (0, 1) if fault.direction == "both" else (DIRECTION_NAMES.index(fault.direction),)
        seen = [self._flows_over(part, way) for way in ways]
        x, n = sum(a for a, _ in seen), sum(b for _, b in seen)
        expected = n * (usual + fault.rate * len(links) / f.planes / f.t1_per_plane)
        if not _too_few(x, expected):
            return fault
        return _with_line(fault, f"flow totals: {x} of {n} packets lost, {expected:.0f} expected", against=True)

    def _flows_over(self, part: int, direction: int) -> tuple[int, int]:
        """Return packets lost and sent by flows over a host link, or over a T0's side, in a direction."""
        f, t = self.space.fabric, self.evidence.flow_totals
        assert t is not None
        on = np.zeros(len(t), dtype=np.bool_)
        for way, nic in ((0, t.src), (1, t.dst)):
            if direction not in {way, BOTH}:
                continue
            if part < f.n_links:
                on |= nic == part // f.planes
            else:
                domain, i = divmod(part - self.space.first[1], f.t0_per_plane)
                away = f.nic_t0_index[t.src] != f.nic_t0_index[t.dst]
                on |= (f.nic_t0_index[nic] == i) & away & (f.nic_rail[nic] == domain // f.planes)
        return int(t.lost[on].sum()), int(t.sent[on].sum())

    # -- counters alone -----------------------------------------------------------------------------
    def _counted_alone(self, covered: set[int]) -> list[Fault]:
        """Return faults that counters or port states show and no path has told; what paths say against them too."""
        strong: dict[int, dict[int, list[Word]]] = {}
        for directed, said in sorted(self.words.items()):
            mine = [w for w in said if (founds(w.finding) if w.finding is not None else w.down)]
            if mine and directed not in covered:
                strong.setdefault(directed // 2, {})[directed % 2] = mine
        return [self._counted(link, by_way) for link, by_way in strong.items()]

    def _counted(self, link: int, by_way: dict[int, list[Word]]) -> Fault:
        said = list(dict.fromkeys(w for words in by_way.values() for w in words))
        kinds = {"down" if w.finding is None else kind_of(w.finding) for w in said}
        kind = next(k for k in WORST_FIRST if k in kinds)
        ways = (0, 1) if kind in BOTH_WAYS else tuple(by_way)
        way = DIRECTION_NAMES[ways[0] if len(ways) == 1 else BOTH]
        name, denied = link_name(self.space.fabric, link), tuple(2 * link + w for w in ways)
        sure = max((w.finding.confidence for w in said if w.finding is not None), default=0.99)
        fault = Fault(
            key=f"counted:{name}:{way}:{self.tick}", target=name, kind=kind, direction=way,
            since_tick=self.tick, status=OPEN, confidence=round(sure, 4), rate=math.nan, rate_low=math.nan,
            rate_high=math.nan, delay_ms=math.nan, gbps=_speed(kind, said),
            also_kinds=("loss",) if kind == "corrupt" else (), directions=(way,), indistinguishable=(),
            evidence=tuple(w.text for w in said), network=True, denied_links=denied,
        )  # fmt: skip
        on = np.isin(self.rows.crossed, denied).any(axis=1)
        n, x = int(self.rows.sent[on].sum()), int(self.rows.lost[on].sum())
        if not n:
            return fault
        against = kind == "down" and x < n / 2
        return _with_line(fault, f"paths over it: {x} of {n} packets lost", against=against)


def _speed(kind: str, said: list[Word]) -> float:
    """Return what a slow link still carries, in Gb/s; NaN for other kinds."""
    speeds = [w.finding.value for w in said if w.finding is not None and kind_of(w.finding) == "slow"]
    return min(speeds) if kind == "slow" else math.nan


def _kind(component: Component, rate: float, direction: int) -> tuple[str, tuple[str, ...]]:
    if rate < DEAD_RATE:
        return "loss", ()
    if component.kind in {Kind.T0, Kind.T1} and direction == BOTH:
        return "blackhole", ("down", "loss")
    return "down", ("loss",)


def _with_line(fault: Fault, text: str, *, against: bool) -> Fault:
    """Add a line of evidence; one that contradicts costs confidence."""
    line = f"{text}: contradicts" if against else text
    sure = fault.confidence * AGAINST if against else fault.confidence
    return replace(fault, evidence=(*fault.evidence, line), confidence=round(sure, 4))


def _too_few(x: int, expected: float) -> bool:
    if expected < EXPECTED or x >= expected:
        return False
    return expected - x + (x * math.log(x / expected) if x else 0.0) >= TOO_FEW
