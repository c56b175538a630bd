"""RDMA receivers: hosts that do not post receives in time. Software, not the network."""

from __future__ import annotations

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

_ROWS = (
    Row("no_receive_buffer", "rx_packets", 10.0, 1e-5, 1e-1,
        "this host posts no receives in time: its software is slow, not the network", "short bursts are normal"),
    Row("rnr_naks_rx", "tx_packets", 10.0, 1e-5, 1e-1,
        "the peer is not ready to receive: the peer's software is slow, not the network", "short bursts are normal"),
)  # fmt: skip


class RdmaReceiver(CountDetector):
    """Receivers that are not ready, against NICs that carry traffic too."""

    about = about_counts(
        "rdma-receiver", "receivers that are not ready: slow software of a host, not the network",
        ("port", "nic"), _ROWS, persist_s=300.0,
    )  # fmt: skip
    rows = _ROWS
    roles = (NIC_END, UNKNOWN_ROLE)
