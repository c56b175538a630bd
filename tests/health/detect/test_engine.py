"""The engine: all detectors over a frame; one that fails stops no other and is never health."""

from __future__ import annotations

import numpy as np
import pytest

from railkeeper.base.errors import InputError
from railkeeper.health.detect import engine
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.finding import V_DEGRADED, V_ERROR, V_NO_DATA, V_OK, Finding, Judged
from railkeeper.telemetry.entities import Entities
from railkeeper.telemetry.frame import Block, Frame


def entities(kind, n):
    zeros = np.zeros(n, dtype=np.int32)
    return Entities(
        kind=kind, domain=zeros.astype(np.int16), role=zeros.astype(np.int8), owner=zeros, other=zeros,
        group=zeros.astype(np.int16), n_groups=1, name_of=str, id_of=int,
    )  # fmt: skip


def frame(t_s, counts, kind="port"):
    counts = np.atleast_1d(np.asarray(counts, dtype=np.uint64))
    n = len(counts)
    block = Block(
        entities(kind, n), np.full(n, int(t_s * 1e9)), ("rx_errors",), np.array([64], dtype=np.uint8),
        counts[None], (), np.empty((0, n), dtype=np.float32),
    )  # fmt: skip
    return Frame(t_s, {kind: block})


class Over:
    """Rate above a limit; notes when it was started."""

    def __init__(self, name="over", kinds=("port",)):
        self.about = About(name, "", kinds, ("rx_errors",), (), ("limit",), {"limit": (10.0, "1/s", "")})
        self.started = []

    def start(self, entities, parameters):
        self.started.append((entities.kind, parameters))
        return parameters["limit"]

    def judge(self, state, view):
        rate = view.rate("rx_errors")
        n = len(view.entities)
        if rate is None:
            return state, Judged((), np.full(n, V_NO_DATA, dtype=np.uint8))
        verdicts = np.where(np.isnan(rate), V_NO_DATA, np.where(rate > state, V_DEGRADED, V_OK)).astype(np.uint8)
        found = tuple(
            Finding(
                self.about.name,
                "port",
                int(i),
                "degraded",
                "rx_errors",
                float(rate[i]),
                state,
                "1/s",
                "limit",
                view.now_s,
                1.0,
            )
            for i in np.flatnonzero(rate > state)
        )
        return state, Judged(found, verdicts)


class Broken(Over):
    def __init__(self, answer):
        super().__init__("broken")
        self.answer = answer

    def judge(self, state, view):  # noqa: ARG002 - as detectors are called
        return state, self.answer()


def test_detectors_judge_rates_of_real_intervals():
    state = engine.new([Over()], {"port": entities("port", 2)})
    state, said = engine.tick(state, frame(100.0, [0, 0]))
    assert said["over"].verdicts.tolist() == [V_NO_DATA, V_NO_DATA]

    state, said = engine.tick(state, frame(102.0, [18, 22]))
    assert said["over"].verdicts.tolist() == [V_OK, V_DEGRADED]
    assert said["over"].findings[0].value == 11
    assert said["over"].findings[0].since_s == 102.0


def test_parameters_replace_defaults_and_wrong_names_are_told():
    kinds, over = {"port": entities("port", 1)}, Over()
    engine.new([over], kinds, {"over": {"limit": 3.0}})
    assert over.started == [("port", {"limit": 3.0})]

    with pytest.raises(InputError, match="no such detector"):
        engine.new([over], kinds, {"ovr": {}})
    with pytest.raises(InputError, match="no such parameter"):
        engine.new([over], kinds, {"over": {"limt": 3.0}})
    with pytest.raises(InputError, match="same name"):
        engine.new([over, Over()], kinds)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: None, "AttributeError"),
        (lambda: Judged((), np.zeros(7, dtype=np.uint8)), "must be uint8 of shape (2,)"),
        (lambda: Judged((), np.zeros(2)), "must be uint8"),
        (lambda: Judged((), np.full(2, 99, dtype=np.uint8)), "verdict 99"),
    ],
)
def test_a_detector_that_fails_says_so_and_stops_no_other(answer, text):
    state = engine.new([Broken(answer), Over()], {"port": entities("port", 2)})
    engine.tick(state, frame(0.0, [0, 0]))
    _, said = engine.tick(state, frame(1.0, [0, 50]))

    assert said["broken"].verdicts.tolist() == [V_ERROR, V_ERROR]
    assert text in said["broken"].error
    assert said["broken"].findings == ()
    assert said["over"].verdicts.tolist() == [V_OK, V_DEGRADED]


def test_a_detector_that_fails_again_and_again_begins_anew():
    broken = Broken(lambda: 1 / 0)
    state = engine.new([broken], {"port": entities("port", 1)})
    for tick in range(7):
        engine.tick(state, frame(float(tick), [0]))

    assert len(broken.started) == 1 + 2


def test_a_kind_without_a_block_has_no_data():
    state = engine.new([Over(kinds=("port", "nic"))], {"port": entities("port", 1), "nic": entities("nic", 3)})
    engine.tick(state, frame(0.0, [0]))
    _, said = engine.tick(state, frame(1.0, [0]))

    assert said["over/port"].verdicts.tolist() == [V_OK]
    assert said["over/nic"].verdicts.tolist() == [V_NO_DATA] * 3


def test_detectors_see_all_kinds_of_the_tick():
    seen = []
    broken = Broken(None)
    broken.judge = lambda _, view: seen.append({k: len(v.entities) for k, v in view.beside.items()})
    engine.tick(engine.new([broken], {"port": entities("port", 1), "nic": entities("nic", 3)}), frame(0.0, [0]))

    assert seen == [{"port": 1, "nic": 3}]


def test_kinds_that_are_not_there_are_not_judged():
    _, said = engine.tick(engine.new([Over(kinds=("nic",))], {"port": entities("port", 1)}), frame(0.0, [0]))
    assert said == {}


def test_a_frame_over_other_entities_is_refused():
    state = engine.new([Over()], {"port": entities("port", 2)})
    with pytest.raises(ValueError, match="the frame has 3 entities, the engine 2"):
        engine.tick(state, frame(0.0, [0, 0, 0]))


def test_detectors_are_found_by_their_entry_points():
    found = engine.detectors_found()
    assert len({d.about.name for d in found}) == len(found)
    engine.new(found, {"port": entities("port", 1)})
