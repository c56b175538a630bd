"""Queue drops: egress queues that drop more of their packets than those of peers."""

from __future__ import annotations

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.telemetry.entities import T0_HOST, T0_UPLINK, T1_DOWN, UNKNOWN_ROLE

_ROWS = (
    Row("queue_drops", "tx_packets", 10.0, 1e-5, 1e-2,
        "an egress queue overflows: more comes than the port can send", "short bursts are normal"),
    Row("tx_wred_drops", "tx_packets", 10.0, 1e-5, 1e-2,
        "WRED drops before the queue is full: packets that can't be marked, or a profile set too low",
        "short bursts are normal"),
    Row("trim_dropped_packets", "tx_packets", 1.0, 1e-6, 1e-3,
        "trimmed headers are lost too: the queue of trimmed packets overflows, receivers do not learn of loss",
        "headers are small; their queue has room unless it is set wrongly"),
)  # fmt: skip


class QueueDrops(CountDetector):
    """Packets that switch ports drop on the way out, against ports of the same tier and plane that are busy too."""

    about = about_counts(
        "queue-drops", "egress queues that drop more of their packets than those of peers", ("port",), _ROWS,
        persist_s=300.0, burst=100.0,
    )  # fmt: skip
    rows = _ROWS
    roles = (T0_HOST, T0_UPLINK, T1_DOWN, UNKNOWN_ROLE)
