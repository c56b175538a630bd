"""Parts by number, rows by link, windows of counts: each against the plain way to say the same."""

from __future__ import annotations

import numpy as np
import pytest
from health_worlds import small_fabric
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import Component, Kind
from railkeeper.fabric.paths import join_paths, links_crossed
from railkeeper.fabric.spec import parse_spec
from railkeeper.health.fleet.plan_index import index_paths, with_more
from railkeeper.health.fleet.space import PartSpace
from railkeeper.health.fleet.window_kernels import TICKS
from railkeeper.health.fleet.windows import NOW, new_exposure, new_wrong, ticks_held
from railkeeper.probe.plan_all import all_paths

SHAPES = (
    "planes = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 4",
    (
        "planes = 3\nt0_per_plane = 5\nt1_per_plane = 7\nnics_per_t0 = 4\nnics_per_node = 2\nrails = 2\n"
        "[optics]\nnic_ports_per_optic = 2\nt0_ports_per_optic = 4"
    ),
    (
        "planes = 1\nt0_per_plane = 3\nt1_per_plane = 1\nnics_per_t0 = 2\n[optics]\nnic_ports_per_optic = 1\n"
        "t0_ports_per_optic = 2"
    ),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_hold_the_links_of_their_components_and_no_two_hold_the_same(shape):
    fabric = Fabric(parse_spec(f"[fabric]\n{shape}\n"))
    space = PartSpace(fabric)
    seen = set()
    for part in np.unique(space.parts_of_link[space.parts_of_link >= 0]).tolist():
        links = space.links(part)
        assert np.array_equal(links, links_of(fabric, space.component(part)))
        assert space.size(np.array([part])) == [len(links)]
        assert space.number(space.component(part)) == part
        assert links.tobytes() not in seen
        seen.add(links.tobytes())
    for kind, count in ((Kind.NIC, fabric.n_nics), (Kind.NODE, fabric.n_nodes), (Kind.T1, fabric.n_t1)):
        for i in range(count):
            assert links_of(fabric, Component(kind, i)).tobytes() in seen


def test_rows_over_links_are_those_that_cross_them():
    fabric = small_fabric()
    paths = all_paths(fabric)
    index, crossed = index_paths(fabric, paths), links_crossed(fabric, paths)
    for some in ([0], [5, 6, 7], list(range(2 * fabric.n_links))):
        assert np.array_equal(index.rows_over(np.array(some)), np.flatnonzero(np.isin(crossed, some).any(axis=1)))


def test_rows_keep_their_numbers_and_are_found_in_any_order():
    fabric = small_fabric()
    paths = all_paths(fabric)
    first = index_paths(fabric, paths.take(slice(0, 100)))
    assert first.place(paths.take(slice(0, 100))) is None  # as they are
    turned = np.arange(99, -1, -1)
    assert np.array_equal(first.place(paths.take(turned)), turned)
    place = first.place(paths)
    assert (place[:100] == np.arange(100)).all()
    assert (place[100:] == -1).all()
    grown = with_more(first, join_paths([paths.take(slice(100, None)), paths.take(slice(100, 150))]))
    assert grown.place(paths) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 700))
def test_windows_hold_what_a_plain_sum_over_their_ticks_holds(seed, ticks):
    """Rows are touched in few ticks, so that cells are brought up to date over any number of halves."""
    rng = np.random.default_rng(seed)
    fabric = small_fabric(optics=False)
    space, index = PartSpace(fabric), index_paths(fabric, all_paths(fabric).take(slice(0, 40)))
    wrong, exposure = new_wrong(len(index), space.n_entities), new_exposure(len(index))
    sent, lost = np.zeros((ticks, 40), np.int64), np.zeros((ticks, 40), np.int64)
    for t in range(ticks):
        exposure.begin(t)
        sent[t] = rng.integers(0, 5, 40)
        exposure.now[:] = sent[t]
        exposure.fill[0] += exposure.now
        rows = np.flatnonzero(rng.random(40) < rng.choice([0.0, 0.05]))
        lost[t, rows] = rng.integers(1, 4, len(rows))
        wrong.put(t, index, space, rows.astype(np.int32), lost[t, rows].astype(np.int32))
    every = np.arange(40)
    held = ticks_held(ticks - 1).astype(int)
    for window in range(len(TICKS)):
        span = slice(ticks - min(held[window], ticks), ticks)
        assert np.array_equal(wrong.of_rows(window, every), lost[span].sum(axis=0))
        assert np.array_equal(exposure.of(window, every), sent[span].sum(axis=0))
        touching = [index.rows_over(np.array([d])) for d in range(2 * fabric.n_links)]
        sums = [lost[span][:, rows].sum() for rows in touching]
        assert wrong.of_entities(window, np.arange(2 * fabric.n_links)).tolist() == sums
    assert np.array_equal(wrong.of_rows(NOW, every), lost[-1])


def test_what_is_taken_back_leaves_nothing_behind():
    fabric = small_fabric()
    space, index = PartSpace(fabric), index_paths(fabric, all_paths(fabric))
    wrong = new_wrong(len(index), space.n_entities)
    some = np.array([3, 70, 200], dtype=np.int32)
    for t in range(20):
        wrong.put(t, index, space, some, np.full(3, 5, dtype=np.int32))
    wrong.forget(index, space, some[:2].astype(np.int64))
    alone = new_wrong(len(index), space.n_entities)
    for t in range(20):
        alone.put(t, index, space, some[2:], np.full(1, 5, dtype=np.int32))
    for window in range(len(TICKS)):
        every = np.arange(space.n_entities)
        assert np.array_equal(wrong.of_entities(window, every), alone.of_entities(window, every))
