"""Open faults of loss, damage and death: opened, followed from tick to tick, cleared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Kind
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.fleet.case import EVERY_TICKS, add_tick, better, old, open_case, reconsider, widen_case
from railkeeper.health.fleet.scan_kernels import LATE, PROMPT
from railkeeper.health.fleet.solve import SURE, Counted, rate_of
from railkeeper.health.fleet.solve_kernels import U_MAX, score
from railkeeper.health.fleet.state import PER_NEAR, Columns, FleetLocator, Followed, Memory
from railkeeper.health.fleet.take import wrong_now
from railkeeper.health.likelihood import Fit, with_interval
from railkeeper.health.parts import BOTH, Part
from railkeeper.health.track import CORRUPT, DELAY, HARD, LOSS, SLOW, Tracked
from railkeeper.telemetry.ports import DOWN, UP

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.solve import Suspect
    from railkeeper.telemetry.ports import PortStates

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

DEAD_RATE = 0.97
CALM_NATS = 12.0  # that must speak for the end of a fault before it is cleared
U_BELIEVED = 8.0  # nothing is believed deader than this: products of it must stay numbers
REFIT_SHARE = 0.2  # by which a rate must change before what is believed is worked out anew
BLIND_TO = {LOSS: (LOSS, HARD, SLOW), CORRUPT: (CORRUPT, HARD)}  # open faults that take their rows from a family
MOST_SPELLS = 32
LATE_SHARE = 0.7
MOST_ROWS = 20_000  # up to which an interval is worked out


@dataclass(frozen=True)
class Told:
    """What is at hand when a fault is told: the tick, port states, since when it was suspected, the window."""

    columns: Columns
    ports: PortStates
    since: int
    scale: int


def begin_following(s: FleetLocator, m: Memory, family: str, suspect: Suspect, counted: Counted, *, at: Told) -> None:
    """Tell a suspect and follow it, unless it turns out to belong to an open fault."""
    if _belongs_to_open(s, m, family, suspect.part):
        return
    f = Followed(_tracked(s, family, suspect, at.ports, at.since), suspect.part, *_nothing(), suspect.u)
    if f.tracked.family == family:
        f.case = open_case(s, m, family, suspect.part, at.columns, scale=at.scale)
    _follow_rows(f, suspect, counted)
    f.tracked.evidence = (f"{_counted(f)} {_WORD[family]}", *_said_by_ports(at.ports, f.tracked.part))
    if family == LOSS and mostly_late(m, f.rows):
        f.tracked.family = f.tracked.kind = SLOW
        f.case = None
        for same in s.followed_of(DELAY):
            if same.tracked.part.meets(f.tracked.part):
                same.tracked.status = CLEARED
    f.n[:], f.x[:] = 0, 0
    take_rows(s, m, f)


def _nothing() -> tuple[Longs, Floats, Floats, Floats]:
    return np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0)


def _counted(f: Followed) -> str:
    return f"{int(f.x.sum())} of {int(f.n.sum())} probes"


def _follow_rows(f: Followed, suspect: Suspect, counted: Counted) -> None:
    """Follow the rows of a suspect from now on, with its rate."""
    place, times = counted.hood.rows_of(suspect.hyp)
    f.rows, f.times, f.u, f.part = counted.hood.rows[place], times.copy(), suspect.u, suspect.part
    f.n, f.x = counted.n[place].copy(), counted.x[place].copy()
    fitted = Fit(rate_of(suspect.u), math.nan, math.nan, suspect.llr)
    f.tracked.rate, f.tracked.rate_low, f.tracked.rate_high = _interval(fitted, f.n, f.x, counted.survive[place], times)


def _belongs_to_open(s: FleetLocator, m: Memory, family: str, part: int) -> bool:
    """Whether a part has an open fault, or a wider one explains both: then the open one was told too narrowly."""
    links = set(s.space.links(part).tolist())
    for f in s.followed_of(family):
        if f.part == part:
            if _reconsider(s, m, f, part):
                believe_again(s, m)
            return True
        if f.case is not None and part in f.case.hood.parts and _reconsider(s, m, f, part):
            believe_again(s, m)
            if links <= f.tracked.part.link_set:
                return True
    return False


def mostly_late(m: Memory, rows: Longs) -> bool:
    """Whether what crosses a fault is late now: loss with a standing queue is a lack of speed."""
    late = int(np.count_nonzero(m.verdict[rows] & LATE))
    known = late + int(np.count_nonzero(m.verdict[rows] & PROMPT))
    return known >= 2 and late > LATE_SHARE * known


def _reconsider(s: FleetLocator, m: Memory, f: Followed, wanted: int = -1) -> bool:
    """Explain a young fault's case anew; returns whether it is another part's, or of other directions, after all."""
    if f.case is None:
        return False
    found = reconsider(s, m, f.case, f)
    suspect = better(s, found, f, wanted)
    if suspect is None:
        return False
    t, moved = f.tracked, suspect.part != f.part
    t.ties = tuple(s.parts.of(s.space.component(p)) for p in suspect.rivals)
    t.confidence, t.directions = _confidence(suspect), suspect.directions
    if moved or t.direction not in suspect.directions:
        t.part, t.direction, moved = s.parts.of(s.space.component(suspect.part)), suspect.direction, True
        _follow_rows(f, suspect, Counted(f.case.hood, f.case.n, f.case.x, np.ones(len(f.case.n))))
        _drop_inner(s, f)
        _forget(s, m, f)
    t.directions = tuple(sorted({*t.directions, t.direction}))
    return moved


def _drop_inner(s: FleetLocator, f: Followed) -> None:
    """End faults that one told since, or one that has grown, explains."""
    for o in s.followed_of(LOSS, CORRUPT, HARD, DELAY, SLOW):
        inside = o.tracked.part.link_set <= f.tracked.part.link_set
        if o is not f and inside and f.tracked.family in {HARD, o.tracked.family}:
            o.tracked.status = CLEARED


def take_rows(s: FleetLocator, m: Memory, f: Followed) -> None:
    """Open a fault: what its rows have lost is explained, and faults inside it that were told just before go."""
    _drop_inner(s, f)
    s.name(f.tracked)
    s.followed.append(f)
    s.waiting.pop((f.tracked.family, f.part), None)
    _forget(s, m, f)
    believe_again(s, m)


def _forget(s: FleetLocator, m: Memory, f: Followed) -> None:
    for wrong in m.wrong.values():
        wrong.forget(m.index, s.space, f.rows)
    m.exposure.forget(f.rows)


def believe_again(s: FleetLocator, m: Memory) -> None:
    """Work out each row's chance to survive the open faults."""
    for family, believed in m.believed.items():
        believed[:] = 1
        for f in s.followed_of(*BLIND_TO[family]):
            f.u_believed = 3.0 if f.tracked.family == SLOW else max(min(f.u, U_BELIEVED), 1e-6)
            believed[f.rows] *= np.exp(-f.u_believed * f.times).astype(np.float32)


