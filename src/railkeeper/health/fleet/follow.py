"""Open faults of loss, damage and death: opened, followed from tick to tick, cleared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.fabric.names import Kind
from railkeeper.health.fault import CLEARED, CLEARING, OPEN
from railkeeper.health.fleet.solve import SURE, rate_of
from railkeeper.health.fleet.solve_kernels import U_MAX, score
from railkeeper.health.fleet.state import PER_NEAR, Columns, FleetLocator, Followed, Memory
from railkeeper.health.fleet.take import wrong_now
from railkeeper.health.likelihood import Fit, with_interval
from railkeeper.health.parts import BOTH, Part
from railkeeper.health.track import CORRUPT, DELAY, HARD, LOSS, SLOW, Tracked
from railkeeper.telemetry.ports import DOWN, UP

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.solve import Counted, Suspect
    from railkeeper.telemetry.ports import PortStates

    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

DEAD_RATE = 0.97
CALM_NATS = 12.0  # that must speak for the end of a fault before it is cleared
U_BELIEVED = 8.0  # nothing is believed deader than this: products of it must stay numbers
REFIT_SHARE = 0.2  # by which a rate must change before what is believed is worked out anew
BLIND_TO = {LOSS: (LOSS, HARD, SLOW), CORRUPT: (CORRUPT, HARD)}  # open faults that take their rows from a family
MOST_SPELLS = 32
MOST_ROWS = 20_000  # up to which an interval is worked out


def begin_following(
    s: FleetLocator, m: Memory, family: str, suspect: Suspect, counted: Counted, *, ports: PortStates, since: int
) -> None:
    """Tell a suspect and follow it."""
    place, times = counted.hood.rows_of(suspect.hyp)
    n, x, base = counted.n[place], counted.x[place], counted.survive[place]
    rate = rate_of(suspect.u)
    t = _tracked(s, family, suspect, ports, since)
    t.rate, t.rate_low, t.rate_high = _interval(Fit(rate, math.nan, math.nan, suspect.llr), n, x, base, times)
    t.evidence = (f"{int(x.sum())} of {int(n.sum())} probes {_WORD[family]}", *_said_by_ports(ports, t.part))
    f = Followed(
        tracked=t, part=suspect.part, rows=counted.hood.rows[place], times=times.copy(), n=np.zeros(len(n)),
        x=np.zeros(len(n)), u=suspect.u,
    )  # fmt: skip
    take_rows(s, m, f)


def take_rows(s: FleetLocator, m: Memory, f: Followed) -> None:
    """Open a fault: what its rows have lost is explained, and faults inside it that were told just before go."""
    for old in s.followed_of(LOSS, CORRUPT, HARD, DELAY, SLOW):
        inside = old.tracked.part.link_set <= f.tracked.part.link_set
        if inside and f.tracked.family in {HARD, old.tracked.family}:
            old.tracked.status = CLEARED
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
            believed[f.rows] *= np.exp(-_u_believed(f) * f.times).astype(np.float32)


def _u_believed(f: Followed) -> float:
    return 3.0 if f.tracked.family == SLOW else max(min(f.u, U_BELIEVED), 1e-6)


_WORD = {LOSS: "lost", CORRUPT: "damaged"}


def _tracked(s: FleetLocator, family: str, suspect: Suspect, ports: PortStates, since: int) -> Tracked:
    part = s.parts.of(s.space.component(suspect.part))
    ties = tuple(s.parts.of(s.space.component(p)) for p in suspect.rivals)
    confidence = 1 / (1 + math.exp(-max(-30.0, min(suspect.margin, 30.0))))
    also: tuple[str, ...] = ()
    kind, tracked_as = family, family
    if family == LOSS and rate_of(suspect.u) >= DEAD_RATE:
        tracked_as = HARD
        kind, also = _dead_kind(s, part, suspect, ports)
    return Tracked(
        tracked_as, kind, part, since, s.tick, direction=suspect.direction, directions=suspect.directions, ties=ties,
        also_kinds=also, confidence=confidence,
    )  # fmt: skip


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


# -- life ---------------------------------------------------------------------------------------------
def follow_losses(s: FleetLocator, m: Memory, columns: Columns) -> None:
    """Move the open faults on by one tick."""
    changed = False
    for f in s.followed_of(LOSS, CORRUPT, HARD):
        family = CORRUPT if f.tracked.family == CORRUPT else LOSS
        n = m.exposure.now[f.rows].astype(np.float64)
        x = np.where(n > 0, wrong_now(columns, family, f.rows), 0).astype(np.float64)
        base = np.minimum(_base(s, m, f, family), SURE)
        changed |= _age(s, m, f, (n, x), base)
    if changed:
        believe_again(s, m)


def _base(s: FleetLocator, m: Memory, f: Followed, family: str) -> Floats:
    """Return each row's chance to survive all but this fault."""
    usual = s.background[family] * PER_NEAR[m.index.group[f.rows]]
    own = np.exp(-_u_believed(f) * f.times)
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
