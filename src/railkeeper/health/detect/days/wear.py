"""The physical layer of simulated days: every link with bits of its own that go wrong, optics that warm by day."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.days.jobs import DAY_S
from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Doubles = npt.NDArray[np.float64]
    Columns = dict[str, Doubles]

CODEWORD_BITS = 5440.0
LANES = 2
BINS = 16


@dataclass(frozen=True)
class Wear:
    """What each port is like, all the time: (n,) decades of its bit error ratio, powers, bias, temperature, errors."""

    ber: Doubles
    rx_dbm: npt.NDArray[np.float64]
    tx_dbm: npt.NDArray[np.float64]
    bias_ma: npt.NDArray[np.float64]
    warm_c: Doubles
    errors: Doubles


def draw_wear(ports: Entities, rng: np.random.Generator) -> Wear:
    """Return ports as they come: bit error ratios spread over decades, some parts better than others."""
    n = len(ports)
    return Wear(
        ber=np.clip(rng.normal(-8.3, 0.6, n), -11, -6.3), rx_dbm=rng.normal(0.5, 0.7, (LANES, n)),
        tx_dbm=rng.normal(1.5, 0.4, (LANES, n)), bias_ma=rng.normal(62.0, 3.0, (LANES, n)),
        warm_c=rng.normal(0.0, 2.5, n), errors=rng.lognormal(math.log(2e-7), 1.5, n),
    )  # fmt: skip


def warmth(t_s: float) -> float:
    """Return -1 in the night to 1 in the afternoon."""
    return float(np.sin(2 * np.pi * (t_s / DAY_S - 0.375)))


def physical_columns(ports: Entities, wear: Wear, t_s: float, gbps: float, rng: np.random.Generator) -> Columns:
    """Return counters of the physical layer of links that are up."""
    n = len(ports)
    ber = 10.0 ** (wear.ber + 0.12 * warmth(t_s) + rng.normal(0.0, 0.03, n))
    bits = gbps * 1e9
    words = bits / CODEWORD_BITS
    columns = {
        "rx_bits": np.full(n, bits), "fec_corrected_bits": ber * bits, "fec_uncorrected_codewords": wear.errors * 0.1,
        "fec_corrected_codewords": words * -np.expm1(-ber * CODEWORD_BITS), "rx_crc_errors": wear.errors,
        "rx_symbol_errors": wear.errors, "rx_errors": wear.errors * 1.2, "tx_errors": wear.errors * 0.1,
        "rx_length_errors": wear.errors * 0.1, "rx_unknown_protocol": np.full(n, 0.01),
        "link_recoveries": np.full(n, 1e-7),
    }  # fmt: skip
    for lane in range(LANES):
        columns[f"lane_errors[{lane}]"] = ber * bits / LANES * rng.lognormal(0.0, 0.05, n)
    mean = ber * CODEWORD_BITS
    for k in range(BINS):
        columns[f"fec_bin_codewords[{k}]"] = words * np.exp(-mean) * mean**k / math.factorial(k)
    return columns


def optics_gauges(ports: Entities, wear: Wear, t_s: float, rng: np.random.Generator) -> Columns:
    """Return gauges of optics."""
    n, day = len(ports), warmth(t_s)
    gauges = {
        "module_temperature_c": 48.0 + wear.warm_c + 4.0 * day + rng.normal(0.0, 0.3, n),
        "module_voltage_v": 3.3 + rng.normal(0.0, 0.005, n),
        "pre_fec_ber": np.where(ports.role == NIC_END, np.nan, 10.0 ** (wear.ber + 0.12 * day)),
    }
    for lane in range(LANES):
        noise = rng.normal(0.0, 0.05, (3, n))
        gauges[f"rx_power_dbm[{lane}]"] = wear.rx_dbm[lane] - 0.1 * day + noise[0]
        gauges[f"tx_power_dbm[{lane}]"] = wear.tx_dbm[lane] - 0.05 * day + noise[1]
        gauges[f"tx_bias_ma[{lane}]"] = wear.bias_ma[lane] + 0.8 * day + noise[2]
        gauges[f"snr_db[{lane}]"] = 22.0 + 0.5 * wear.rx_dbm[lane] + noise[2]
    return gauges


def host_columns(n: int, busy: npt.NDArray[np.bool_], stalls: Doubles, rng: np.random.Generator) -> Columns:
    """Return counters of NICs: PCIe errors that are repaired now and then, waits of busy ones."""
    rate = rng.lognormal(math.log(2e-6), 1.0, n)
    return {
        "pcie_correctable_errors": rate, "pcie_nonfatal_errors": np.zeros(n), "pcie_fatal_errors": np.zeros(n),
        "pcie_replays": rate * 2, "pcie_stalled_seconds": 0.5 * stalls * busy, "pcie_buffer_overflows": stalls * busy,
    }  # fmt: skip


def host_gauges(n: int) -> Columns:
    """Return gauges of NICs: PCIe as it should be."""
    return {
        "pcie_speed_gts": np.full(n, 32.0), "pcie_speed_max_gts": np.full(n, 32.0),
        "pcie_width": np.full(n, 16.0), "pcie_width_max": np.full(n, 16.0),
    }  # fmt: skip
