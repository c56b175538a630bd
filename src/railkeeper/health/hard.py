"""Dead parts: down, black hole, reboot, optic, flap, node down. Rows that nothing passes, and ports without carrier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Component, Kind
from railkeeper.health.carriers import RECENT_TICKS, cover_links, mostly_up
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.losses import survive_losses
from railkeeper.health.parts import BOTH, Part
from railkeeper.health.state import LocatorState, Past
from railkeeper.health.strict import Culprit, explain_strict
from railkeeper.health.track import HARD, Tracked, is_optic

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.evidence import TickRows
    from railkeeper.telemetry.ports import PortStates

    Bools = npt.NDArray[np.bool_]

LEAST_PROBES = 8  # so many lost without one that passed, before a part counts as dead
PARTLY = 0.05  # share lost in the tick before: the death began in its middle
GOOD_SHARE, BAD_SHARE = 0.5, 0.2
TIE_TICKS = 4  # how long to wait for the rare rows that split a T0 from its ports
UNSURE_TICKS = 6
# A part that has died this often within this time flaps, however long it was well in between.
OFTEN, OFTEN_WITHIN_S = 3, 60.0
MOST_LINKS = 0.5  # when no more than this share of a part's links is without carrier, the part as a whole is back
MOST_SPELLS = 32  # remembered of a part that flaps for days; a few tell its rhythm
FLAPPING = frozenset({"down", "flap", "optic", "blackhole"})


@dataclass(frozen=True)
class Heard:
    """A tick as the hard rules see it: per row, whether all or nothing came through."""

    sent: npt.NDArray[np.int64]
    through: npt.NDArray[np.int64]
    ports: PortStates

    @property
    def dead(self) -> Bools:
        return np.asarray((self.sent > 0) & (self.through == 0))

    @property
    def alive(self) -> Bools:
        return np.asarray(self.through > 0)


def judge_hard(s: LocatorState, t: TickRows, ports: PortStates, newly: Bools) -> None:
    """Open, refine and clear faults of dead parts."""
    heard = Heard(t.sent, t.received + t.corrupt, ports)
    _ports_lost(s, newly, heard)
    culprits = _dead_rows(s, heard)
    if any(all(f.part is not c.part for f in s.live(HARD)) for c in culprits):
        culprits = _not_by_chance(s, culprits, t, heard)
    for c in [c for c in culprits if _confirm(s, c)]:
        _open_from_rows(s, c, heard)
    for f in s.live(HARD):
        _age(s, f, heard, culprits)


# -- ports ------------------------------------------------------------------------------------------
def _ports_lost(s: LocatorState, newly: Bools, heard: Heard) -> None:
    """Explain links that lost their carrier, once no more have joined them for a tick."""
    c = s.carriers
    for f in s.live(HARD):
        if f.carriers:
            newly[f.part.links] = False
            c.pending[f.part.links] = False
    c.pending |= newly
    if not c.pending.any() or newly.any():
        return
    bad = c.bad_tick >= s.tick - RECENT_TICKS
    ready = c.pending & ~_of_dying_nodes(s, bad, heard)
    parts = s.parts.around(np.flatnonzero(ready))
    for part, ties in cover_links(parts, ready, bad, c.known):
        c.pending[part.links] = False
        _open_from_ports(s, part, ties, heard)


def _of_dying_nodes(s: LocatorState, bad: Bools, heard: Heard) -> Bools:
    """Silent nodes without any carrier are down as a whole; returns links of those silent too briefly to say so."""
    c, out = s.carriers, np.zeros(s.fabric.n_links, dtype=bool)
    for node in np.flatnonzero(s.silent_for > 0):
        part = s.parts.of(Component(Kind.NODE, int(node)))
        if not c.pending[part.links].any() or (c.known[part.links] & ~bad[part.links]).any():
            continue
        out[part.links] = True
        if s.silent_for[node] > 1:
            c.pending[part.links] = False
            _open_from_ports(s, part, (), heard)
    return out


def _open_from_ports(s: LocatorState, part: Part, ties: tuple[Part, ...], heard: Heard) -> None:
    since = int(s.carriers.bad_tick[part.links].min())
    since = min([since, s.tick - 1])
    present = next((f for f in s.live(HARD) if f.part is part), None)
    kind, target, also = _kind_from_ports(s, part, heard.ports)
    if present is not None:
        present.kind, present.target, present.also_kinds, present.carriers = kind, target, also, True
        present.spell_base = int(s.carriers.spells[:, part.links].max()) - 1
        return
    f = Tracked(HARD, kind, part, since, s.tick, target=target, also_kinds=also, ties=ties, carriers=True)
    f.evidence = (f"{len(part.links)} of {len(part.links)} ports without carrier",)
    f.spell_base = int(s.carriers.spells[:, part.links].max()) - 1
    _open(s, f)


def _kind_from_ports(s: LocatorState, part: Part, ports: PortStates) -> tuple[str, Component | None, tuple[str, ...]]:
    if part.is_switch:
        answer = _answer(s, part, ports)
        return ("reboot", None, ("down",)) if answer == 0 else ("down", None, () if answer == 1 else ("reboot",))
    node = _silent_node(s, part)
    if node is not None:
        return "node-down", node, ()
    optic = next((c for c in (part.component, *part.aliases) if is_optic(c)), None)
    if optic is not None and len(part.links) > 1:
        return "optic", optic, ("down",)
    return "down", None, ()


def _answer(s: LocatorState, part: Part, ports: PortStates) -> int:
    at = part.component.id + (s.fabric.n_t0 if part.component.kind is Kind.T1 else 0)
    return int(ports.switch_answers[at])


def _silent_node(s: LocatorState, part: Part) -> Component | None:
    for c in (part.component, *part.aliases):
        if c.kind is Kind.NODE and s.silent_for[c.id] > 1:
            return c
    return None


# -- rows -------------------------------------------------------------------------------------------
def _dead_rows(s: LocatorState, heard: Heard) -> list[Culprit]:
    bad = np.where(heard.dead, heard.sent, 0).astype(np.float64)
    bad[_rows_without_carrier(s)] = 0.0
    held = frozenset(s.index[f.part] for f in s.live(HARD) if f.part in s.index)
    return explain_strict(s.table, bad, heard.alive, LEAST_PROBES, held)


def _not_by_chance(s: LocatorState, culprits: list[Culprit], t: TickRows, heard: Heard) -> list[Culprit]:
    """Leave out parts whose rows may be dead only because a wider part loses much: few would have come through."""
    through = survive_losses(s, t)
    out = []
    for c in culprits:
        row = s.table.rows_of(c.hyp)[0]
        dead = row[heard.dead[row]]
        if any(f.part is c.part for f in s.live(HARD)) or (heard.sent[dead] * through[dead]).sum() >= LEAST_PROBES:
            out.append(c)
    return out


def _rows_without_carrier(s: LocatorState) -> Bools:
    """Rows whose death the ports explain, or are about to."""
    links = s.carriers.pending | s.carriers.down
    crossed = s.rows.crossed
    return np.asarray((links[crossed // 2] & (crossed >= 0)).any(axis=1))


def _confirm(s: LocatorState, c: Culprit) -> bool:
    """Whether a dead part may be told: dead for a whole tick after one that was dead or partly so."""
    if any(f.part is c.part for f in s.live(HARD)):
        return False
    w = s.suspect(HARD, c.part.component)
    inside = any(c.part.within(f.part) for f in s.live(HARD))
    if c.ties and any(len(p.links) > len(c.part.links) for p in c.ties) and w.times < TIE_TICKS:
        return False
    return w.times >= 2 or (not inside and _share_lost_before(s, c) >= PARTLY)


def _share_lost_before(s: LocatorState, c: Culprit) -> float:
    p = s.previous
    row = s.table.rows_of(c.hyp)[0]
    row = row[row < (0 if p is None else len(p.sent))]
    if p is None or not p.sent[row].sum():
        return 0.0
    return 1.0 - float((p.received[row] + p.corrupt[row]).sum() / p.sent[row].sum())


def _open_from_rows(s: LocatorState, c: Culprit, heard: Heard) -> None:
    ports_up = mostly_up(s.carriers, c.part.links)
    switch = next((p for p in (c.part, *c.ties) if p.is_switch), None)
    part = c.part if switch is None or not ports_up else switch
    kind, also = _kind_from_rows(part, c, ports_up=ports_up)
    lost = int(heard.sent[s.table.rows_of(c.hyp)[0]].sum())
    f = Tracked(
        HARD, kind, part, s.tick - 1, s.tick, direction=c.direction, directions=c.directions, also_kinds=also,
        ties=tuple(p for p in (c.part, *c.ties) if p is not part), rate=1.0, rate_low=1 - 3 / max(lost, 3),
        rate_high=1.0,
    )  # fmt: skip
    f.evidence = (f"{lost} of {lost} probes lost in a tick", "ports up" if ports_up else "ports not read")
    f.spell_base = int(s.carriers.spells[:, part.links].max())
    _open(s, f)


def _kind_from_rows(part: Part, c: Culprit, *, ports_up: bool) -> tuple[str, tuple[str, ...]]:
    if part.is_switch and c.direction == BOTH:
        return ("blackhole", ("down", "loss")) if ports_up else ("down", ("blackhole", "reboot", "loss"))
    if ports_up and c.directions == (BOTH,):
        return "loss", ("down",)
    return "down", ("loss",)


# -- life --------------------------------------------------------------------------------------------
def _open(s: LocatorState, f: Tracked) -> None:
    """Begin a fault of a dead part; parts of it that were told just before were the same event seen early."""
    _recall(s, f)
    for old in s.live(HARD):
        if old.part.within(f.part) and old.opened >= s.tick - TIE_TICKS and old.since >= f.since - 2:
            old.status = CLEARED
    s.open(f)
    row = s.rows_of(f.part)
    s.loss.forget(row)
    s.corrupt.forget(row)
    for soft in s.live("loss", "corrupt", "delay", "slow"):
        if soft.opened >= s.tick - TIE_TICKS and soft.part.link_set <= f.part.link_set:
            soft.status = CLEARED


def _recall(s: LocatorState, f: Tracked) -> None:
    """Take up what is remembered of a part that dies again: soon after its last spell, or often, it flaps."""
    past = s.past.pop(f.part.component, None)
    f.spells = [f.since]
    if past is None or f.kind not in FLAPPING:
        return
    soon = f.since - past.seen <= s.config.flap_gap_s / s.config.tick_s
    f.earlier = tuple(x for x in past.spells if f.since - x <= OFTEN_WITHIN_S / s.config.tick_s)
    if not soon and len(f.earlier) < OFTEN - 1:
        return
    f.key, f.spells, f.earlier = past.key, [*(past.spells if soon else f.earlier), f.since], ()
    if f.kind != "blackhole" or len(f.spells) > 2:
        f.kind, f.also_kinds, f.target = "flap", (f.kind,), None


def _age(s: LocatorState, f: Tracked, heard: Heard, culprits: list[Culprit]) -> None:
    """Move a fault on by one tick."""
    verdict = _verdict(s, f, heard, culprits)
    if verdict == "bad":
        if f.good or f.unsure:
            f.spells = [*f.spells[-MOST_SPELLS:], s.tick]
        f.good, f.unsure, f.seen, f.status = 0, 0, s.tick, OPEN
    elif verdict == "good" or (verdict == "mixed" and f.unsure >= UNSURE_TICKS):
        f.good += 1
        f.status = CLEARING if f.good > _longest_gap(f) else OPEN
    elif verdict == "mixed":
        f.unsure += 1
    _refine_kind(s, f)
    if f.good * s.config.tick_s >= _hold_s(s, f):
        _clear(s, f)


def _verdict(s: LocatorState, f: Tracked, heard: Heard, culprits: list[Culprit]) -> str:
    """Return bad, good, mixed or nothing, from this tick's ports and rows."""
    links = f.part.links
    if f.carriers and (s.carriers.bad_tick[links] == s.tick).mean() > MOST_LINKS:
        return "bad"
    if any(c.part is f.part for c in culprits):
        return "bad"
    row = s.rows_of(f.part, f.direction)
    row = row[~_rows_of_others(s, f)[row]]
    sent, through = int(heard.sent[row].sum()), int(heard.through[row].sum())
    if sent < LEAST_PROBES:
        return "good" if f.carriers and s.carriers.up[links].all() and not sent else "nothing"
    share = through / sent
    if share >= GOOD_SHARE:
        return "good"
    return "bad" if share <= BAD_SHARE else "mixed"


