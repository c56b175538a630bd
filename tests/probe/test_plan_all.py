"""All agents' paths as one table: the same rows in the same order as each agent's own plan."""

from __future__ import annotations

import numpy as np
import pytest

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import join_paths
from railkeeper.fabric.spec import parse_spec
from railkeeper.probe.plan import ProbeBudget, make_plan
from railkeeper.probe.plan_all import all_paths

SHAPES = (
    "planes = 2\nt0_per_plane = 4\nt1_per_plane = 4\nnics_per_t0 = 4",
    "planes = 3\nt0_per_plane = 5\nt1_per_plane = 7\nnics_per_t0 = 4\nnics_per_node = 2\nrails = 2",
    "planes = 3\nt0_per_plane = 3\nt1_per_plane = 1\nnics_per_t0 = 1",
    "planes = 1\nt0_per_plane = 2\nt1_per_plane = 3\nnics_per_t0 = 4",
    "planes = 1\nt0_per_plane = 1\nt1_per_plane = 2\nnics_per_t0 = 3",
)
BUDGETS = (ProbeBudget(), ProbeBudget(agents_per_link=1, peers=1), ProbeBudget(peers=0), ProbeBudget(peers=4))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("budget", BUDGETS, ids=range(len(BUDGETS)))
def test_rows_are_those_of_the_agents_one_behind_the_other(shape, budget):
    fabric = Fabric(parse_spec(f"[fabric]\n{shape}\n"))
    one_by_one = join_paths([make_plan(fabric, n, budget).paths for n in range(fabric.n_nodes)])
    assert np.array_equal(all_paths(fabric, budget).key(), one_by_one.key())
