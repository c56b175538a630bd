"""Keeps service levels from tick to tick: sums a minute's evidence, then moves objectives and alerts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railkeeper.health.slo.objectives import Level, Slo, levels
from railkeeper.health.slo.series import MINUTE_S, Series
from railkeeper.health.slo.slis import NAMES
from railkeeper.health.slo.usual import Usual, new_usual

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from railkeeper.health.slo.scopes import Scopes


class SliRow(NamedTuple):
    """Amounts of one indicator in one scope over the minute that ended at `t_s` (unix s)."""

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
    state: SloState, scopes: Scopes, slos: tuple[Slo, ...], now_s: float, amounts: Mapping[str, npt.NDArray[np.float64]]
) -> tuple[tuple[SliRow, ...], tuple[Level, ...]]:
    """Take in a tick's amounts, (n_scopes, 2) by indicator.

    When a minute has ended, returns its rows, and the levels whose state has changed with it; else nothing.
    """
    rows: tuple[SliRow, ...] = ()
    changed: tuple[Level, ...] = ()
    minute = int(now_s // MINUTE_S)
    if minute != state.minute or state.scopes != scopes:
        rows = _close(state)
        if rows and minute != state.minute:
            changed = _changed(state, slos, (state.minute + 1) * MINUTE_S)
        state.minute, state.scopes = minute, scopes
        state.sums = np.zeros((len(NAMES), len(scopes), 2))
    for name, sums in amounts.items():
        state.sums[NAMES.index(name)] += sums
    return rows, changed


def _close(state: SloState) -> tuple[SliRow, ...]:
    """Return the rows of what was gathered, after they were added to the series."""
    if state.scopes is None:
        return ()
    end = float((state.minute + 1) * MINUTE_S)
    rows = []
    for k, s in np.argwhere(state.sums[:, :, 1] > 0):
        good, total = state.sums[k, s]
        row = SliRow(end, NAMES[k], state.scopes.names[s], float(good), float(total))
        # A minute's end belongs to the minute itself.
        state.series.add(row.sli, row.scope, end - 1, row.good, row.total)
        rows.append(row)
    return tuple(rows)


def _changed(state: SloState, slos: tuple[Slo, ...], now_s: float) -> tuple[Level, ...]:
    found = levels(slos, state.series, now_s - 1)
    news = tuple(x for x in found if state.states.get((x.slo.name, x.scope), "ok") != x.state)
    state.states = {(x.slo.name, x.scope): x.state for x in found}
    return news
