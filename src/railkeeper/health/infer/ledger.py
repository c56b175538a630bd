"""Observations put in order for scoring (see `ledger_kernels`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railkeeper.health.infer import ledger_kernels as kernels
from railkeeper.health.infer.problem import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Floats, Ints, Longs, Problem

LARGE = 2000
"""Packets of a row from which on it is kept even if it lost nothing."""


class Known(NamedTuple):
    """Kept rows of known paths: n and x packets sent and lost (rows,); their parts, and the rows of each part."""

    n: Floats
    x: Floats
    start: Longs
    part: Ints
    of_start: Longs
    of_row: Ints


class Mixed(NamedTuple):
    """Rows whose path is one of a set, sorted by set: `set_row` (sets + 1,) is where a set's rows begin.

    Each stands for `weight` rows of n packets that lost x. `path` is the path taken where it is known, else -1; `ends`
    (rows, 2) parts, -1 for none; `of_row` its set. Then the paths of sets, parts of paths, parts of sets with the share
    of paths that cross them (`in_*`), sets of parts (`of_*`), and rows by end (`end_*`).
    """

    kind: npt.NDArray[np.uint8]
    n: Floats
    x: Floats
    weight: Floats
    path: Ints
    ends: Ints
    of_row: Ints
    set_row: Longs
    set_start: Longs
    set_path: Ints
    path_start: Longs
    path_part: Ints
    in_start: Longs
    in_part: Ints
    in_share: Floats
    of_start: Longs
    of_set: Ints
    end_start: Longs
    end_row: Ints


class Ledger(NamedTuple):
    """All evidence: `plain` (parts,) packets across each part that need no row of their own; the two sorts of rows."""

    plain: Floats
    known: Known
    mixed: Mixed
    packets: Floats
    """Packets across each part, whatever became of them; for sets their expected number."""


def ledger(problem: Problem) -> Ledger:
    """Put the observations of a problem in order."""
    obs, paths, n = problem.obs, problem.paths, problem.n_parts
    plain, row, start, part = kernels.known_rows(
        obs.kind, obs.route, obs.sent, obs.lost, obs.ends, paths.start, paths.ids, n, LARGE
    )
    known = Known(
        obs.sent[row].astype(np.float64), obs.lost[row].astype(np.float64), start, part, *kernels.turned(start, part, n)
    )
    mixed = _mixed(problem)
    return Ledger(plain, known, mixed, _packets(plain, known, mixed))


def _packets(plain: Floats, known: Known, mixed: Mixed) -> Floats:
    out = plain + np.bincount(known.part, np.repeat(known.n, np.diff(known.start)), len(plain))
    if len(mixed.n):
        of_set = np.add.reduceat(np.append(mixed.n * mixed.weight, 0.0), mixed.set_row[:-1])
        of_set[np.diff(mixed.set_row) == 0] = 0.0
        each = np.repeat(of_set, np.diff(mixed.in_start)) * mixed.in_share
        out += np.bincount(mixed.in_part, each, len(plain))
        for end in mixed.ends.T:
            out += np.bincount(end[end >= 0], mixed.n[end >= 0], len(plain))
    return np.asarray(out)


def _mixed(problem: Problem) -> Mixed:
    obs = problem.obs
    one = np.flatnonzero((obs.kind != Kind.KNOWN) & (obs.lost > 0))
    lossy = obs.kind[one] == Kind.LOSSY_ONLY
    set_of_row = np.where(lossy, obs.chosen_from[one], obs.route[one]).astype(np.int64)
    path = np.where(lossy, obs.route[one], -1)
    set_start, set_path = _sets(problem, set_of_row, path)
    count, packets = kernels.size_bins(obs.kind, obs.route, obs.sent, obs.lost, len(set_start) - 1)
    s, b = np.nonzero(count)
    sprayed = np.zeros(len(set_start) - 1, dtype=np.bool_)
    sprayed[obs.route[obs.kind == Kind.SPRAYED]] = True
    kind = np.concatenate([obs.kind[one], np.where(sprayed[s], Kind.SPRAYED, Kind.ONE_OF)])
    set_of_row = np.concatenate([set_of_row, s])
    order, rows = np.argsort(set_of_row, kind="stable"), np.bincount(set_of_row, minlength=len(set_start) - 1)
    ends = np.concatenate([obs.ends[one], np.full((len(s), 2), -1, dtype=np.int32)])[order]
    in_start, in_part, in_share = kernels.parts_of_sets(
        rows > 0, set_start, set_path, problem.paths.start, problem.paths.ids, problem.n_parts
    )
    of_start, of_set = kernels.turned(in_start, in_part, problem.n_parts)
    end_start, end_row = _by_end(ends, problem.n_parts)
    return Mixed(
        kind=kind[order].astype(np.uint8),
        n=np.concatenate([obs.sent[one], packets[s, b] / count[s, b]])[order],
        x=np.concatenate([obs.lost[one], np.zeros(len(s))])[order],
        weight=np.concatenate([np.ones(len(one)), count[s, b]])[order],
        path=np.concatenate([path, np.full(len(s), -1)])[order].astype(np.int32),
        ends=ends,
        of_row=set_of_row[order].astype(np.int32),
        set_row=np.concatenate([[0], np.cumsum(rows)]),
        set_start=set_start,
        set_path=set_path,
        path_start=problem.paths.start,
        path_part=problem.paths.ids,
        in_start=in_start,
        in_part=in_part,
        in_share=in_share,
        of_start=of_start,
        of_set=of_set,
        end_start=end_start,
        end_row=end_row,
    )


def _sets(problem: Problem, set_of_row: Longs, path: Longs) -> tuple[Longs, Ints]:
    """Return the sets' starts and paths, with a set of its own for each row without one, which is put to it in place.

    Nothing else was possible for such a row, as far as we know.
    """
    sets = problem.sets
    alone = np.flatnonzero(set_of_row < 0)
    set_of_row[alone] = len(sets) + np.arange(len(alone))
    start = np.concatenate([sets.start, sets.start[-1] + 1 + np.arange(len(alone))])
    return start, np.concatenate([sets.ids, path[alone]]).astype(np.int32)


def _by_end(ends: Ints, parts: int) -> tuple[Longs, Ints]:
    row, side = np.nonzero(ends >= 0)
    start = np.searchsorted(row, np.arange(len(ends) + 1)).astype(np.int64)
    out: tuple[Longs, Ints] = kernels.turned(start, ends[row, side], parts)
    return out
