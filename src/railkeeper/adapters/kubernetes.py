"""Kubernetes: nodes, and jobs by their pods, from lists of the API or of `kubectl get -o json`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from railkeeper.adapters.records import (
    entries_of,
    field_any,
    field_dict,
    field_list,
    field_text,
    load_json,
    read_all,
    whole_text,
)
from railkeeper.base.errors import InputError
from railkeeper.telemetry.jobs import JobRecord, Listed, NodeRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

# Labels by which controllers say which job a pod belongs to, outermost first: a JobSet's pods are also those of a Job.
JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name", "volcano.sh/job-name", "batch.kubernetes.io/job-name", "job-name",
)  # fmt: skip
GPU = re.compile(r"[a-z0-9.-]+/gpu(\.shared)?$")
PHASES = {"Pending": "pending", "Running": "running", "Succeeded": "completed", "Failed": "failed"}
CLOSING_EFFECTS = ("NoSchedule", "NoExecute")


def read_nodes(text: str, where: str = "nodes") -> Listed[NodeRecord]:
    """Read a NodeList, or a list of `kubectl get nodes -o json`. Raises InputError if it is none."""
    return nodes_of(_items(text, "Node", where))


def read_jobs(text: str, where: str = "pods") -> Listed[JobRecord]:
    """Read jobs from a PodList, or from a list of `kubectl get pods -A -o json`; `seen` counts pods."""
    return jobs_of(_items(text, "Pod", where))


def nodes_of(items: Iterable[Any]) -> Listed[NodeRecord]:
    """Read nodes from objects of the API."""
    return read_all(items, _node, "node")


def _items(text: str, kind: str, where: str) -> list[Any]:
    data = load_json(text, where)
    said = field_any(data, "kind")
    if said not in (f"{kind}List", "List"):
        raise InputError(where, f"kind {said!r}", f"a {kind}List, or the List that kubectl get -o json writes")
    return entries_of(data, "items", where)


def _node(entry: Any) -> NodeRecord:
    name = field_text(entry, "metadata", "name", need=True)
    conditions = _conditions(entry)
    ready = conditions.get("Ready", ("Unknown", "", "", None))
    cordoned = field_any(entry, "spec", "unschedulable") is True
    taints = [_taint(taint) for taint in field_list(entry, "spec", "taints")]
    # A condition other than Ready names a problem, and True is that it is there.
    problems = [kind for kind, (status, *_) in conditions.items() if kind != "Ready" and status == "True"]
    flags = (["cordoned"] if cordoned else []) + [_snake(kind) for kind in problems]
    _, reason, message, at_ns = (
        ready if ready[0] != "True" else conditions.get(next(iter(problems), ""), (0, "", "", None))
    )
    return NodeRecord(
        name=name,
        state={"True": "idle", "False": "down"}.get(ready[0], "unknown"),
        said=f"Ready={ready[0]}",
        schedulable=ready[0] == "True" and not cordoned and not any(map(_closes, taints)),
        flags=tuple(flags),
        reason=": ".join(filter(None, (reason, message))),
        reason_ns=at_ns,
        gpus=_gpu_sum([field_dict(entry, "status", "capacity")]),
        labels=_labels(entry),
        taints=tuple(taints),
    )


def _conditions(entry: Any) -> dict[str, tuple[str, str, str, int | None]]:
    found = {}
    for condition in field_list(entry, "status", "conditions"):
        found[field_text(condition, "type", need=True)] = (
            field_text(condition, "status"),
            field_text(condition, "reason"),
            field_text(condition, "message"),
            _time_ns(field_text(condition, "lastTransitionTime")),
        )
    return found


def _taint(taint: Any) -> str:
    key, value = field_text(taint, "key", need=True), field_text(taint, "value")
    return f"{key}={value}:{field_text(taint, 'effect')}" if value else f"{key}:{field_text(taint, 'effect')}"


def _closes(taint: str) -> bool:
    """Return whether a taint keeps new work away. One for the GPU itself only keeps work without GPUs away."""
    named, _, effect = taint.rpartition(":")
    return effect in CLOSING_EFFECTS and not GPU.fullmatch(named.partition("=")[0])


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


@dataclass
class _Pods:
    """Pods of one job as they are found."""

    name: str
    user: str
    said: list[str] = field(default_factory=list)
    nodes: dict[str, None] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    gpus: int = 0


@dataclass(frozen=True)
class _Pod:
    namespace: str
    job: str
    phase: str
    node: str
    start_ns: int | None
    end_ns: int | None
    gpus: int


def jobs_of(items: Iterable[Any]) -> Listed[JobRecord]:
    """Put pods together to jobs: by the labels of job controllers, else by their owner, else each by itself.

    `seen` counts pods; `left_out` those that another pod of the same job stands for. A job's user is its namespace.
    """
    pods = read_all(items, _pod, "pod")
    jobs: dict[str, _Pods] = {}
    for pod in pods.items:
        job = jobs.setdefault(f"{pod.namespace}/{pod.job}", _Pods(pod.job, pod.namespace))
        job.said.append(pod.phase)
        # Pods that have ended no longer hold what they had.
        if pod.phase not in ("Succeeded", "Failed") or not pod.node:
            job.gpus += pod.gpus
        if pod.node:
            job.nodes[pod.node] = None
        job.starts += [pod.start_ns] if pod.start_ns is not None else []
        job.ends += [pod.end_ns] if pod.end_ns is not None else []
    records = tuple(_job(key, job) for key, job in jobs.items())
    return Listed(records, pods.seen, len(pods.items) - len(records), pods.bad, pods.problems)


def _job(key: str, job: _Pods) -> JobRecord:
    states = [PHASES.get(said, "unknown") for said in job.said]
    state = next((s for s in ("running", "pending", "failed", "unknown", "completed") if s in states), "unknown")
    ended = state in ("completed", "failed")
    return JobRecord(
        id=key,
        name=job.name,
        user=job.user,
        state=state,
        said=", ".join(f"{job.said.count(said)} {said}" for said in dict.fromkeys(job.said)),
        nodes=tuple(job.nodes),
        start_ns=min(job.starts, default=None),
        end_ns=max(job.ends, default=None) if ended else None,
        gpus=job.gpus,
    )


def _pod(entry: Any) -> _Pod:
    name = field_text(entry, "metadata", "name", need=True)
    containers = field_list(entry, "spec", "containers")
    ends = [
        _time_ns(field_text(status, "state", "terminated", "finishedAt"))
        for status in field_list(entry, "status", "containerStatuses")
    ]
    return _Pod(
        namespace=field_text(entry, "metadata", "namespace") or "default",
        job=_job_of(entry) or name,
        phase=field_text(entry, "status", "phase") or "Unknown",
        node=field_text(entry, "spec", "nodeName"),
        start_ns=_time_ns(field_text(entry, "status", "startTime")),
        end_ns=max((end for end in ends if end is not None), default=None),
        gpus=_gpu_sum([field_dict(one, "resources", "limits") for one in containers]) or 0,
    )


def _job_of(entry: Any) -> str:
    labels = _labels(entry)
    named = next((labels[key] for key in JOB_LABELS if labels.get(key)), "")
    if named:
        return named
    for owner in field_list(entry, "metadata", "ownerReferences"):
        if field_any(owner, "controller") is True:
            return field_text(owner, "name", need=True)
    return ""


def _labels(entry: Any) -> dict[str, str]:
    labels = field_dict(entry, "metadata", "labels")
    if not all(isinstance(value, str) for value in labels.values()):
        raise InputError("metadata.labels", repr(labels)[:60], "texts")
    for key, value in labels.items():
        whole_text(key + value, "metadata.labels")
    return labels


def _gpu_sum(resources: Iterable[dict[str, Any]]) -> int | None:
    """Return GPUs of any vendor (`…/gpu`) in lists of resources, None where none is named."""
    counts = [str(value) for found in resources for key, value in found.items() if GPU.fullmatch(key)]
    if any(not re.fullmatch(r"\d{1,6}", count, re.ASCII) for count in counts):
        raise InputError("gpu", repr(counts)[:60], "a whole number")
    return sum(map(int, counts)) if counts else None


def _time_ns(text: str) -> int | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise InputError("time", repr(text[:40]), "a time with its zone, as 2026-11-30T08:15:00Z")
        return int(at.timestamp()) * 10**9
    except (ValueError, OverflowError):
        raise InputError("time", repr(text[:40]), "a time as 2026-11-30T08:15:00Z") from None
