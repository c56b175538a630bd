"""Ends: links by the state of both ends: who is down, who is switched off, and who has just come or gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.known import at
from railkeeper.health.detect.screen import above, below
from railkeeper.health.detect.sparse import union

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

HALF = 0.5


def link_of(entities: Entities, ids: Ids) -> Ids:
    """Return (m,) the lower of the two ends of each link: one name for both."""
    other = entities.other[ids]
    return np.where(other >= 0, np.minimum(ids, other), ids).astype(np.int32)


def low(view: View, name: str) -> Ids:
    """Return ascending ids at which a state is 0; empty where the frame lacks it."""
    state = view.gauge(name)
    return np.empty(0, dtype=np.int32) if state is None else below(state, HALF)


def switched_off(view: View, ids: Ids) -> npt.NDArray[np.bool_]:
    """Return (m,) True where either end of the link is switched off by its configuration."""
    other = view.entities.other[ids]
    return (at(view, "admin_up", ids) < HALF) | (at(view, "admin_up", other) < HALF)


@dataclass
class Carriers:
    """Ports that were down, and that were switched off, at their last sample."""

    down: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    off: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    begun: bool = False


@dataclass(frozen=True)
class Changes:
    """What happened to carriers in one tick, by port: `fell` (m,) went down `times` (m,); `rose` came back.

    Falls of links that are, or at the sample before were, switched off at either end are not in it.
    """

    fell: Ids
    times: npt.NDArray[np.int64]
    rose: Ids


def changes(carriers: Carriers, view: View) -> Changes:
    """Return what happened since the tick before: from counters of falls, else from states."""
    down, off = low(view, "oper_up"), low(view, "admin_up")
    was = carriers.down
    held = was[np.isnan(at(view, "oper_up", was))]
    fresh = np.setdiff1d(down, was) if carriers.begun else np.empty(0, dtype=np.int32)
    rose = was[at(view, "oper_up", was) > HALF]
    counted = _counted(view)
    fell = union(fresh, counted)
    times = np.maximum(_times(view, fell), np.isin(fell, fresh))
    meant = switched_off(view, fell) | _were_off(carriers, view, fell)
    _remember(carriers, view, union(down, held), off)
    flicked = np.setdiff1d(counted, down)  # down and back between two samples
    return Changes(fell[~meant], times[~meant], union(rose, flicked))


def _counted(view: View) -> Ids:
    falls = view.rate("link_downs")
    return np.empty(0, dtype=np.int32) if falls is None else above(falls, 0.0)


def _times(view: View, ids: Ids) -> npt.NDArray[np.int64]:
    counted = np.nan_to_num(at(view, "link_downs", ids).astype(np.float64) * view.rates.dt_s[ids])
    return np.rint(counted).astype(np.int64)


def _were_off(carriers: Carriers, view: View, ids: Ids) -> npt.NDArray[np.bool_]:
    return np.isin(ids, carriers.off) | np.isin(view.entities.other[ids], carriers.off)


def _remember(carriers: Carriers, view: View, down: Ids, off: Ids) -> None:
    silent = carriers.off[np.isnan(at(view, "admin_up", carriers.off))]
    carriers.down, carriers.off, carriers.begun = down, union(off, silent), True
