"""CNPs ignored: senders that are told to slow down and do not."""

from __future__ import annotations

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

_ROWS = (
    Row("cnp_ignored", None, 1.0, 1.0, 1e9,
        "congestion notifications not obeyed: congestion control is off or set wrongly on this NIC",
        "stays 0 where congestion control is on", peers=False),
)  # fmt: skip


class CnpIgnored(CountDetector):
    """Congestion notifications that a NIC does not obey."""

    about = about_counts(
        "cnp-ignored", "NICs that do not obey congestion notifications", ("port", "nic"), _ROWS, burst=1.0
    )
    rows = _ROWS
    roles = (NIC_END, UNKNOWN_ROLE)
