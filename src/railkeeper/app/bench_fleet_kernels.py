"""Growth of all counters of all ports in one tick of a healthy, busy fabric: hashes for chance, so that runs repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    import numpy.typing as npt

# Columns, in the order of `PORT_COUNTERS`.
PORT_COUNTERS = (
    "tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "rx_bits", "fec_corrected_bits", "fec_uncorrected_codewords",
    "rx_crc_errors", "rx_errors", "rx_discards", "tx_discards", "pfc_rx_frames[3]", "pfc_tx_frames[3]",
    "pfc_rx_paused_us[3]", "link_downs", "ecn_marked_packets[3]", "trim_packets",
)  # fmt: skip
(
    TX_BYTES, RX_BYTES, TX_PACKETS, RX_PACKETS, RX_BITS, FEC_BITS, FEC_LOST,
    CRC, RX_ERRORS, RX_DISCARDS, TX_DISCARDS, PFC_RX, PFC_TX,
    PFC_RX_US, LINK_DOWNS, ECN, TRIMS,
) = range(17)  # fmt: skip
# A frame of 4,096 bytes of payload with its headers, as RDMA sends them; small ones are answers to the other direction.
FRAME_BYTES = 4200.0
BYTES_PER_GBIT = 1.25e8
# Bits on the wire to the bit of speed.
LINE_BITS_PER_GBIT = 1.0625e9


@njit(cache=True)
def _mix(x: Any) -> Any:
    """Spread 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _part(x: Any, shift: int, bits: int) -> float:
    """Return some bits of x as a number from 0 to 1."""
    return float((x >> np.uint64(shift)) & np.uint64((1 << bits) - 1)) / (1 << bits)


@njit(cache=True)
def _few(chance: float, likely: float, most: float) -> Any:
    """Return 0, or with a probability of `likely` a number of up to `most`, small ones more often."""
    if chance >= likely:
        return np.uint64(0)
    u = chance / likely
    return np.uint64(1.0 + (most - 1.0) * u * u * u)


@njit(cache=True, parallel=True)
def grow(
    counters: npt.NDArray[np.uint64], seed: int, gbps: float, hosts: int,
    load: npt.NDArray[np.float32], up: npt.NDArray[np.bool_], ber: npt.NDArray[np.float32],
    seconds: npt.NDArray[np.float32],
) -> None:  # fmt: skip
    """Let every port's counters grow, in place.

    - counters (k, n) in the order of PORT_COUNTERS; load (n,) share of its speed that each end sends; up (n,)
    - ber (n,) bits repaired to the bit; seconds (n,) between this sample of the end and the one before
    - hosts: links to NICs, which come first; `seed` differs from tick to tick
    """
    for link in prange(len(load) // 2):
        h = _mix(np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(link))
        for end in range(2):
            i, other = 2 * link + end, 2 * link + 1 - end
            h = _mix(h + np.uint64(0x9E3779B97F4A7C15))
            _traffic(counters, i, other, load, up, seconds, gbps, 1.0 + 0.06 * (_part(h, 0, 12) - 0.5))
            if up[i] and up[other]:
                bits = LINE_BITS_PER_GBIT * gbps * seconds[i]
                counters[RX_BITS, i] += np.uint64(bits)
                counters[FEC_BITS, i] += np.uint64(bits * ber[i] * (0.9 + 0.2 * _part(h, 12, 10)) + 0.5)
                _mishaps(counters, i, link < hosts, end, h, load[i])


@njit(cache=True)
def _traffic(counters: Any, i: int, other: int, load: Any, up: Any, seconds: Any, gbps: float, noise: float) -> None:
    if not (up[i] and up[other]):
        return
    full = BYTES_PER_GBIT * gbps * seconds[i]
    sent, came = full * min(load[i] * noise, 0.98), full * min(load[other] * noise, 0.98)
    counters[TX_BYTES, i] += np.uint64(sent)
    counters[RX_BYTES, i] += np.uint64(came)
    counters[TX_PACKETS, i] += np.uint64(sent / FRAME_BYTES + came / (16 * FRAME_BYTES))
    counters[RX_PACKETS, i] += np.uint64(came / FRAME_BYTES + sent / (16 * FRAME_BYTES))


@njit(cache=True)
def _mishaps(counters: Any, i: int, host: bool, end: int, h: Any, load: float) -> None:
    """Add what goes wrong now and then on good links, and what a busy fabric does all the time."""
    g = _mix(h ^ np.uint64(0xD6E8FEB86659FD93))
    damaged = _few(_part(g, 0, 24), 2e-5, 4.0)
    counters[FEC_LOST, i] += damaged
    counters[CRC, i] += damaged
    counters[RX_ERRORS, i] += damaged
    counters[RX_DISCARDS, i] += _few(_part(g, 24, 20), 1e-4, 12.0)
    counters[TX_DISCARDS, i] += _few(_part(g, 44, 20), 3e-5, 12.0)
    g = _mix(g)
    if not (host and end == 0):  # a switch
        paused = _few(_part(g, 0, 16), 0.02 * load, 40.0)
        counters[PFC_RX, i] += paused
        counters[PFC_RX_US, i] += paused * np.uint64(9)
        packets = load * 3e6
        counters[ECN, i] += np.uint64(packets * (0.5 + _part(g, 16, 12)) * 2e-3 * load)
        counters[TRIMS, i] += _few(_part(g, 28, 16), 2e-3 * load, 60.0)
    elif host:
        counters[PFC_TX, i] += _few(_part(g, 44, 16), 0.02 * load, 40.0)
