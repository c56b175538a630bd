"""A detector that raises is told, stops no other, and takes nothing back; and jobs as managers list them."""

from __future__ import annotations

import numpy as np
from synthetic_world import FIRST_TICK, TICK_S, make_fabric

from railkeeper.app.detecting import entities_of
from railkeeper.app.feed import JOBS_LAST_S, JobsOf
from railkeeper.app.inputs import TickInput
from railkeeper.app.pipeline import Setup, begin, step
from railkeeper.health.slo.scopes import Job
from railkeeper.telemetry.frame import ABSENT, Block, Frame
from railkeeper.telemetry.frame_wire import encode_frame
from railkeeper.telemetry.jobs import JobRecord, Listed, Workload

FABRIC = make_fabric()
PORTS = entities_of(FABRIC)["port"]
SETUP = Setup(FABRIC, "live", frame_s=1.0)
BROKEN = "error-rates"


def frame(number, t_s, *, unread=False):
    n = len(PORTS)
    counters = np.full((2, n), 1_000_000 * number, dtype=np.uint64)
    counters[1] = 0
    counters[1, 5] = 20_000 * number
    if unread:
        counters[:, 5] = ABSENT
    block = Block(PORTS, np.full(n, int(t_s * 1e9)), ("rx_packets", "rx_crc_errors"), np.full(2, 64, np.uint8),
                  counters, ("oper_up",), np.ones((1, n), np.float32))  # fmt: skip
    return encode_frame(Frame(t_s, {"port": block}))


def broken(*_):
    raise ZeroDivisionError("by nothing")


def test_a_detector_that_raises_is_told_once_and_takes_nothing_back():
    state, told = begin(SETUP), []
    for k in range(200):
        tick = FIRST_TICK + k
        if k == 140:
            seat = state.detecting.engine.seats[BROKEN]
            works, seat.detector.judge = seat.detector.judge, broken
        if k == 160:
            seat.detector.judge = works
        given = TickInput(tick, (), frame=frame(k // 2, (tick + 1) * TICK_S) if k % 2 else ())
        state, outcome = step(SETUP, state, given)
        findings = [e for e in outcome.events if e["type"] == "finding"]
        told += [(k, e["entity"], e["verdict"]) for e in findings if BROKEN in {e["entity"], e.get("detector")}]
    port = PORTS.name_of(5)
    own = [(k, verdict) for k, entity, verdict in told if entity == BROKEN]
    assert own == [(141, "error"), (161, "ok")]
    assert any(entity == port and k < 140 for k, entity, _ in told)
    assert not any(entity == port and verdict == "ok" for _, entity, verdict in told)


def test_what_can_be_seen_no_more_is_not_told_as_well():
    state, told = begin(SETUP), []
    for k in range(200):
        tick = FIRST_TICK + k
        unread = k > 100
        pieces = frame(k // 2, (tick + 1) * TICK_S, unread=unread) if k % 2 else ()
        state, outcome = step(SETUP, state, TickInput(tick, (), frame=pieces))
        findings = [e for e in outcome.events if e["type"] == "finding" and e.get("detector") == BROKEN]
        told += [(k > 100, e["entity"], e["verdict"]) for e in findings]
    assert {(entity, verdict) for _, entity, verdict in told} <= {(PORTS.name_of(5), v) for v in ("degraded", "failed")}
    assert (BROKEN, "port", 5, "rx_crc_errors") in state.detecting.said


class Lister:
    def __init__(self, t_s, *jobs):
        records = tuple(JobRecord(name, name, "u", state, state, nodes) for name, state, nodes in jobs)
        self.latest = None if t_s is None else Workload(round(t_s * 1e9), Listed((), 0), Listed(records, len(records)))


def test_jobs_that_run_on_nodes_of_the_fabric():
    listers = [
        Lister(1000.0, ("7", "running", ("n1", "n0", "elsewhere")), ("8", "pending", ()), ("9", "running", ("x",))),
        Lister(None),
    ]
    jobs = JobsOf({"n0": 0, "n1": 1}.get, listers)
    assert jobs.running(1010.0) == (Job("7", (0, 1)),)
    assert JobsOf({}.get, [Lister(None)]).running(1010.0) is None


def test_a_manager_that_is_silent_for_long_is_believed_no_more():
    jobs = JobsOf({"n0": 0}.get, [Lister(1000.0, ("7", "running", ("n0",)))])
    assert jobs.running(1000.0 + JOBS_LAST_S) == (Job("7", (0,)),)
    assert jobs.running(1001.0 + JOBS_LAST_S) == ()
