"""Fixtures of tests that speak to a keeper's hub."""

from __future__ import annotations

import pytest
from hub_lines import Line
from synthetic_world import SynthWorld, make_fabric


@pytest.fixture
def line():
    return Line()


@pytest.fixture
def reports():
    """Reports of 60 ticks, by tick of the test."""
    world = SynthWorld(make_fabric())
    return [world.next_tick().reports for _ in range(60)]
