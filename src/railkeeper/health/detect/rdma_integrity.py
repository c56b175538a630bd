"""RDMA integrity: packets damaged between two good links, in the memory of a switch or of a NIC."""

from __future__ import annotations

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

_ROWS = (
    Row("icrc_errors", "rx_packets", 0.02, 1e-9, 1e-4,
        "damaged where no link checks: memory of a switch or of a NIC on the way", "one in a minute"),
)  # fmt: skip


class RdmaIntegrity(CountDetector):
    """Packets whose end-to-end checksum is wrong although every link's was right."""

    about = about_counts(
        "rdma-integrity", "packets damaged between good links: memory of a switch or of a NIC", ("port", "nic"), _ROWS,
        uses=("rx_crc_errors",), burst=1.0,
    )  # fmt: skip
    rows = _ROWS
    roles = (NIC_END, UNKNOWN_ROLE)
    beside = ("rx_crc_errors",)
