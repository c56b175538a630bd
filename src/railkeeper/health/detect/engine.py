"""Engine: one frame in, what all detectors say of all entities out.

Pure: the same frames in the same order give the same answers, bit for bit. A detector that fails says "error" of all
its entities for that tick; it stops no other, and nothing of it counts as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.health.detect.finding import V_ERROR, VERDICTS, Judged
from railkeeper.health.detect.view import View
from railkeeper.telemetry import rates
from railkeeper.telemetry.frame import NO_TIME, Block, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from railkeeper.health.detect.detector import Detector
    from railkeeper.telemetry.entities import Entities

ENTRY_POINTS = "railkeeper.detectors"
# A sample may come late by so many ticks before its interval is a gap.
GAP_TICKS = 2.5
# What failed so often in a row has a state that is of no more use.
FRESH_AFTER = 3


@dataclass
class Seat:
    """One detector over the entities of one kind: its state, and how often in a row it failed."""

    detector: Detector
    kind: str
    parameters: dict[str, float]
    state: Any
    failed: int = 0


@dataclass
class EngineState:
    """Everything that goes from tick to tick; `seats` by the key of their answers."""

    tick_s: float
    entities: dict[str, Entities]
    rates: dict[str, rates.RatesState]
    seats: dict[str, Seat] = field(default_factory=dict)


def detectors_found() -> list[Detector]:
    """Return one of each detector that is installed, ours and others', by name of their entry points."""
    found: list[Detector] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda e: e.name):
        found.append(entry.load()())
    return found


def new(
    detectors: Iterable[Detector],
    entities_by_kind: Mapping[str, Entities],
    parameters: Mapping[str, Mapping[str, float]] | None = None,
    *,
    tick_s: float = 1.0,
) -> EngineState:
    """Return the engine before its first tick.

    - parameters: detector -> parameter -> value, instead of the defaults
    - tick_s: nominal seconds from tick to tick

    The answers of a detector of one kind of entity have its name as their key, of several kinds `NAME/KIND`. Kinds
    that are not in `entities_by_kind` are not judged. Raises InputError for a name in `parameters` that nothing has.
    """
    given = parameters or {}
    every = sorted(detectors, key=lambda d: d.about.name)
    _check_names(every, given)
    config = rates.RatesConfig(gap_s=GAP_TICKS * tick_s)
    state = EngineState(
        tick_s, dict(entities_by_kind), {kind: rates.new(len(e), config) for kind, e in entities_by_kind.items()}
    )
    for detector in every:
        about = detector.about
        for kind in (kind for kind in about.kinds if kind in state.entities):
            values = {name: default for name, (default, _, _) in about.parameters.items()} | dict(
                given.get(about.name, {})
            )
            key = about.name if len(about.kinds) == 1 else f"{about.name}/{kind}"
            state.seats[key] = Seat(detector, kind, values, detector.start(state.entities[kind], dict(values)))
    return state


def _check_names(detectors: list[Detector], given: Mapping[str, Mapping[str, float]]) -> None:
    names = [d.about.name for d in detectors]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError("detectors", f"two have the same name: {', '.join(twice)}", "uninstall one of them")
    known = {d.about.name: d.about.parameters for d in detectors}
    for name, values in given.items():
        if name not in known:
            raise InputError(f"detectors.{name}", "no such detector", f"one of: {', '.join(sorted(known))}")
        for parameter in values:
            if parameter not in known[name]:
                right = ", ".join(sorted(known[name])) or "it has none"
                raise InputError(f"detectors.{name}.{parameter}", "no such parameter", right)


def tick(state: EngineState, frame: Frame) -> tuple[EngineState, dict[str, Judged]]:
    """Take in one frame; return the state (changed in place) and what each detector says.

    Kinds of which the frame has no block are judged on an empty one: no data. Raises ValueError for a block over
    other entities than those that the engine was made for.
    """
    views: dict[str, View] = {}
    for kind in state.entities:
        views[kind] = _view(state, frame, kind, views)
    return state, {key: _judge(seat, views[seat.kind]) for key, seat in state.seats.items()}


def _view(state: EngineState, frame: Frame, kind: str, beside: Mapping[str, View]) -> View:
    entities = state.entities[kind]
    block = frame.blocks.get(kind) or _nothing(entities)
    if len(block.t_ns) != len(entities):
        raise ValueError(f"{kind}: the frame has {len(block.t_ns)} entities, the engine {len(entities)}")
    return View(frame.t_s, state.tick_s, block, rates.rates_of(state.rates[kind], block), beside)


def _nothing(entities: Entities) -> Block:
    n = len(entities)
    return Block(
        entities, np.full(n, NO_TIME), (), np.empty(0, dtype=np.uint8), np.empty((0, n), dtype=np.uint64),
        (), np.empty((0, n), dtype=np.float32),
    )  # fmt: skip


def _judge(seat: Seat, view: View) -> Judged:
    try:
        seat.state, judged = seat.detector.judge(seat.state, view)
        _check(judged, len(view.entities))
    except Exception as error:  # noqa: BLE001 - whatever a detector does wrong, the others go on
        return _failed(seat, view, f"{type(error).__name__}: {error}")
    seat.failed = 0
    return judged


def _check(judged: Judged, n: int) -> None:
    verdicts = judged.verdicts
    if verdicts.shape != (n,) or verdicts.dtype != np.uint8:
        raise ValueError(f"verdicts must be uint8 of shape ({n},), they are {verdicts.dtype} of {verdicts.shape}")
    if n and int(verdicts.max()) >= len(VERDICTS):
        raise ValueError(f"verdict {int(verdicts.max())} does not exist")


def _failed(seat: Seat, view: View, text: str) -> Judged:
    """Return errors for all; after several in a row the detector begins anew."""
    seat.failed += 1
    if seat.failed % FRESH_AFTER == 0:
        try:
            seat.state = seat.detector.start(view.entities, dict(seat.parameters))
        except Exception as error:  # noqa: BLE001 - as above
            text = f"{text}; can't begin anew: {type(error).__name__}: {error}"
    return Judged((), np.full(len(view.entities), V_ERROR, dtype=np.uint8), error=text)
