"""Keeps service levels from tick to tick: sums a minute's evidence, then moves objectives and alerts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railkeeper.health.slo.objectives import OK, Level, Slo, levels
from railkeeper.health.slo.scopes import kind_of
from railkeeper.health.slo.series import FINE_S, MINUTE_S, Series
from railkeeper.health.slo.slis import NAMES
from railkeeper.health.slo.usual import Usual, new_usual

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from railkeeper.health.slo.scopes import Scopes

    Floats = npt.NDArray[np.float64]


class SliRow(NamedTuple):
    """Amounts of one indicator in one scope over the minute, or a part of it, that ended at `t_s` (unix s)."""

    t_s: float
    sli: str
    scope: str
    good: float
    total: float


@dataclass
class SloState:
    """All that service levels remember; changed in place.

    - minute: number of the minute being gathered; sums: (indicators, scopes, 2) of it
    - states: (objective, scope) -> state at the last minute's end
    """

    series: Series
    usual: Usual
    minute: int = -1
    scopes: Scopes | None = None
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(NAMES), 0, 2)))
    states: dict[tuple[str, str], str] = field(default_factory=dict)


def new_slo_state(n_nodes: int, series: Series | None = None) -> SloState:
    """Return the state before the first tick, with what is known of the time before."""
    return SloState(series or Series(), new_usual(n_nodes))


def keep(
    state: SloState, scopes: Scopes, slos: tuple[Slo, ...], now_s: float, amounts: Mapping[str, Floats]
) -> tuple[tuple[SliRow, ...], tuple[Level, ...]]:
    """Take in a tick's amounts, (n_scopes, 2) by indicator.

    When a minute has ended, returns its rows, and the levels whose state has changed with it; else nothing, or the rows
    of jobs that have ended.
    """
    rows: tuple[SliRow, ...] = ()
    changed: tuple[Level, ...] = ()
    minute = int(now_s // MINUTE_S)
    if minute != state.minute:
        rows = flush(state)
        changed = _changed(state, slos) if state.scopes is not None else ()
        if minute < state.minute:
            state.series.set_back(minute * MINUTE_S)
        _begin_minute(state, minute)
    if state.scopes is not scopes:
        rows += _move(state, scopes, now_s)
    for name, sums in amounts.items():
        state.sums[NAMES.index(name)] += sums
    return rows, changed


def flush(state: SloState, now_s: float | None = None) -> tuple[SliRow, ...]:
    """Return the rows of what was gathered since the minute began, after they were added to the series.

    `now_s`: when the minute has not ended.
    """
    if state.scopes is None:
        return ()
    rows = _rows(state, range(len(state.scopes)), now_s)
    state.sums[:] = 0.0
    return rows


def _rows(state: SloState, scopes: Iterable[int], now_s: float | None = None) -> tuple[SliRow, ...]:
    assert state.scopes is not None
    numbers = np.fromiter(scopes, dtype=np.intp)
    found = state.sums[:, numbers]
    kinds, at = np.nonzero(found[:, :, 1] > 0)
    if not len(kinds):
        return ()
    names = state.scopes.names
    keys = [(NAMES[k], names[numbers[s]]) for k, s in zip(kinds.tolist(), at.tolist(), strict=True)]
    amounts = found[kinds, at]
    end = float((state.minute + 1) * MINUTE_S) if now_s is None else now_s
    state.series.add_all(keys, state.minute * MINUTE_S, amounts)
    return tuple(SliRow(end, *key, *row) for key, row in zip(keys, amounts.tolist(), strict=True))


def _begin_minute(state: SloState, minute: int) -> None:
    """Go on with a minute; each hour, forget the jobs that are long over."""
    if minute // 60 != state.minute // 60 and state.scopes is not None:
        here = set(state.scopes.names)
        quiet = state.series.totals(minute * MINUTE_S, FINE_S)[:, 1] <= 0
        over = {
            key
            for key, k in state.series.tracks.items()
            if kind_of(key[1]) == "job" and quiet[k] and key[1] not in here
        }
        state.series.forget(over)
    state.minute = minute


def _move(state: SloState, scopes: Scopes, now_s: float) -> tuple[SliRow, ...]:
    """Go on with other scopes; returns the rows of those that have ended, all other sums stay."""
    old = {} if state.scopes is None else {name: k for k, name in enumerate(state.scopes.names)}
    place = {name: k for k, name in enumerate(scopes.names)}
    rows = _rows(state, [k for name, k in old.items() if name not in place], now_s) if old else ()
    both = [name for name in place if name in old]
    sums = np.zeros((len(NAMES), len(scopes), 2))
    sums[:, [place[name] for name in both]] = state.sums[:, [old[name] for name in both]]
    state.scopes, state.sums = scopes, sums
    return rows


def _changed(state: SloState, slos: tuple[Slo, ...]) -> tuple[Level, ...]:
    assert state.scopes is not None
    found = levels(slos, state.series, state.minute * MINUTE_S, frozenset(state.scopes.names))
    news = tuple(x for x in found if state.states.get((x.slo.name, x.scope), OK) != x.state)
    state.states = {(x.slo.name, x.scope): x.state for x in found}
    return news
