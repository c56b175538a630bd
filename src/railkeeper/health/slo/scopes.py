"""Scopes: the parts of a fabric for which service levels are kept, and sums of evidence by scope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

SCOPE_KINDS = ("fabric", "plane", "rail", "pod", "t0-group", "job")


class Job(NamedTuple):
    """A job that runs now: its id, and the ids of its nodes."""

    name: str
    nodes: tuple[int, ...]


class Amounts(NamedTuple):
    """Evidence by row: how much there was, how much of it was good, and where; each (n,).

    `plane`, `rail`, `t0` (index of the T0 in its plane) and `node` are -1 where a row belongs to no single one.
    """

    good: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    plane: npt.NDArray[np.int64]
    rail: npt.NDArray[np.int64]
    t0: npt.NDArray[np.int64]
    node: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scopes:
    """All scopes of a fabric with the jobs on it, in this order: fabric, planes, rails, pods, T0 groups, jobs.

    A pod is `groups_per_pod` T0 groups that lie beside each other; 0: there are no pods.
    """

    fabric: Fabric
    groups_per_pod: int = 0
    jobs: tuple[Job, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """`fabric`, `plane/p0`, `rail/r0`, `pod/0`, `t0-group/5` (`t0-group/r1-5` with several rails), `job/1234`."""
        f = self.fabric
        groups = [f"r{r}-{i}" if f.rails > 1 else f"{i}" for r in range(f.rails) for i in range(f.t0_per_plane)]
        return (
            "fabric",
            *(f"plane/p{p}" for p in range(f.planes)),
            *(f"rail/r{r}" for r in range(f.rails)),
            *(f"pod/{i}" for i in range(self.n_pods)),
            *(f"t0-group/{name}" for name in groups),
            *(f"job/{job.name}" for job in self.jobs),
        )

    def __len__(self) -> int:
        return self._first_job + len(self.jobs)

    @property
    def n_pods(self) -> int:
        """Pods of the fabric, over all rails alike."""
        return -(-self.fabric.t0_per_plane // self.groups_per_pod) if self.groups_per_pod else 0

    @property
    def _first_rail(self) -> int:
        return 1 + self.fabric.planes

    @property
    def _first_pod(self) -> int:
        return self._first_rail + self.fabric.rails

    @property
    def _first_group(self) -> int:
        return self._first_pod + self.n_pods

    @property
    def _first_job(self) -> int:
        return self._first_group + self.fabric.rails * self.fabric.t0_per_plane

    @cached_property
    def job_of_node(self) -> npt.NDArray[np.int64]:
        """(n_nodes,) number of the job that runs on a node, -1 none; of several, the last one."""
        out = np.full(self.fabric.n_nodes, -1, dtype=np.int64)
        for k, job in enumerate(self.jobs):
            out[[n for n in job.nodes if 0 <= n < len(out)]] = k
        return out

    def tally(self, rows: Amounts) -> npt.NDArray[np.float64]:
        """Return (n_scopes, 2) good and total amounts of the rows, each counted in every scope that it lies in."""
        out = np.zeros((len(self), 2))
        out[0] = rows.good.sum(), rows.total.sum()
        for ids in self._ids(rows):
            known = ids >= 0
            for column, amounts in enumerate((rows.good, rows.total)):
                out[:, column] += np.bincount(ids[known], weights=amounts[known], minlength=len(out))
        return out

    def _ids(self, rows: Amounts) -> Sequence[npt.NDArray[np.int64]]:
        f = self.fabric
        group = np.where((rows.t0 >= 0) & (rows.rail >= 0), rows.rail * f.t0_per_plane + rows.t0, -1)
        pod = rows.t0 // self.groups_per_pod if self.groups_per_pod else np.full_like(rows.t0, -1)
        job = np.where(rows.node >= 0, self.job_of_node[rows.node], -1)
        return [
            _from(1, rows.plane),
            _from(self._first_rail, rows.rail),
            _from(self._first_pod, np.where(rows.t0 >= 0, pod, -1)),
            _from(self._first_group, group),
            _from(self._first_job, job),
        ]


def _from(first: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where(ids >= 0, first + ids, -1)


def kind_of(scope: str) -> str:
    """Return the kind of a scope by its name."""
    return scope.split("/", 1)[0]