_WORD = {LOSS: "lost", CORRUPT: "damaged"}


def _tracked(s: FleetLocator, family: str, suspect: Suspect, ports: PortStates, since: int) -> Tracked:
    part = s.parts.of(s.space.component(suspect.part))
    ties = tuple(s.parts.of(s.space.component(p)) for p in suspect.rivals)
    also: tuple[str, ...] = ()
    kind, tracked_as = family, family
    if family == LOSS and rate_of(suspect.u) >= DEAD_RATE:
        tracked_as = HARD
        kind, also = _dead_kind(s, part, suspect, ports)
    return Tracked(
        tracked_as, kind, part, since, s.tick, direction=suspect.direction, directions=suspect.directions, ties=ties,
        also_kinds=also, confidence=_confidence(suspect),
    )  # fmt: skip


def _confidence(suspect: Suspect) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(suspect.margin, 30.0))))


def _dead_kind(s: FleetLocator, part: Part, suspect: Suspect, ports: PortStates) -> tuple[str, tuple[str, ...]]:
    """Name a part that nothing passes, by what its ports and its switch say."""
    up, down = _ports(ports, part)
    if not part.is_switch or suspect.direction != BOTH:
        return ("loss", ("down",)) if up > down and suspect.directions == (BOTH,) else ("down", ("loss",))
    if down <= up:
        return ("blackhole", ("down", "loss")) if up else ("down", ("blackhole", "reboot", "loss"))
    at = part.component.id + (s.fabric.n_t0 if part.component.kind is Kind.T1 else 0)
    return ("reboot", ("down",)) if ports.switch_answers[at] == 0 else ("down", ("reboot",))


def _ports(ports: PortStates, part: Part) -> tuple[int, int]:
    """Return how many ends of a part's links are up, and how many down; ends that were not read count for neither."""
    ends = np.concatenate([ports.lower[part.links], ports.upper[part.links]])
    return int((ends == UP).sum()), int((ends == DOWN).sum())


def _said_by_ports(ports: PortStates, part: Part) -> tuple[str, ...]:
    up, down = _ports(ports, part)
    return (
        (f"{down} of {up + down} ports without carrier" if down else "ports up",) if up + down else ("ports not read",)
    )


def _interval(fitted: Fit, n: Floats, x: Floats, base: Floats, times: Floats) -> tuple[float, float, float]:
    if fitted.rate >= DEAD_RATE:
        lost = float(n.sum())
        return fitted.rate, 1 - 3 / max(lost, 3.0), 1.0
    if len(n) > MOST_ROWS:
        spread = 1.96 / math.sqrt(max(float(x.sum()), 1.0))
        return fitted.rate, fitted.rate * max(0.0, 1 - spread), min(1.0, fitted.rate * (1 + spread))
    found = with_interval(fitted, n, x, base, times)
    return found.rate, found.low, found.high


