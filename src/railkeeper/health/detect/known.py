"""Known: which entities a detector has data of in this tick. Masks are made once a tick and shared by all detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.finding import V_NO_DATA

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.detector import About
    from railkeeper.health.detect.view import View

    Mask = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float32]
    Ids = npt.NDArray[np.int32]


def settled(about: About, parameters: dict[str, float]) -> dict[str, float]:
    """Return all parameters of a detector: those given, the rest by default."""
    return {name: default for name, (default, _, _) in about.parameters.items()} | parameters


def column(view: View, name: str) -> Floats | None:
    """Return (n,) of a counter's rate or of a gauge, whichever the frame has under that name; else None."""
    found = view.rate(name)
    return view.gauge(name) if found is None else found


def at(view: View, name: str, ids: Ids) -> Floats:
    """Return (m,) values of a column at some entities; NaN where unknown, where the frame lacks it, and for id -1."""
    values = column(view, name)
    if values is None:
        return np.full(len(ids), np.nan, dtype=np.float32)
    return np.where(ids >= 0, values[ids], np.float32(np.nan))


def unread(view: View, names: tuple[str, ...]) -> Mask:
    """Return (n,) True where not one of these columns was read; all True where the frame has none of them."""
    place = ("unread", names)
    if place not in view._cache:  # noqa: SLF001 - the cache is the view's, for helpers
        view._cache[place] = _unread(view, names)  # noqa: SLF001
    found: Mask = view._cache[place]  # type: ignore[assignment]  # noqa: SLF001
    return found


def _unread(view: View, names: tuple[str, ...]) -> Mask:
    out: Mask | None = None
    for name in names:
        values = column(view, name)
        if values is not None:
            nan = np.isnan(values)
            out = nan if out is None else np.logical_and(out, nan, out=out)
    return np.ones(len(view.entities), dtype=np.bool_) if out is None else out


def columns_of(view: View, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of these signals that the frame has, parts included."""
    plain = (n for n in names if column(view, n) is not None)
    return (*plain, *(c for n in names for c in view.parts(n)))


def first_verdicts(blind: Mask) -> npt.NDArray[np.uint8]:
    """Return (n,) verdicts before anything is found: no data where blind, else ok."""
    verdicts: npt.NDArray[np.uint8] = np.multiply(blind, V_NO_DATA, dtype=np.uint8)
    return verdicts
