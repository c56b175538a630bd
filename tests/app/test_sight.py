"""A link that no probe crosses is not taken for seen."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_world import SynthWorld, make_fabric

from railkeeper.app.sight import Sight
from railkeeper.probe.join import join_reports

FABRIC = make_fabric()


@pytest.fixture
def stats():
    return join_reports(FABRIC, SynthWorld(FABRIC).next_tick().reports).stats


def test_all_links_of_a_healthy_fabric_are_seen(stats):
    sight = Sight(FABRIC, 0.5)

    assert [sight.look(t, stats) for t in range(60)] == [0] * 60


def test_what_is_no_longer_crossed_is_unseen_after_ten_seconds(stats):
    sight = Sight(FABRIC, 0.5)
    sight.look(0, stats)
    left = stats.take(stats.paths.plane == 0)
    unseen = [sight.look(t, left) for t in range(1, 30)]

    assert unseen == [0] * 19 + [FABRIC.n_links // 2] * 10
    assert sight.look(30, stats) == 0


def test_probes_that_were_not_sent_see_nothing(stats):
    sight = Sight(FABRIC, 0.5)
    sight.look(0, stats)
    stats.sent[:] = 0

    assert sight.look(100, stats) == FABRIC.n_links


def test_a_clock_that_was_set_back_makes_nothing_fresh_for_long(stats):
    sight = Sight(FABRIC, 0.5)
    sight.look(1000, stats)
    nothing = stats.take(np.zeros(0, dtype=np.int64))

    assert sight.look(10, nothing) == 0
    assert sight.look(30, nothing) == FABRIC.n_links
