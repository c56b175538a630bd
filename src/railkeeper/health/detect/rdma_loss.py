"""RDMA loss: NICs whose packets get lost more often than those of their peers."""

from __future__ import annotations

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

_ROWS = (
    Row("retries_exceeded", None, 0.0, 0.01, 0.0,
        "connections fail: the path or the peer is dead", "any is bad", peers=False),
    Row("ack_timeouts", "tx_packets", 1.0, 1e-7, 1e-3,
        "nothing comes back: loss either way, or a peer that is silent", "1/s, as fleets alarm on"),
    Row("seq_naks_rx", "tx_packets", 1.0, 1e-6, 1e-2,
        "the receiver missed packets: loss on the way from this NIC", "one loss a second is a healthy NIC's"),
    Row("retransmitted_packets", "tx_packets", 10.0, 1e-5, 1e-2,
        "packets sent again", "a loss is made good by a handful"),
    Row("out_of_sequence_rx", "rx_packets", 10.0, 1e-5, 1e-2,
        "gaps in what arrives: loss or reordering on the way to this NIC", "one loss counts several times"),
    Row("implied_naks_rx", "tx_packets", 1.0, 1e-6, 1e-2,
        "answers ahead of their turn: an answer or an ACK was lost", "one loss a second is a healthy NIC's"),
    Row("duplicates_rx", "rx_packets", 10.0, 1e-5, 1e-2,
        "requests that came again: ACKs from this NIC are lost or late", "one loss counts several times"),
)  # fmt: skip


class RdmaLoss(CountDetector):
    """Loss as the RDMA transport of a NIC sees it, against NICs that carry traffic too."""

    about = about_counts(
        "rdma-loss", "NICs that lose more packets than their peers, by their RDMA transport", ("port", "nic"), _ROWS,
        uses=("rx_crc_errors", "fec_uncorrected_codewords", "rx_discards", "tx_discards"),
    )  # fmt: skip
    rows = _ROWS
    roles = (NIC_END, UNKNOWN_ROLE)
    beside = ("rx_crc_errors", "fec_uncorrected_codewords", "rx_discards", "tx_discards")
