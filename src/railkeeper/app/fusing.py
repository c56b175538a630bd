"""What the counters of ports say, laid beside the faults that paths have located: in each tick that brings a frame.

A function of what is handed in. What counters have said holds until the next frame says otherwise: a tick without a
frame is no news, and a frame that lacks a port is none of that port.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from railkeeper.fabric.paths import links_crossed
from railkeeper.health.detect.finding import V_FAILED, V_OK
from railkeeper.health.fault import ALONE, CLEARED, OPEN, Fault
from railkeeper.health.fleet.space import PartSpace
from railkeeper.health.fuse.alone import counted_faults
from railkeeper.health.fuse.evidence import Evidence
from railkeeper.health.fuse.fuse import fuse
from railkeeper.health.fuse.kinds import OF_LINKS, PORT
from railkeeper.health.fuse.near import rows_near, rows_over
from railkeeper.health.fuse.notes import Note, is_open, links_named, narrowed, note_of
from railkeeper.health.fuse.words import link_words
from railkeeper.probe.pathstats import join_stats
from railkeeper.telemetry.ports import UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from railkeeper.app.detecting import Detecting
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding
    from railkeeper.health.fuse.words import Word
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.ports import PortStates

    Ints = npt.NDArray[np.int64]
    Words = Mapping[int, list[Word]]

KEEP_S, MOST_ROWS = 60.0, 200_000  # rows around open questions are kept so long, and so many
MOST_LINKS = 16  # that a fault may be of, so that its neighbourhood is kept
MOST_WATCHED = 64  # links in all
MOST_ALONE = 64  # faults by counters alone; what else they find is told as findings only
# Detectors of a keeper that has just started have yet to find again what an earlier one knew.
RESTORED_S = 300.0
# What a port must have been read for before its counters are called clean; drops only of switches.
DAMAGE, DROPS = "error-rates", "discards"


class Kept(NamedTuple):
    """Rows of one tick."""

    tick: int
    stats: PathStats


class Said(NamedTuple):
    """What counters say of one fault: as paths told it, and as all evidence leaves it."""

    told: tuple[object, ...]
    left: dict[str, Any]
    note: Note


@dataclass(frozen=True)
class Fusing:
    """What goes from tick to tick.

    - space: the fabric's parts, worked out when first asked for
    - rows: those around open questions, the newest last; near, over: links whose neighbourhood, or own rows, are kept
    - said: by key of a located fault; alone: faults that only counters show
    - restored: keys of faults in `alone` that an earlier keeper had, and that need no finding up to `restored_until_s`
    """

    space: PartSpace
    rows: tuple[Kept, ...] = ()
    near: tuple[int, ...] = ()
    over: tuple[int, ...] = ()
    said: Mapping[str, Said] = field(default_factory=dict)
    alone: tuple[Fault, ...] = ()
    restored: frozenset[str] = frozenset()
    restored_until_s: float | None = None


@dataclass(frozen=True)
class Now:
    """One tick: what paths have located, their rows and who can't be trusted with losses; what detectors found.

    `fresh`: whether this tick has brought a frame.
    """

    tick: int
    tick_s: float
    located: tuple[Fault, ...]
    stats: PathStats
    unclean: tuple[int, ...]
    ports: PortStates
    detecting: Detecting | None
    fresh: bool

    @property
    def now_s(self) -> float:
        """Unix time of the tick's end."""
        return (self.tick + 1) * self.tick_s


def begin_fusing(fabric: Fabric, open_faults: Iterable[Fault] = ()) -> Fusing:
    """Return the first state; of faults of an earlier keeper it takes those that are known by counters alone."""
    alone = tuple(f for f in open_faults if f.counters == ALONE)
    return Fusing(PartSpace(fabric), alone=alone, restored=frozenset(f.key for f in alone))


def clock_set_back(state: Fusing, tick: int) -> Fusing:
    """Return the state to go on with: what counts ticks goes."""
    alone = tuple(replace(f, since_tick=min(f.since_tick, tick)) for f in state.alone)
    return replace(state, rows=(), alone=alone, restored_until_s=None)


def fuse_in(state: Fusing, now: Now) -> tuple[Fusing, tuple[Fault, ...]]:
    """Return the next state, and all faults of a tick: located ones with what counters add, then those of counters."""
    if now.detecting is None and not state.alone:
        return state, now.located
    state = replace(state, rows=_keep(state, now))
    state, ended = _give_way(state, now)
    if now.fresh and now.detecting is not None:
        state = _take_frame(state, now, now.detecting)
    live = {f.key for f in now.located}
    state = replace(state, said={k: s for k, s in state.said.items() if k in live})
    located = tuple(_with_word(f, state.said.get(f.key)) for f in now.located)
    gone = tuple(f for f in state.alone if f.status == CLEARED)
    state = replace(state, alone=tuple(f for f in state.alone if f.status != CLEARED))
    return state, (*located, *state.alone, *gone, *ended)


