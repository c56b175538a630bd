"""MRC path events: NIC ports whose transport gives up on paths, or finds packets lost, more than its peers'."""

from __future__ import annotations

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.telemetry.entities import NIC_END, UNKNOWN_ROLE

_ROWS = (
    Row("ev_drops", "tx_packets", 1.0, 1e-6, 1e-2,
        "the transport finds packets of this plane lost", "one loss a second is a healthy NIC's"),
    Row("ev_bad_events", None, 0.1, 0.1, 1e9,
        "the transport keeps taking paths of this plane for bad",
        "flaps between T0 and T1 make a few a minute fleet-wide"),
)  # fmt: skip


class MrcEvents(CountDetector):
    """Path evidence of the transport, by plane, against NICs of the same plane."""

    about = about_counts(
        "mrc-events", "NIC ports whose transport gives up on paths more often than its peers'", ("port",), _ROWS,
        uses=("rx_crc_errors", "fec_uncorrected_codewords", "tx_discards"), burst=4.0,
    )  # fmt: skip
    rows = _ROWS
    roles = (NIC_END, UNKNOWN_ROLE)
    beside = ("rx_crc_errors", "fec_uncorrected_codewords", "tx_discards")
