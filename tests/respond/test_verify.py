from __future__ import annotations

import pytest

from railkeeper.respond.verify import Outcome, Traffic, verify

CASES = [
    ("all gone", Traffic(10_000, 500), Traffic(10_000, 0), Outcome.HELPED),
    ("nearly all", Traffic(10_000, 500), Traffic(10_000, 25), Outcome.HELPED),
    ("down to what a healthy fabric shows", Traffic(10_000, 10), Traffic(10_000, 1), Outcome.HELPED),
    ("half", Traffic(10_000, 500), Traffic(10_000, 250), Outcome.PARTLY),
    ("the same", Traffic(10_000, 500, 900, 500), Traffic(10_000, 490), Outcome.NO_CHANGE),
    ("the same, and none of it was theirs", Traffic(10_000, 500, 900, 0), Traffic(10_000, 490), Outcome.NOTHING_LOST),
    ("twice", Traffic(10_000, 500), Traffic(10_000, 1000), Outcome.WORSE),
    ("new loss", Traffic(10_000, 0), Traffic(10_000, 100), Outcome.WORSE),
    ("none before, none after", Traffic(10_000, 0), Traffic(10_000, 1), Outcome.NOTHING_LOST),
    ("no traffic before", Traffic(0, 0), Traffic(10_000, 0), Outcome.NO_DATA),
    ("no traffic after", Traffic(10_000, 500), Traffic(10, 0), Outcome.NO_DATA),
]


@pytest.mark.parametrize(("before", "after", "outcome"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_outcomes(before, after, outcome):
    assert outcome is verify(before, after).outcome


def test_packets_still_on_denied_links_are_named():
    found = verify(Traffic(1000, 50, 250, 50), Traffic(1000, 0, 7, 0))
    assert found.still_through == 7
    assert "7 packets still crossed" in found.reason


def test_traffic_adds_up():
    assert Traffic(3, 2, 1, 1) == Traffic(1, 1, 0, 0) + Traffic(2, 1, 1, 1)
    assert Traffic().loss is None