# -- rows ------------------------------------------------------------------------------------------------
def _keep(state: Fusing, now: Now) -> tuple[Kept, ...]:
    """Keep the tick's rows around open questions, without those of agents whose losses may be their own."""
    if not (state.near or state.over):
        return ()
    fabric, paths = state.space.fabric, now.stats.paths
    rows = np.union1d(rows_near(fabric, paths, state.near), rows_over(fabric, paths, state.over))
    stats = now.stats.take(rows.astype(np.int64))
    if now.unclean:
        own = [np.isin(fabric.node_of(ends), now.unclean) for ends in (stats.paths.src, stats.paths.dst)]
        stats = stats.take(np.flatnonzero(~(own[0] | own[1])))
    kept = [k for k in state.rows if now.tick - k.tick < KEEP_S / now.tick_s]
    kept.append(Kept(now.tick, stats))
    behind = np.cumsum([len(k.stats) for k in reversed(kept)])[::-1]
    return tuple(k for k, n in zip(kept, behind, strict=True) if n <= MOST_ROWS or k is kept[-1])


def _watched(state: Fusing, located: Iterable[Fault]) -> Fusing:
    """Choose the links of the next ticks: those of located faults that are open in part or way, then counters'."""
    near: list[int] = []
    for f in located:
        links = links_named(state.space.fabric, f) if f.status == OPEN and f.network and is_open(f) else ()
        near += [int(x) for x in links] if len(links) <= MOST_LINKS else []
    over = [d // 2 for f in state.alone for d in f.denied_links]
    near = list(dict.fromkeys(near))[:MOST_WATCHED]
    over = list(dict.fromkeys(over))[: MOST_WATCHED - len(near)]
    return replace(state, near=tuple(sorted(near)), over=tuple(sorted(over)))


# -- frames ----------------------------------------------------------------------------------------------
def _take_frame(state: Fusing, now: Now, found: Detecting) -> Fusing:
    """Let the newest findings speak of all faults."""
    findings = [f for f in found.said.values() if f.kind == PORT and f.detector in OF_LINKS]
    if state.restored and state.restored_until_s is None:
        state = replace(state, restored_until_s=now.now_s + RESTORED_S)
    alone, restored = _alone(state, now, findings)
    state = replace(state, said=_said(state, now, found, findings), alone=alone, restored=restored)
    return _watched(state, now.located)


def _said(state: Fusing, now: Now, found: Detecting, findings: list[Finding]) -> dict[str, Said]:
    live = [f for f in now.located if f.status != CLEARED and f.network]
    if not live:
        return {}
    fabric = state.space.fabric
    words = link_words(fabric, Evidence(findings=findings))
    clean = _Clean(fabric, found)
    out = {}
    for f, left in zip(live, _narrowed(state, now, live, words, clean), strict=True):
        note = note_of(fabric, left, words, clean.links if clean.could_tell(now, f) else None, now.ports)
        changed = {n: getattr(left, n) for n in NARROWED if getattr(left, n) != getattr(f, n)}
        out[f.key] = Said(_told(f), changed, note)
    return out


NARROWED = ("target", "indistinguishable", "direction", "directions")


def _told(fault: Fault) -> tuple[object, ...]:
    return tuple(getattr(fault, name) for name in NARROWED)


def _narrowed(state: Fusing, now: Now, live: list[Fault], words: Words, clean: _Clean) -> list[Fault]:
    """Ask for the likelihood of all evidence where paths leave something open that counters speak of."""
    fabric = state.space.fabric
    spoken = {d // 2 for d in words}
    links = {f.key: links_named(fabric, f) for f in live if is_open(f)}
    asked = {k: x for k, x in links.items() if len(x) <= MOST_LINKS and spoken & set(x.tolist())}
    if not asked or not state.rows:
        return live
    around = np.unique(np.concatenate(list(asked.values())))
    grown = [links[f.key] for f in live if f.key in asked and clean.could_tell(now, f)]
    quiet = np.unique(np.concatenate(grown)) if grown else around[:0]
    said = (w.finding for x in around.tolist() for d in (2 * x, 2 * x + 1) for w in words.get(d, ()))
    mine = list(dict.fromkeys(f for f in said if f is not None))
    fused = fuse(
        fabric, probes=join_stats([k.stats for k in state.rows]), findings=mine,
        clean=clean.directed(quiet, words), ports=_only(now.ports, around), tick=now.tick,
        space=state.space,
    )  # fmt: skip
    return [narrowed(fabric, f, fused, words) if f.key in asked else f for f in live]


def _only(ports: PortStates, links: Ints) -> PortStates:
    """Return port states of which only those of some links were read."""
    lower, upper = np.full_like(ports.lower, UNREAD), np.full_like(ports.upper, UNREAD)
    lower[links], upper[links] = ports.lower[links], ports.upper[links]
    return replace(ports, lower=lower, upper=upper)


@dataclass(frozen=True)
class _Clean:
    """Which links were read at both ends, and show nothing."""

    fabric: Fabric
    found: Detecting

    def could_tell(self, now: Now, fault: Fault) -> bool:
        """Return whether a fault is old enough that detectors, which wait for some hits, would have found it."""
        seats = [self.found.engine.seats.get(name) for name in (DAMAGE, DROPS)]
        p = [s.parameters for s in seats if s is not None]
        tick_s = self.found.engine.tick_s
        wait_s = max((max(x.get("persist_s", 0.0), x.get("need_ticks", 0.0) * tick_s) for x in p), default=0.0)
        return (now.tick - fault.since_tick) * now.tick_s >= wait_s + tick_s

    def links(self, links: Ints) -> npt.NDArray[np.bool_]:
        """Return (m,) whether each of some links is clean: no damage at either end, no drops at a switch's."""
        damage, drops = (self._ok(name) for name in (DAMAGE, DROPS))
        if damage is None or drops is None:
            return np.zeros(len(links), dtype=np.bool_)
        lower, upper = 2 * links, 2 * links + 1
        of_nic = links < self.fabric.n_ports
        return np.asarray(damage[lower] & damage[upper] & drops[upper] & (of_nic | drops[lower]))

    def directed(self, links: Ints, words: Words) -> list[int]:
        """Return the directed links, of some links, that are clean: read at both ends, and nothing said of them."""
        damage = self._of(DAMAGE)
        if damage is None:
            return []
        read = (damage[2 * links] <= V_FAILED) & (damage[2 * links + 1] <= V_FAILED)
        both = (d for link in links[read].tolist() for d in (2 * link, 2 * link + 1))
        return [d for d in both if d not in words and damage[d ^ 1] == V_OK]

    def _ok(self, detector: str) -> npt.NDArray[np.bool_] | None:
        verdicts = self._of(detector)
        return None if verdicts is None else verdicts == V_OK

    def _of(self, detector: str) -> npt.NDArray[np.uint8] | None:
        judged = self.found.judged.get(detector)
        return None if judged is None or judged.error else judged.verdicts


def _with_word(fault: Fault, said: Said | None) -> Fault:
    """Return a located fault with what counters add; a narrower answer only while paths tell the same as then."""
    if said is None or fault.status == CLEARED:
        return fault
    left = said.left if _told(fault) == said.told else {}
    return replace(fault, **left, counters=said.note.counters, evidence=(*fault.evidence, *said.note.lines))


# -- counters alone --------------------------------------------------------------------------------------
def _covered(state: Fusing, located: Iterable[Fault]) -> Ints:
    """Return the links of which paths tell a fault."""
    live = [f for f in located if f.status != CLEARED and f.network]
    found = [links_named(state.space.fabric, f) for f in live]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _alone(state: Fusing, now: Now, findings: list[Finding]) -> tuple[tuple[Fault, ...], frozenset[str]]:
    """Return the faults that counters alone show, and those that have ended; and which rest on an earlier keeper."""
    known = {f.target: f for f in state.alone}
    shown = counted_faults(state.space, findings, _covered(state, now.located).tolist(), now.tick, now.tick_s)
    shown.sort(key=lambda f: f.target not in known)
    out = {f.target: _same(known.get(f.target), f) for f in shown[:MOST_ALONE]}
    crossed = _crossed(state)
    out = {name: _with_paths(state, f, crossed) for name, f in out.items()}
    late = state.restored_until_s is not None and now.now_s >= state.restored_until_s
    waiting = {f.key for name, f in known.items() if name not in out and f.key in state.restored and not late}
    for name, f in known.items():
        if name not in out:
            out[name] = f if f.key in waiting else replace(f, status=CLEARED)
    return tuple(out.values()), frozenset(waiting)


def _same(old: Fault | None, new: Fault) -> Fault:
    return new if old is None else replace(new, key=old.key, since_tick=old.since_tick)


def _crossed(state: Fusing) -> list[tuple[npt.NDArray[np.int32], PathStats]]:
    return [(links_crossed(state.space.fabric, k.stats.paths), k.stats) for k in state.rows if len(k.stats)]


def _with_paths(state: Fusing, fault: Fault, kept: list[tuple[npt.NDArray[np.int32], PathStats]]) -> Fault:
    """Say what the paths over a fault of counters have seen of it."""
    if not set(fault.denied_links) & {d for x in state.over for d in (2 * x, 2 * x + 1)}:
        return fault
    sent = lost = 0
    for crossed, stats in kept:
        on = np.isin(crossed, fault.denied_links).any(axis=1) & (stats.sent > 0) & (stats.received >= 0)
        sent += int(stats.sent[on].sum())
        lost += int((stats.sent[on] - np.minimum(stats.received[on], stats.sent[on])).sum())
    line = f"paths over it: {lost} of {sent} packets lost" if sent else "no probe crosses it"
    return replace(fault, evidence=(*fault.evidence, line))


def _give_way(state: Fusing, now: Now) -> tuple[Fusing, tuple[Fault, ...]]:
    """End those faults of counters that paths have located by now: theirs is the better word."""
    if not state.alone or not now.located:
        return state, ()
    covered = set(_covered(state, now.located).tolist())
    given = [f for f in state.alone if covered & {d // 2 for d in f.denied_links}]
    ended = tuple(replace(f, status=CLEARED, evidence=(*f.evidence, "paths have located it")) for f in given)
    return replace(state, alone=tuple(f for f in state.alone if f not in given)), ended