def _rows_of_others(s: LocatorState, f: Tracked) -> Bools:
    """Rows that also cross another dead part, and so say nothing of this one."""
    out = np.zeros(len(s.rows), dtype=bool)
    for other in s.live(HARD):
        if other is not f and not other.part.link_set <= f.part.link_set:
            out[s.rows_of(other.part)] = True
    return out


def _refine_kind(s: LocatorState, f: Tracked) -> None:
    links = f.part.links
    by_ports = int(s.carriers.spells[:, links].max()) - f.spell_base if f.carriers else 0
    window = s.config.flap_window_s / s.config.tick_s
    near = [b for a, b in zip(f.spells, f.spells[1:], strict=False) if b - a <= window]
    if f.kind in FLAPPING and (near or by_ports >= 2):
        f.kind, f.also_kinds, f.target = "flap", (), None
    if f.kind == "optic" and not f.good and (s.tick - f.since) * s.config.tick_s > s.config.optic_flap_max_s:
        f.kind, f.also_kinds = "down", ("optic",)


def _longest_gap(f: Tracked) -> int:
    """Return the most ticks between the beginnings of two late spells; 0 with one spell."""
    return max((b - a for a, b in zip(f.spells[-4:], f.spells[-3:], strict=False)), default=0)


def _hold_s(s: LocatorState, f: Tracked) -> float:
    """How long the part must be well: a flap twice as long as it has been well between two spells."""
    gap = _longest_gap(f)
    return max(s.config.hold_s, 2 * gap * s.config.tick_s + 1.0 if gap else 0.0)


def _clear(s: LocatorState, f: Tracked) -> None:
    """End a fault; links of it that are still down are news of their own."""
    f.status = CLEARED
    if f.carriers:
        s.carriers.pending[f.part.links[s.carriers.down[f.part.links]]] = True
    if f.kind in FLAPPING:
        s.past[f.part.component] = Past(f.key, (*f.earlier, *f.spells)[-8:], f.seen)
    row = s.rows_of(f.part)
    s.loss.forget(row, newest=f.good)
    s.corrupt.forget(row, newest=f.good)
