"""Maximum likelihood in a neighbourhood: the fewest parts, and rates, that explain what went wrong on its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fleet.solve_kernels import U_MAX, incidence, mark_sharing, score

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fleet.plan_index import PlanIndex
    from railkeeper.health.fleet.space import PartSpace

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

BOTH = 2
MOST_PARTS = 64  # that one explanation may hold
ODDS_OF_ANOTHER = 10.0  # nats that a further part must earn before a set with it is preferred
SAME_DIRECTION = 3.0  # nats within which two directions of a part fit equally
CLOSE = 6.0  # nats within which another part is a rival
INSTEAD = 5  # smaller parts tried in place of a large one
SURE = 1 - 1e-12


@dataclass(frozen=True)
class Neighbourhood:
    """Rows (R,) and suspected parts (P,), by number, and which hypotheses (3 * part + direction) each row crosses."""

    rows: Longs
    parts: Longs
    sizes: Longs
    start: Longs
    row: Ints
    times: Floats

    @property
    def n_hyps(self) -> int:
        return len(self.start) - 1

    def rows_of(self, hyp: int) -> tuple[Ints, Floats]:
        """Return places in `rows` of those that cross a hypothesis, and how often each does."""
        chosen = slice(int(self.start[hyp]), int(self.start[hyp + 1]))
        return self.row[chosen], self.times[chosen]


def neighbourhood(index: PlanIndex, space: PartSpace, parts: Longs, rows: Longs, scratch: Ints) -> Neighbourhood:
    """Cross some parts with some rows. `scratch` (n_parts,) is all -1, and is so again afterwards."""
    scratch[parts] = np.arange(len(parts), dtype=np.int32)
    start, row, times = incidence(rows, index.crossed, space.parts_of_link, scratch, len(parts))
    scratch[parts] = -1
    return Neighbourhood(rows, parts, space.size(parts), start, row, times)


@dataclass
class Counted:
    """Counts on a neighbourhood's rows: n probes, x of them gone wrong; `survive` (R,) all that is believed already.

    `odds` (hypotheses,): nats that other evidence gives or takes where there is anything to explain; None is none.
    """

    hood: Neighbourhood
    n: Floats
    x: Floats
    survive: Floats
    odds: Floats | None = None
    u: Floats = field(init=False)
    llr: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.u, self.llr = np.zeros(self.hood.n_hyps), np.zeros(self.hood.n_hyps)
        self.survive = np.minimum(self.survive, SURE)
        self.score_all()

    def score_all(self, todo: Bools | None = None) -> None:
        """Score hypotheses over `survive`."""
        h = self.hood
        todo = np.ones(h.n_hyps, dtype=np.bool_) if todo is None else todo
        score(h.start, h.row, h.times, todo, self.n, self.x, self.survive, self.u, self.llr)
        if self.odds is not None:
            here = todo & (self.llr > 0)
            self.llr[here] = np.maximum(self.llr[here] + self.odds[here], 0.0)

    def sharing(self, hyps: list[int]) -> Bools:
        """Return the hypotheses that share a row with some hypotheses."""
        touched = np.zeros(len(self.n), dtype=np.bool_)
        for hyp in hyps:
            touched[self.hood.rows_of(hyp)[0]] = True
        out = np.empty(self.hood.n_hyps, dtype=np.bool_)
        mark_sharing(self.hood.start, self.hood.row, touched, out)
        return out

    def believe(self, hyp: int, u: float) -> None:
        """Add a hypothesis to what is believed (or take it away, with a negative u)."""
        row, times = self.hood.rows_of(hyp)
        self.survive[row] = np.minimum(self.survive[row] * np.exp(-u * times), SURE)


@dataclass(frozen=True)
class Suspect:
    """A part that explains what went wrong, the other suspects being in place.

    - direction, directions: the best, and all that fit about as well; u: -log(1 - rate)
    - llr: nats that it earns; margin: by how many any other part stays behind in its place
    - rivals: parts within `CLOSE`; twins: those among them that cross the very same rows
    - rival_hyps: the rivals with the directions (part, direction) in which they are
    """

    part: int
    hyp: int
    direction: int
    directions: tuple[int, ...]
    u: float
    llr: float
    margin: float
    rivals: tuple[int, ...]
    twins: tuple[int, ...]
    rival_hyps: tuple[tuple[int, int], ...] = ()


def explain(counted: Counted, least: float) -> list[Suspect]:
    """Return the suspects: add the best part while it earns `least`, fit all again, then try to do with less."""
    c = counted
    base = c.survive.copy()
    chosen = _grow(c, {}, least, MOST_PARTS)
    for hyp in [h for h in chosen if c.hood.sizes[h // 3] > 1]:
        if hyp in chosen:
            chosen = _smaller_instead(c, base, chosen, hyp, least)
    chosen = _wider_instead(c, base, chosen)
    _settle(c, base, chosen)
    return [_weigh(c, base, chosen, hyp) for hyp in chosen]


def _settle(c: Counted, base: Floats, chosen: dict[int, float], todo: Bools | None = None) -> None:
    c.survive = base.copy()
    for hyp, u in chosen.items():
        c.believe(hyp, u)
    c.score_all(todo)


def _grow(c: Counted, chosen: dict[int, float], least: float, most: int, barred: int = -1) -> dict[int, float]:
    chosen = dict(chosen)
    while len(chosen) < most:
        scores = c.llr.copy()
        for part in {barred, *(h // 3 for h in chosen)} - {-1}:
            scores[3 * part : 3 * part + 3] = 0.0
        if not len(scores) or scores.max() < least:
            break
        hyp = _pick(c.hood, scores)
        chosen[hyp] = float(c.u[hyp])
        c.believe(hyp, chosen[hyp])
        _refit(c, chosen, hyp)
        chosen = _turned(c, chosen)
    return chosen


def _turned(c: Counted, chosen: dict[int, float]) -> dict[int, float]:
    """Let each part take the direction that suits it best now that the others are there."""
    for hyp in list(chosen) if len(chosen) > 1 else ():
        first, believed = hyp - hyp % 3, c.survive.copy()
        c.believe(hyp, -chosen[hyp])
        own = np.zeros(c.hood.n_hyps, dtype=np.bool_)
        own[first : first + 3] = True
        c.score_all(own)
        best = first + int(c.llr[first : first + 3].argmax())
        if c.llr[best] > c.llr[hyp] + ODDS_OF_ANOTHER:
            chosen = {h: u for h, u in chosen.items() if h != hyp} | {best: float(c.u[best])}
            c.believe(best, chosen[best])
            _refit(c, chosen, best)
        else:
            c.survive = believed
            c.score_all(own)
    return chosen


def _pick(hood: Neighbourhood, scores: Floats) -> int:
    """Return the best hypothesis; of equal ones the smallest part, and of its directions both."""
    top = scores.max()
    ties = np.flatnonzero(scores >= top - 1e-6 * max(top, 1.0))
    return int(min(ties, key=lambda h: (hood.sizes[h // 3], -(h % 3))))


def _refit(c: Counted, chosen: dict[int, float], new: int) -> None:
    """Fit again what shares rows with a new hypothesis, and score again what shares rows with any of these."""
    sharing = c.sharing([new])
    again = [h for h in chosen if sharing[h]]
    for _ in range(3 if len(again) > 1 else 0):
        for h in again:
            _fit_one(c, chosen, h)
    c.score_all(c.sharing(again))


def _fit_one(c: Counted, chosen: dict[int, float], hyp: int) -> None:
    row, times = c.hood.rows_of(hyp)
    u = np.zeros(1)
    alone = c.survive.copy()
    alone[row] = np.minimum(alone[row] * np.exp(chosen[hyp] * times), SURE)
    bounds = np.array([0, len(row)])
    score(bounds, row, times, np.ones(1, dtype=np.bool_), c.n, c.x, alone, u, np.zeros(1))
    c.survive = alone
    chosen[hyp] = float(u[0])
    c.believe(hyp, chosen[hyp])


def _smaller_instead(c: Counted, base: Floats, chosen: dict[int, float], hyp: int, least: float) -> dict[int, float]:
    """Try some smaller parts in place of a large one."""
    rest = {h: u for h, u in chosen.items() if h != hyp}
    around = c.sharing([hyp])
    _settle(c, base, rest, around)
    rest = _turned(c, rest)
    own = float(c.llr[hyp])
    small = np.where(around & (np.repeat(c.hood.sizes, 3) < c.hood.sizes[hyp // 3]), c.llr, 0.0)
    best = np.sort(small.reshape(-1, 3).max(axis=1))[-INSTEAD:].sum()
    if best < own:
        _settle(c, base, chosen, around)
        return chosen
    other = _grow(c, rest, max(least, ODDS_OF_ANOTHER), len(rest) + INSTEAD, barred=hyp // 3)
    better = _worth(c, base, other) > _worth(c, base, chosen)
    _settle(c, base, other if better else chosen)
    return other if better else chosen


def _wider_instead(c: Counted, base: Floats, chosen: dict[int, float]) -> dict[int, float]:
    """Try one wide part in place of two or more whose rows it has."""
    for wide in _wide_over(c.hood, chosen):
        held = _held(c.hood, chosen, wide)
        if len(held) < 2:
            continue
        rest = {h: u for h, u in chosen.items() if h not in held}
        _settle(c, base, rest, c.sharing([3 * wide + BOTH]))
        hyp = 3 * wide + _pick_direction(c.llr[3 * wide : 3 * wide + 3])[0]
        other = {**rest, hyp: float(c.u[hyp])}
        if _worth(c, base, other) > _worth(c, base, chosen):
            chosen = other
    return chosen


def _wide_over(hood: Neighbourhood, chosen: dict[int, float]) -> list[int]:
    """Return the parts that have a first row of two or more chosen ones: only these may hold them."""
    some = np.array([hood.rows_of(h)[0][0] for h in chosen], dtype=np.int32)
    out = []
    for wide in np.flatnonzero(hood.sizes > 1).tolist() if len(some) > 1 else []:
        mine = hood.rows_of(3 * wide + BOTH)[0]
        at = np.searchsorted(mine, some).clip(max=len(mine) - 1)
        if len(mine) and np.count_nonzero(mine[at] == some) > 1:
            out.append(wide)
    return out


def _held(hood: Neighbourhood, chosen: dict[int, float], wide: int) -> list[int]:
    mine = hood.rows_of(3 * wide + BOTH)[0]
    return [
        h for h in chosen
        if hood.sizes[h // 3] < hood.sizes[wide] and np.isin(hood.rows_of(h)[0], mine, assume_unique=True).all()
    ]  # fmt: skip


def _worth(c: Counted, base: Floats, chosen: dict[int, float]) -> float:
    """Return nats of a set of parts over nothing, less what each part has to earn."""
    _settle(c, base, chosen, np.zeros(c.hood.n_hyps, dtype=np.bool_))
    lossy = np.flatnonzero(c.x > 0)
    before, after = np.minimum(base[lossy], SURE), c.survive[lossy]
    gain = float((c.x[lossy] * (np.log1p(-after) - np.log1p(-before))).sum())
    cost = sum(u * float((t * (c.n - c.x)[r]).sum()) for h, u in chosen.items() for r, t in (c.hood.rows_of(h),))
    return gain - cost - ODDS_OF_ANOTHER * len(chosen)


def _weigh(c: Counted, base: Floats, chosen: dict[int, float], hyp: int) -> Suspect:
    """Weigh a part against others in its place, and its directions against each other."""
    around = c.sharing([hyp])
    _settle(c, base, {h: u for h, u in chosen.items() if h != hyp}, around)
    part = hyp // 3
    own = c.llr[3 * part : 3 * part + 3].copy()
    top = float(own.max())
    direction, directions = _pick_direction(own)
    others = np.where(around, c.llr, -np.inf)
    for h in chosen:
        others[3 * (h // 3) : 3 * (h // 3) + 3] = -np.inf
    close = np.flatnonzero(others > top - CLOSE)
    near = np.unique(close // 3)
    best = 3 * part + direction
    return Suspect(
        part=int(c.hood.parts[part]), hyp=best, direction=direction, directions=directions,
        u=float(c.u[best]), llr=float(own[direction]), margin=top - max(float(others.max(initial=0.0)), 0.0),
        rivals=tuple(int(c.hood.parts[p]) for p in near),
        twins=tuple(int(c.hood.parts[p]) for p in near if _same_rows(c.hood, best, p)),
        rival_hyps=tuple((int(c.hood.parts[h // 3]), int(h % 3)) for h in close),
    )  # fmt: skip


def _same_rows(hood: Neighbourhood, hyp: int, part: int) -> bool:
    mine = hood.rows_of(hyp)
    for h in range(3 * part, 3 * part + 3):
        other = hood.rows_of(h)
        if np.array_equal(mine[0], other[0]) and np.array_equal(mine[1], other[1]):
            return True
    return False


def _pick_direction(scores: Floats) -> tuple[int, tuple[int, ...]]:
    """Return the best of (up, down, both) scores and all that fit about as well; both where nothing tells."""
    top = float(scores.max())
    fits = tuple(int(d) for d in np.flatnonzero(scores > top - SAME_DIRECTION))
    return (BOTH if scores[BOTH] > top - 0.2 else int(scores.argmax())), fits


def rate_of(u: float) -> float:
    """Return the rate of a u."""
    return 1.0 if u >= U_MAX - 0.5 else float(-np.expm1(-u))
