"""Nodes and jobs as a workload manager lists them, in the same words for Slurm and Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")

# States of a node and of a job; `unknown` is what the manager said in no word known here (it stands in `said`).
NODE_STATES = ("idle", "mixed", "allocated", "down", "unknown")
JOB_STATES = ("pending", "running", "suspended", "completed", "failed", "unknown")


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node.

    - state: one of NODE_STATES; flags: further states in small letters, as `drain`, `not_responding`, `maint`
    - said: the state in the manager's own words
    - schedulable: whether new work may be put there
    - reason: why it is drained or down, and who said so (`reason_by`) when (`reason_ns`, unix ns)
    - gpus: how many it has, None if that is not told
    - labels and taints (`key=value:Effect`): of Kubernetes, empty for Slurm
    """

    name: str
    state: str
    said: str
    schedulable: bool
    flags: tuple[str, ...] = ()
    reason: str = ""
    reason_by: str = ""
    reason_ns: int | None = None
    gpus: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job, over all of its nodes.

    - state: one of JOB_STATES; said: the same in the manager's own words
    - nodes: where it runs or ran, without those it waits for; gpus: all of them together, None if that is not told
    - start_ns, end_ns: unix ns, None before it has begun or ended
    """

    id: str
    name: str
    user: str
    state: str
    said: str
    nodes: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Listed(Generic[_T]):
    """A list as far as it could be read: `seen = len(items) + left_out + bad`.

    - left_out: entries that are no item of their own, as steps of jobs
    - bad: entries that could not be read; `problems` are the texts of the first of them
    """

    items: tuple[_T, ...]
    seen: int
    left_out: int = 0
    bad: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """All nodes and jobs of one manager at one moment (unix ns)."""

    t_ns: int
    nodes: Listed[NodeRecord]
    jobs: Listed[JobRecord]