def follow_new_rows(s: FleetLocator, m: Memory) -> None:
    """Follow the rows that have come with paths never seen before, if they cross open faults."""
    for f in s.followed:
        directed = f.tracked.part.directed(f.tracked.direction)
        rows = m.index.rows_over(directed)
        n, x = np.zeros(len(rows)), np.zeros(len(rows))
        at = np.searchsorted(rows, f.rows)
        n[at], x[at] = f.n, f.x
        f.times = np.isin(m.index.crossed[rows], directed).sum(axis=1).astype(np.float64)
        f.rows, f.n, f.x = rows, n, x
        if f.case is not None:
            f.case = widen_case(s, m, f.case)
    believe_again(s, m)


# -- life ---------------------------------------------------------------------------------------------
def follow_losses(s: FleetLocator, m: Memory, columns: Columns) -> None:
    """Move the open faults on by one tick."""
    changed = False
    for f in s.followed_of(LOSS, CORRUPT, HARD):
        if not f.live:
            continue  # ended by one that explains it
        family = CORRUPT if f.tracked.family == CORRUPT else LOSS
        n = m.exposure.now[f.rows].astype(np.float64)
        x = np.where(n > 0, wrong_now(columns, family, f.rows), 0).astype(np.float64)
        base = np.minimum(_base(s, m, f, family), SURE)
        changed |= _age(s, m, f, (n, x), base)
        if f.live and f.case is not None:
            changed |= _keep_case(s, m, f, columns)
    if changed:
        believe_again(s, m)


def _keep_case(s: FleetLocator, m: Memory, f: Followed, columns: Columns) -> bool:
    """Add a tick to a young fault's case and look at it anew; returns whether it is another part's after all."""
    assert f.case is not None
    add_tick(m, f.case, columns)
    if old(s, f.case):
        f.case = None
    elif (s.tick - f.case.opened) % EVERY_TICKS == 0 and not f.calm_ticks:
        return _reconsider(s, m, f)
    return False


def _base(s: FleetLocator, m: Memory, f: Followed, family: str) -> Floats:
    """Return each row's chance to survive all but this fault."""
    usual = s.background[family] * PER_NEAR[m.index.group[f.rows]]
    own = np.exp(-f.u_believed * f.times)
    return np.asarray((1 - usual) * np.minimum(m.believed[family][f.rows] / own, 1.0))


def _age(s: FleetLocator, m: Memory, f: Followed, counts: tuple[Floats, Floats], base: Floats) -> bool:
    """Move one fault on; returns whether what is believed changes."""
    (n, x), t, half = counts, f.tracked, min(f.u, U_BELIEVED) / 2
    lossy = x > 0
    gain = float((x * (np.log1p(-base * np.exp(-half * f.times)) - np.log1p(-base)))[lossy].sum())
    gain -= half * float((f.times * (n - x)).sum())
    if gain > 0:
        if f.calm_ticks:
            t.spells = [*t.spells[-MOST_SPELLS:], s.tick]
            _may_flap(s, t)
        f.calm, f.calm_ticks, t.seen, t.status = 0.0, 0, s.tick, OPEN
        return _learn_rate(f, n, x, base)
    if gain < 0:
        f.calm, f.calm_ticks = f.calm - gain, f.calm_ticks + 1
        t.status = CLEARING if f.calm >= CALM_NATS else t.status
    if f.calm >= CALM_NATS and f.calm_ticks * s.config.tick_s >= s.config.hold_s:
        t.status = CLEARED
        _forget(s, m, f)
        return True
    return False


def _may_flap(s: FleetLocator, t: Tracked) -> None:
    """Name a dead part that came back and died again soon as one that flaps."""
    window = s.config.flap_window_s / s.config.tick_s
    if t.family == HARD and any(b - a <= window for a, b in pairwise([t.since, *t.spells])):
        t.kind, t.also_kinds, t.target = "flap", (t.kind,) if t.kind != "flap" else t.also_kinds, None


def _learn_rate(f: Followed, n: Floats, x: Floats, base: Floats) -> bool:
    f.n += n
    f.x += x
    u, llr = np.zeros(1), np.zeros(1)
    rows = np.arange(len(n), dtype=np.int32)
    score(np.array([0, len(n)]), rows, f.times, np.ones(1, dtype=np.bool_), f.n, f.x, base, u, llr)
    before, f.u = f.u, float(u[0])
    t = f.tracked
    if t.family != HARD or f.u < U_MAX / 4:
        t.rate, t.rate_low, t.rate_high = _interval(
            Fit(rate_of(f.u), math.nan, math.nan, float(llr[0])), f.n, f.x, base, f.times
        )  # fmt: skip
    return abs(f.u - before) > REFIT_SHARE * before
