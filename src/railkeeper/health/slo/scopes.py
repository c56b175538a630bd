"""Scopes: the parts of a fabric for which service levels are kept, and sums of evidence by scope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from railkeeper.health.slo.tally_kernels import add_up

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

    Floats = npt.NDArray[np.float64]

SCOPE_KINDS = ("fabric", "plane", "rail", "pod", "t0-group", "job")


class Job(NamedTuple):
    """A job that runs now: its id, and the ids of its nodes."""

    name: str
    nodes: tuple[int, ...]


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

    def with_jobs(self, jobs: tuple[Job, ...]) -> Scopes:
        """Return the scopes of the same fabric with other jobs; what does not depend on jobs is shared."""
        made = Scopes(self.fabric, self.groups_per_pod, jobs)
        made.__dict__["_of_links"] = self._of_links
        return made

    @cached_property
    def job_of_node(self) -> npt.NDArray[np.int64]:
        """(n_nodes,) number of the job that runs on a node, -1 none; of several, the last one."""
        out = np.full(self.fabric.n_nodes, -1, dtype=np.int64)
        for k, job in enumerate(self.jobs):
            out[[n for n in job.nodes if 0 <= n < len(out)]] = k
        return out

    @cached_property
    def of_links(self) -> npt.NDArray[np.int32]:
        """(n_links, 5) scopes of a link, -1 none: plane, rail, pod, T0 group, job of its NIC.

        A path counts where its source's port lies, and a port of a NIC has the number of its link.
        """
        jobs = self.of_nodes[self.fabric.node_of(np.arange(self.fabric.n_ports) // self.fabric.planes), 0]
        out = np.full((self.fabric.n_links, 5), -1, dtype=np.int32)
        out[:, :4] = self._of_links
        out[: self.fabric.n_ports, 4] = jobs
        return out

    @cached_property
    def of_nodes(self) -> npt.NDArray[np.int32]:
        """(n_nodes, 1) scope of the job that runs on a node, -1 none."""
        return _from(self._first_job, self.job_of_node)[:, np.newaxis]

    @cached_property
    def _of_links(self) -> npt.NDArray[np.int32]:
        f = self.fabric
        t0 = np.where(np.arange(f.n_links) < f.n_ports, f.link_upper, f.link_lower).astype(np.int64)
        rail, plane = np.divmod(f.domain_of_t0(t0).astype(np.int64), f.planes)
        group = t0 % f.t0_per_plane
        pod = group // self.groups_per_pod if self.groups_per_pod else np.full_like(group, -1)
        return np.stack(
            [
                _from(1, plane),
                _from(self._first_rail, rail),
                _from(self._first_pod, pod),
                _from(self._first_group, rail * f.t0_per_plane + group),
            ],
            axis=1,
        )

    def of_each_link(self, links: npt.NDArray[Any], good: npt.NDArray[Any], total: npt.NDArray[Any]) -> Floats:
        """Return (n_scopes, 2) sums of rows (n,), each counted in all scopes of its link (n,)."""
        return self._sums(self.of_links, links, good, total)

    def of_each_node(self, nodes: npt.NDArray[Any], good: npt.NDArray[Any], total: npt.NDArray[Any]) -> Floats:
        """Return (n_scopes, 2) sums of rows (n,) of nodes (n,): over the fabric, and by job."""
        return self._sums(self.of_nodes, nodes, good, total)

    def _sums(
        self, table: npt.NDArray[np.int32], keys: npt.NDArray[Any], good: npt.NDArray[Any], total: npt.NDArray[Any]
    ) -> Floats:
        out = np.zeros((len(self), 2))
        columns = (np.ascontiguousarray(x, dtype=np.float64) for x in (good, total))
        add_up(out, table, np.ascontiguousarray(keys, dtype=np.int64), *columns)
        return out


def _from(first: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.where(ids >= 0, first + ids, -1).astype(np.int32)


def kind_of(scope: str) -> str:
    """Return the kind of a scope by its name."""
    return scope.split("/", 1)[0]
