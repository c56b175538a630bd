"""What transports of NICs count on simulated days: losses and what follows from them, and path events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Doubles = npt.NDArray[np.float64]
    Columns = dict[str, Doubles]

# What follows of one lost packet, on the sender's and on the receiver's side.
_OF_LOSS = {
    "ev_drops": 1.0, "retransmitted_packets": 1.3, "seq_naks_rx": 0.5, "ack_timeouts": 0.02, "implied_naks_rx": 0.02,
    "out_of_sequence_rx": 1.5, "duplicates_rx": 0.3,
}  # fmt: skip
PATHS = 32.0


def transport_columns(
    ports: Entities, flows: Columns, starting: npt.NDArray[np.bool_], blinks: Doubles, rng: np.random.Generator
) -> Columns:
    """Return the columns of NIC ports (NaN at switches).

    - starting: (n_nics,) NICs whose job has just begun; blinks: (n,) links that went down nearby, in losses per s
    """
    n = len(ports)
    ends = ports.role == NIC_END
    nic = np.where(ends, ports.owner, 0)
    busy = np.where(ends, flows["tx_packets"] > 1e4, False)
    losses = (0.02 + 15.0 * starting[nic] + blinks) * busy * rng.lognormal(0.0, 0.8, n)
    columns = {name: losses * share * rng.lognormal(0.0, 0.3, n) for name, share in _OF_LOSS.items()}
    marked = flows["rx_packets"] * 0.004 * (flows["rx_bytes"] > 3e9) * rng.lognormal(0.0, 0.6, n)
    columns |= {
        "ecn_marked_rx": marked, "cnp_tx": marked * 0.2, "cnp_rx": marked * 0.2 * rng.lognormal(0.0, 0.3, n),
        "cnp_ignored": np.zeros(n), "retries_exceeded": np.zeros(n), "icrc_errors": np.full(n, 1e-7),
        "rnr_naks_rx": 0.02 * busy * rng.lognormal(0.0, 1.0, n),
        "no_receive_buffer": 0.02 * busy * rng.lognormal(0.0, 1.0, n), "cqe_errors": np.full(n, 1e-6),
        "ev_bad_events": 0.002 * busy + 0.02 * losses, "ev_good_events": 0.002 * busy + 0.02 * losses,
        "trim_naks_rx": marked * 0.01,
    }  # fmt: skip
    return {name: np.where(ends, values, np.nan) for name, values in columns.items()}


def active_paths(ports: Entities, flows: Columns, rng: np.random.Generator) -> Doubles:
    """Return (n,) paths in use: some for each NIC that works, none for idle ones, NaN at switches."""
    paths = np.round(PATHS * rng.uniform(0.88, 1.0, len(ports)))
    return np.where(ports.role == NIC_END, np.where(flows["tx_packets"] > 1e4, paths, 0.0), np.nan)


def not_ready(ports: Entities, columns: Columns, strength: Doubles) -> None:
    """Let hosts be late with receives for a moment, in place; (n,) strengths of NIC ports."""
    slow = np.where(ports.role == NIC_END, strength, 0.0)
    columns["no_receive_buffer"] += 2e3 * slow
    columns["rnr_naks_rx"] += 2e3 * slow
