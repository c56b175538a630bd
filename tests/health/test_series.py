"""Shapes of losses over ticks, as little scripts: losses of 100 probes a tick, oldest first."""

from __future__ import annotations

import numpy as np
import pytest

from railkeeper.health.series import SPELLS, STEADY, UNCLEAR, deep_spells, shape, spells

SCRIPTS = [
    ("0 0 0 0", UNCLEAR),
    ("0 0 20", UNCLEAR),
    ("0 0 20 50", UNCLEAR),
    ("0 0 20 50 48", STEADY),
    ("0 0 1 0 1 2 0 1", STEADY),
    ("0 40 100 100 30 0", UNCLEAR),
    ("0 40 100 60 0 0 0 0 40 100 60", SPELLS),
    ("30 70 30 70 30 70", SPELLS),
    ("0 10 100 90", UNCLEAR),
    ("0 5 5 5 5 5", STEADY),
    ("9 0 0 0 0 0 0 0", UNCLEAR),
]


@pytest.mark.parametrize(("script", "expected"), SCRIPTS)
def test_shape(script, expected):
    x = np.array(script.split(), dtype=float)
    assert shape(np.full(len(x), 100.0), x) == expected


def test_spells_need_quiet_between_them():
    n = np.full(6, 100.0)
    assert spells(n, np.array([0, 100, 100, 0, 100, 0.0])) == 2
    assert spells(n, np.array([0, 100, 50, 100, 40, 0.0])) == 1


def test_short_hiccups_are_no_deep_spells():
    n = np.full(7, 100.0)
    assert deep_spells(n, np.array([0, 30, 0, 0, 35, 0, 30.0])) == 0
    assert deep_spells(n, np.array([0, 60, 40, 0, 20, 80, 0.0])) == 2
