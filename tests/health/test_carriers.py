"""Which part the lost carriers belong to."""

from __future__ import annotations

import numpy as np
import pytest
from health_worlds import small_fabric

from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import parse_name
from railkeeper.health.carriers import cover_links, new_carriers, read_carriers
from railkeeper.health.parts import Parts
from railkeeper.telemetry.ports import DOWN, UNREAD, unread_ports

FABRIC = small_fabric()
PARTS = Parts(FABRIC)
LINK = 40


def reading(**ends):
    """Port states with all up, but for `lower`, `upper`, `lower_downs`, `upper_downs` of LINK."""
    p = unread_ports(FABRIC)
    for name in ("lower", "upper"):
        getattr(p, name)[:] = 1
        getattr(p, f"{name}_downs")[:] = 0
    for name, value in ends.items():
        getattr(p, name)[LINK] = value
    return p


def follow(*readings):
    """Return in which of the readings LINK was news."""
    c = new_carriers(FABRIC)
    return [bool(read_carriers(c, r, t)[LINK]) for t, r in enumerate(readings)], int(c.spells[:, LINK].max())


@pytest.mark.parametrize(
    ("script", "news", "spells"),
    [
        ([{}, {"lower": DOWN, "lower_downs": -1}, {"lower": DOWN, "lower_downs": -1}], [False, True, False], 1),
        ([{}, {"lower": DOWN, "lower_downs": 1}, {"lower_downs": 1}], [False, True, False], 1),
        ([{}, {"upper_downs": 1}, {"upper_downs": 1}], [False, True, False], 1),
        ([{}, {"upper_downs": 1}, {"upper_downs": 2}, {"upper_downs": 3}], [False, True, False, False], 3),
        ([{"upper_downs": 7}, {"upper_downs": 7}], [False, False], 0),
        ([{"upper_downs": 7}, {"upper_downs": 0}], [False, False], 0),
        ([{"lower": DOWN}, {"lower": DOWN}], [True, False], 1),
        ([{}, {"lower": UNREAD, "lower_downs": -1}, {"lower_downs": 3}], [False, False, False], 0),
    ],
    ids=["down", "down-and-up", "blip", "blips", "old-count", "count-reset", "down-at-start", "count-rose-unseen"],
)
def test_readings(script, news, spells):
    assert follow(*(reading(**ends) for ends in script)) == (news, spells)


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        (["p0/t0-1--p0/t1-2"], ["p0/t0-1--p0/t1-2"]),
        (["p0/t1-2"], ["p0/t1-2"]),
        (["p0/t0-1"], ["p0/t0-1"]),
        (["n3/nic0"], ["n3/nic0"]),
        (["p0/t0-1/optic0"], ["p0/t0-1/optic0"]),
        (["p0/t0-1/optic1", "n9/nic0"], ["p0/t0-1/optic1", "n9/nic0"]),
        (["p0/t1-1", "p1/t0-2--p1/t1-0"], ["p0/t1-1", "p1/t0-2--p1/t1-0"]),
        (["n3/nic0/p0", "n4/nic0/p1"], ["n3/nic0/p0--p0/t0-0", "n4/nic0/p1--p1/t0-1"]),
    ],
)
def test_fewest_parts_cover_the_links(down, expected):
    bad = np.zeros(FABRIC.n_links, dtype=bool)
    for name in down:
        bad[links_of(FABRIC, parse_name(FABRIC, name))] = True
    found = cover_links(PARTS.around(np.flatnonzero(bad)), bad, bad, np.ones(FABRIC.n_links, dtype=bool))
    assert sorted(PARTS.name(p) for p, _ in found) == sorted(expected)


def test_optic_of_all_ports_of_a_nic_carries_its_names():
    part = PARTS.of(parse_name(FABRIC, "n3/nic0/optic0"))
    assert PARTS.names(part) == ("n3/nic0", "n3", "n3/nic0/optic0")
