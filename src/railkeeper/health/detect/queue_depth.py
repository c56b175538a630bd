"""Queue depth: queues, priority groups and headroom far fuller than those of peers, and buffers nearly full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.detector import About
from railkeeper.health.detect.families import Families, equal_paths, mean_of_others
from railkeeper.health.detect.finding import Finding
from railkeeper.health.detect.judging import concluded, first_verdicts, number, part_columns, roles_judged
from railkeeper.health.detect.known import settled
from railkeeper.health.detect.lasting import Lasting, last
from railkeeper.health.detect.outlier import PeerSample
from railkeeper.health.detect.screen import above
from railkeeper.telemetry.entities import T0_HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Floats = npt.NDArray[np.float32]
    Ids = npt.NDArray[np.int32]

# signal, parameter of its size (0: not known), what a high one means
_ROWS = (
    ("queue_watermark_bytes", "queue_bytes", "more comes to this egress than it can send"),
    ("pg_watermark_bytes", "group_bytes", "what arrives here waits: the way out of the switch is congested"),
    (
        "pg_headroom_watermark_bytes",
        "headroom_bytes",
        "packets still arrive after pause was sent: near to lossless drops",
    ),
    ("buffer_pool_watermark_bytes", "pool_bytes", "the shared buffer of the switch runs full"),
)


@dataclass
class State:
    """Families, the peers' sample, what lasts by column, and which ports are last hops."""

    p: dict[str, float]
    sample: PeerSample
    families: Families | None
    judged: npt.NDArray[np.uint8]
    lasting: dict[str, Lasting]
    last_hop: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Level:
    """What a column is held against: ids (m,), the limit and whether it is the size of the buffer."""

    limit: Floats
    normal: Floats
    by_size: npt.NDArray[np.bool_]


class QueueDepth:
    """Watermarks against equal paths, else against ports of the same kind; and against the size where it is set."""

    about = About(
        name="queue-depth", text="queues and buffers far fuller than those of peers, or nearly full",
        kinds=("port", "switch"), needs=tuple(row[0] for row in _ROWS), uses=(), against=("peers", "limit"),
        parameters={
            "floor_bytes": (1e6, "bytes", "less is none of ours: a burst of one NIC at 100 Gb/s for 80 us"),
            "factor": (4.0, "", "times the mean of equal paths, or the peers' 90% quantile"),
            "near": (0.9, "of the size", "from here a buffer is nearly full"),
            "queue_bytes": (0.0, "bytes", "most that an egress queue may hold; 0: not known, not judged"),
            "group_bytes": (0.0, "bytes", "most that a priority group may hold; 0: not known, not judged"),
            "headroom_bytes": (0.0, "bytes", "headroom of a priority group; 0: not known, not judged"),
            "pool_bytes": (0.0, "bytes", "shared buffer of a switch (about 165e6 on one of 51.2 Tb/s); 0: not known"),
            "persist_s": (600.0, "s", "how long it must last: switches renew watermarks once in 1-2 minutes"),
            "last_hop_s": (1800.0, "s", "the same for queues to hosts: incast of a job may take a quarter of an hour"),
            "hold_s": (600.0, "s", "how long a finding stays open after the last hit"),
        },
    )  # fmt: skip

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return a state in which no queue is deep."""
        families = equal_paths(entities) if entities.kind == "port" else None
        judged = roles_judged(entities.role)
        hosts = entities.role == T0_HOST if entities.kind == "port" else np.zeros(len(entities), dtype=np.bool_)
        return State(settled(self.about, parameters), PeerSample(entities), families, judged, {}, hosts)

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Follow every watermark column for a tick."""
        worst: dict[int, Finding] = {}
        needs = []
        for signal, size, means in _ROWS:
            for name, values in part_columns(view, signal):
                needs.append(values)
                for finding in self._follow(state, view, (name, size, means), values):
                    kept = worst.setdefault(finding.entity, finding)
                    if finding.value > kept.value:
                        worst[finding.entity] = finding
        verdicts = first_verdicts(needs, state.judged)
        return state, concluded(worst.values(), verdicts, view.entities.kind)

    def _follow(self, state: State, view: View, row: tuple[str, str, str], values: Floats) -> list[Finding]:
        size = state.p[row[1]]
        floor = min(state.p["floor_bytes"], state.p["near"] * size) if size > 0 else state.p["floor_bytes"]
        near = above(values, floor)
        hit = near[values[near] > _level(state, view, values, near, size).limit]
        host = state.last_hop[hit] & row[0].startswith("queue")
        return [
            self._finding(view, row, said)
            for name, mine, persist_s in (("", ~host, "persist_s"), ("/host", host, "last_hop_s"))
            for said in _lasts(state, view, (row[0] + name, state.p[persist_s], size), values, hit[mine])
        ]

    def _finding(self, view: View, row: tuple[str, str, str], said: tuple[int, float, float, bool, float]) -> Finding:
        name, _, means = row
        entity, value, normal, by_size, since_s = said
        other = int(view.entities.other[entity])
        whose = "its size is" if by_size else "those like it"
        return Finding(
            detector=self.about.name, kind=view.entities.kind, entity=entity, verdict="degraded", signal=name,
            value=value, expected=normal, unit="bytes", against="limit" if by_size else "peers", since_s=since_s,
            confidence=0.8 if by_size else 0.7, others=(other,) if other >= 0 else (),
            evidence=(f"{name} reaches {number(value)} B, {whose} {number(normal)} B: {means}",),
        )  # fmt: skip


def _lasts(
    state: State, view: View, what: tuple[str, float, float], values: Floats, hit: Ids
) -> Iterator[tuple[int, float, float, bool, float]]:
    """Yield (entity, value, normal, whether by size, onset) of what lasts; `what` is name, persistence and size."""
    name, persist_s, size = what
    lasting = state.lasting.setdefault(name, Lasting(persist_s, state.p["hold_s"]))
    found = last(lasting, view, hit, values[hit], lasting.ids[np.isnan(values[lasting.ids])])
    level = _level(state, view, values, found.ids, size)
    for k, entity in enumerate(found.ids.tolist()):
        yield (
            entity, float(found.values[k]), float(level.normal[k]), bool(level.by_size[k]), float(found.since_s[k])
        )  # fmt: skip


def _level(state: State, view: View, values: Floats, ids: Ids, size: float) -> _Level:
    """Return what each of the ids is held against: the lower of nearly its size and far above its peers."""
    empty = np.full(len(ids), np.inf, dtype=np.float32)
    if not len(ids):
        return _Level(empty, empty, empty.astype(np.bool_))
    normal = state.sample.quantile(values, None, 0.0)[view.entities.group[ids]]
    if state.families is not None:
        siblings, n = mean_of_others(state.families, ids, values)
        normal = np.where(n > 1, siblings, normal).astype(np.float32)
    by_peers = np.fmax(normal * state.p["factor"], state.p["floor_bytes"])
    by_peers = np.where(np.isnan(normal), np.inf, by_peers)
    by_size = state.p["near"] * size if size > 0 else np.inf
    is_size = by_peers > by_size
    return _Level(np.minimum(by_peers, by_size), np.where(is_size, size, normal), is_size)
