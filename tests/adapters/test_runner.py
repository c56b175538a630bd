"""The runner: nobody waits for the dead or the slow, memory is bounded, every target's state is known, it ends cleanly."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from railkeeper.adapters.backlog import Backlog
from railkeeper.adapters.lanes import Lanes, LaneSizes, Places
from railkeeper.adapters.pauses import Backoff, chance_of, next_due_s, spread
from railkeeper.adapters.runner import Runner, RunnerSettings
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.reading import Reading


def reading(target, number=0, values=1):
    return Reading("s", target, "d", {}, number, {f"v{k}": number for k in range(values)})


class Fake:
    """A target whose polls are what a function does; it says how often it was asked."""

    def __init__(self, name, act=None, *, interval_s=0.05, timeout_s=0.05, source="s") -> None:
        self.source, self.name = source, name
        self.interval_s, self.timeout_s = interval_s, timeout_s
        self.act, self.asked, self.closed = act, [], False

    async def poll(self):
        self.asked.append(time.monotonic())
        if self.act:
            await self.act()
        return [reading(self.name, len(self.asked))]

    async def close(self):
        self.closed = True


async def hang():
    await asyncio.sleep(3600)


async def refuse():
    raise OutsideError("nobody there", retry=True)


async def break_down():
    raise ZeroDivisionError("a bug")


def until(found, limit_s=20.0):
    deadline = time.monotonic() + limit_s
    while not (value := found()):
        assert time.monotonic() < deadline, "did not come in time"
        time.sleep(0.01)
    return value


def test_every_target_is_asked_and_its_state_is_known():
    targets = [Fake("well"), Fake("dead", refuse), Fake("hangs", hang), Fake("bug", break_down)]
    runner = Runner(targets)
    assert [s.state for s in runner.statuses()] == ["waiting"] * 4
    with runner:
        until(lambda: {s.state for s in runner.statuses()} == {"ok", "failing"})
        well, dead, hangs, bug = runner.statuses()
        readings = until(runner.drain)

    assert (well.state, well.failures, well.error) == ("ok", 0, "")
    assert abs(well.last_ok_ns - time.time_ns()) < 60e9
    assert (dead.state, dead.error, dead.last_ok_ns) == ("failing", "nobody there", None)
    assert dead.next_try_ns is not None
    assert hangs.error == "no whole answer within 0.05 s"
    assert bug.error == "error in the adapter: ZeroDivisionError: a bug"
    assert {r.target for r in readings} == {"well"}
    assert [s.state for s in runner.statuses()] == ["closed"] * 4
    assert all(target.closed for target in targets)


def test_slow_targets_do_not_hold_what_quick_ones_need():
    """Ten never answer, and there are four places in all: the well ones are asked all the same."""
    lanes = LaneSizes(quick=2, slow=2, patience_s=0.02)
    hanging = [Fake(f"h{k}", hang, interval_s=0.1, timeout_s=3600) for k in range(10)]
    well = [Fake(f"w{k}", interval_s=0.1) for k in range(10)]
    with Runner([*hanging, *well], settings=RunnerSettings(lanes=lanes)) as runner:
        until(lambda: min(len(h.asked) for h in hanging) == 1)
        asked = max(len(w.asked) for w in well)
        until(lambda: min(len(w.asked) for w in well) >= asked + 5)
        assert {s.state for s in runner.statuses()[10:]} == {"ok"}


def test_a_poll_that_can_not_be_ended_holds_up_only_itself():
    ends = threading.Event()

    async def stubborn():
        while not ends.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    well, bad = Fake("well"), Fake("bad", stubborn)
    with Runner([bad, well], settings=RunnerSettings(lanes=LaneSizes(quick=1, slow=1, patience_s=0.01))) as runner:
        until(lambda: "still has not ended" in runner.statuses()[0].error)
        asked = len(well.asked)
        until(lambda: len(well.asked) > asked + 3)
        assert len(bad.asked) == 1
        ends.set()
        until(lambda: runner.statuses()[0].state == "ok" or len(bad.asked) > 1)


def test_pauses_grow_and_the_beat_returns():
    state = {"fails": 4}

    async def flaky():
        if state["fails"]:
            state["fails"] -= 1
            raise OutsideError("not yet")

    target = Fake("t", flaky, interval_s=0.04)
    with Runner([target]) as runner:
        until(lambda: runner.statuses()[0].state == "ok")
        until(lambda: len(target.asked) >= 8)
        assert runner.statuses()[0].failures == 0
    pauses = [b - a for a, b in zip(target.asked, target.asked[1:], strict=False)]

    assert pauses[2] > 0.04 * 4 * 0.75  # the third pause is four intervals, less jitter
    assert pauses[3] > 0.04 * 8 * 0.75


def test_a_stream_is_followed_again_when_it_ends():
    class Stream:
        source, name = "s", "stream"
        runs = 0

        async def run(self, emit):
            type(self).runs += 1
            emit([reading("stream", self.runs)])
            if self.runs < 3:
                raise OutsideError("reset by peer")
            await hang()

        async def close(self):
            pass

    stream = Stream()
    with Runner([], [stream]) as runner:
        got = []
        until(lambda: got.extend(runner.drain()) or len(got) == 3)
        status = until(lambda: [s for s in runner.statuses() if s.state == "ok"])[0]

    assert [r.t_ns for r in got] == [1, 2, 3]
    assert status.failures == 0
    assert status.next_try_ns is None


def test_what_has_no_room_is_counted_oldest_first():
    target = Fake("t", interval_s=0.01)
    with Runner([target], settings=RunnerSettings(room_values=3)) as runner:
        until(lambda: runner.statuses()[0].dropped > 5)
        kept, asked = runner.drain(), len(target.asked)

    assert len(kept) <= 3
    assert kept[-1].t_ns >= asked - 1
    assert [r.t_ns for r in kept] == list(range(kept[0].t_ns, kept[-1].t_ns + 1))


def test_a_target_that_is_there_twice_is_refused():
    with pytest.raises(InputError, match="target t is there twice"):
        Runner([Fake("t"), Fake("t")])
    Runner([Fake("t"), Fake("t", source="other")])


def test_targets_that_will_not_close_are_told():
    class Sticky(Fake):
        async def close(self):
            raise OSError("busy")

    runner = Runner([Sticky("sticky"), Fake("fine")])
    runner.start()
    assert runner.stop() == ("sticky",)
    assert runner.stop() == ("sticky",)


def test_a_runner_that_broke_says_so(monkeypatch):
    monkeypatch.setattr("railkeeper.adapters.asking.Asked._once", None)
    with Runner([Fake("t", interval_s=0.01)]) as runner, pytest.raises(OutsideError, match="has broken"):
        until(lambda: runner.drain() or False)


def test_no_thread_is_left():
    before = threading.active_count()
    with Runner([Fake(f"t{k}", hang if k % 2 else None) for k in range(50)]) as runner:
        until(runner.drain)

    assert threading.active_count() == before


def test_the_backlog_shares_its_room():
    backlog = Backlog(10, room_values=100, total_values=200)
    for number in range(30):
        backlog.put(3, [reading("t", number, values=2)])
    backlog.put(4, [reading("big", values=500)])

    kept = backlog.take()
    assert backlog.room_values == 20
    assert [r.t_ns for r in kept if r.target == "t"] == list(range(20, 30))
    assert backlog.dropped(3) == 20
    assert [r.target for r in kept].count("big") == 1  # the newest batch is kept, however large
    assert backlog.take() == []


def test_pauses_are_the_same_in_every_run():
    backoff = Backoff(first_s=1, cap_s=10)

    def pauses(seed):
        chance = chance_of(seed, "s", "t")
        return [backoff.pause_s(n, chance) for n in range(1, 40)]

    assert pauses(7) == pauses(7) != pauses(8)
    for n, pause in enumerate(pauses(7), start=1):
        assert 0.75 * min(2 ** (n - 1), 10) <= pause <= 1.25 * min(2 ** (n - 1), 10)
    assert (
        75 <= Backoff(first_s=100, cap_s=10).pause_s(5, random.Random(0)) <= 125
    )  # never more often than the interval


def test_starts_are_spread_over_the_interval():
    offsets = spread([10.0] * 100 + [1.0] * 4, seed=1)

    assert sorted(offsets[:100]) == [k / 10 for k in range(100)]
    assert sorted(offsets[100:]) == [0, 0.25, 0.5, 0.75]
    assert offsets == spread([10.0] * 100 + [1.0] * 4, seed=1) != spread([10.0] * 100 + [1.0] * 4, seed=2)


def test_missed_moments_are_left_out():
    assert next_due_s(5.0, 10.0, 5.1) == 15.0
    assert next_due_s(5.0, 10.0, 37.0) == 45.0
    assert next_due_s(5.0, 10.0, 4.9) == 15.0


def test_a_place_that_is_no_longer_wanted_goes_to_the_next():
    async def main():
        places = Places(1)
        await places.take()
        first, second = asyncio.create_task(places.take()), asyncio.create_task(places.take())
        await asyncio.sleep(0)
        places.give()  # the first gets it, and is ended before it can run
        first.cancel()
        await asyncio.wait_for(second, 5)
        assert places.held == 1

    asyncio.run(main())


def test_a_demoted_poll_frees_its_quick_place_at_once():
    async def main():
        lanes = Lanes(LaneSizes(quick=1, slow=0))
        await lanes.enter(slow=False)
        lanes.demote()
        await asyncio.wait_for(lanes.enter(slow=False), 5)
        assert (lanes.quick.held, lanes.slow.held) == (1, 1)
        lanes.leave(slow=True)
        lanes.leave(slow=False)
        assert (lanes.quick.held, lanes.slow.held) == (0, 0)

    asyncio.run(main())
