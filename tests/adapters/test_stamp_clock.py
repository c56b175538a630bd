"""A switch's clock in ours: intervals hold, the offset settles, a new start is seen."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.adapters.sonic_redis_clock import StampClock

S = 1_000_000_000
UNIX = 1_796_000_000 * S


def told(clock: StampClock, stamp: int, read_ns: int, group: str = "PORT") -> int:
    clock.learn([(group, stamp, read_ns)])
    return clock.unix_ns(("oid", group), stamp)


@settings(max_examples=100, deadline=None)
@given(delays_s=st.lists(st.floats(0, 1.0), min_size=3, max_size=60), boot_s=st.integers(0, 10**7))
def test_intervals_are_those_of_the_switch_however_late_it_is_read(delays_s, boot_s):
    clock = StampClock()
    stamps = [(boot_s + 10 * n) * S for n in range(len(delays_s))]
    times = [told(clock, stamp, stamp + UNIX + int(d * S)) for stamp, d in zip(stamps, delays_s, strict=True)]

    assert all(abs((b - a) / S - 10) <= 0.11 for a, b in pairwise(times))
    true = [stamp + UNIX for stamp in stamps]
    assert all(0 <= t - u <= max(delays_s) * S + 1 for t, u in zip(times, true, strict=True))


def test_the_offset_settles_on_the_shortest_way():
    clock = StampClock()
    for n in range(400):
        t_ns = told(clock, n * S, n * S + UNIX + (S if n == 0 else 50_000_000))

    assert t_ns - (399 * S + UNIX) == 50_000_000


def test_a_drift_is_followed():
    clock = StampClock()
    for n in range(5000):  # the switch's clock runs 20 ppm slow: after 5,000 s it is 0.1 s behind
        stamp = int(n * S * (1 - 20e-6))
        t_ns = told(clock, stamp, n * S + UNIX + 1_000_000)

    assert abs(t_ns - (4999 * S + UNIX)) < 40_000_000


def test_a_stamp_once_told_stays_and_an_old_one_spoils_nothing():
    clock = StampClock()
    first = told(clock, 100 * S, 100 * S + UNIX + S)
    # A group that has been switched off for an hour still shows its last stamp.
    clock.learn([("QUEUE", 0, 101 * S + UNIX), ("PORT", 101 * S, 101 * S + UNIX)])

    assert clock.unix_ns(("oid", "PORT"), 100 * S) == first
    assert abs(clock.unix_ns(("queue", "QUEUE"), 0) - UNIX) <= S
    assert abs(clock.unix_ns(("oid", "PORT"), 101 * S) - (101 * S + UNIX)) <= S


def test_a_switch_that_starts_again():
    clock = StampClock()
    told(clock, 10**6 * S, UNIX + 10**6 * S)
    t_ns = told(clock, 30 * S, UNIX + 10**6 * S + 100 * S)

    assert t_ns == UNIX + 10**6 * S + 100 * S


def test_stamps_that_stood_still_at_first_put_nothing_into_the_future():
    clock = StampClock()
    told(clock, 1000 * S, 1600 * S + UNIX)  # counters were off for ten minutes

    assert told(clock, 1610 * S, 1610 * S + UNIX + S) == 1610 * S + UNIX + S
