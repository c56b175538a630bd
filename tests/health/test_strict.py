"""Where one good row proves its links innocent."""

from __future__ import annotations

import numpy as np
from health_worlds import small_fabric
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.fabric.names import name_of
from railkeeper.fabric.paths import join_paths
from railkeeper.health.parts import Parts
from railkeeper.health.rows import Rows, make_table
from railkeeper.health.strict import explain_strict
from railkeeper.probe.plan import make_plan

FABRIC = small_fabric()
ROWS = Rows(FABRIC)
ROWS.number(join_paths([make_plan(FABRIC, n).paths for n in range(FABRIC.n_nodes)]))
TABLE = make_table(ROWS, Parts(FABRIC).around(np.arange(FABRIC.n_links)))


def crosses(hyp):
    return np.isin(ROWS.crossed, TABLE.parts[hyp // 3].directed(hyp % 3)).any(axis=1)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, TABLE.n_hyps - 1), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_explanation_covers_all_bad_rows_and_no_good_one_with_no_more_parts_than_failed(hyps, seed):
    rng = np.random.default_rng(seed)
    bad = np.any([crosses(h) for h in hyps], axis=0)
    seen = rng.random(len(ROWS)) < 0.95
    found = explain_strict(TABLE, np.where(bad & seen, 10.0, 0.0), ~bad & seen, 1.0, frozenset())
    covered = np.any([crosses(c.hyp) for c in found], axis=0)
    assert (covered[bad & seen]).all()
    assert not (covered & ~bad & seen).any()
    assert len(found) <= len(hyps) + 1


def test_dead_direction_is_told_from_the_other():
    for hyp in (0, 1, 2):
        bad = crosses(hyp)
        (found,) = explain_strict(TABLE, np.where(bad, 10.0, 0.0), ~bad, 8.0, frozenset())
        assert (found.part, found.directions) == (TABLE.parts[0], (hyp,))


def test_directions_of_a_spine_can_not_be_told_apart():
    spine = next(i for i, p in enumerate(TABLE.parts) if name_of(FABRIC, p.component) == "p0/t1-2")
    bad = crosses(3 * spine)
    (found,) = explain_strict(TABLE, np.where(bad, 10.0, 0.0), ~bad, 8.0, frozenset())
    assert (found.part, sorted(found.directions)) == (TABLE.parts[spine], [0, 1, 2])


def test_little_evidence_stays_unexplained():
    bad = crosses(0)
    assert not explain_strict(TABLE, np.where(bad, 0.01, 0.0), ~bad, 8.0, frozenset())
