"""Small problems of inference whose answers are known."""

from __future__ import annotations

import numpy as np

from railkeeper.health.infer.draw import draw
from railkeeper.health.infer.evidence import See, evidence
from railkeeper.health.infer.fattree import FatTree
from railkeeper.health.infer.problem import Csr, Kind, Observations, Problem, csr

TREE = FatTree(4, 4)
NETWORK = TREE.network()
LARGE = FatTree(10, 15)
LARGE_NETWORK = LARGE.network()


def window(scene, seed, see=See.INT, tree=TREE, network=NETWORK):
    """Return a problem and what is at fault."""
    drawn = draw(tree, network, scene, seed)
    return evidence(drawn.trace, network, see, "drawn").problem, set(drawn.at_fault)


def rows(kind, routes, sent, lost, chosen=None):
    n = len(routes)
    return Observations(
        np.full(n, kind, dtype=np.uint8), np.array(routes, dtype=np.int32), np.array(sent, dtype=np.int64),
        np.array(lost, dtype=np.int64), np.full((n, 2), -1, dtype=np.int32),
        np.array(chosen if chosen is not None else [-1] * n, dtype=np.int32),
    )  # fmt: skip


def leaf_spine(leaves, spines, pairs, rate_of, kind, sent=100_000, seed=1):
    """Return rows of leaf pairs over a leaf and spine network: uplinks 0 …, then downlinks.

    Up (leaf, spine) is part leaf * spines + spine; down (spine, leaf) the same after all uplinks.
    """
    rng = np.random.default_rng(seed)
    n_up = leaves * spines
    paths = [[a * spines + s, n_up + b * spines + s] for a, b in pairs for s in range(spines)]
    rate = np.array([rate_of(part) for part in range(2 * n_up)])
    loss = np.array([1 - np.prod(1 - rate[path]) for path in paths])
    if kind == Kind.KNOWN:
        routes = list(range(len(paths)))
        return Problem(2 * n_up, csr(paths), rows(kind, routes, [sent] * len(paths), rng.binomial(sent, loss)))
    sets = csr([list(range(i * spines, (i + 1) * spines)) for i in range(len(pairs))])
    lost = rng.binomial(sent, loss.reshape(-1, spines).mean(axis=1))
    return Problem(2 * n_up, csr(paths), rows(kind, range(len(pairs)), [sent] * len(pairs), lost), sets)


def stripes(n_parts, sent, lost):
    """Return one row for each part alone."""
    paths = Csr(np.arange(n_parts + 1, dtype=np.int64), np.arange(n_parts, dtype=np.int32))
    return Problem(n_parts, paths, rows(Kind.KNOWN, range(n_parts), sent, lost))
