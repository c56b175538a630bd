"""Hot among equal paths: ports whose share of marked (or trimmed) packets is far above that of their siblings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.families import Families, mean_of_others
from railkeeper.health.detect.finding import Finding
from railkeeper.health.detect.judging import number, percent
from railkeeper.health.detect.known import at
from railkeeper.health.detect.lasting import Lasting, last
from railkeeper.health.detect.screen import above

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Ids = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.float32]

# Ports that send less say nothing of their path.
BUSY_PER_S = 1000.0
# A port is compared with at least so many others.
LEAST_SIBLINGS = 2


@dataclass(frozen=True)
class Hot:
    """Hot ports (m,), ascending: since when, events to the packet, the mean of so many siblings."""

    ids: Ids
    since_s: npt.NDArray[np.float64]
    ratio: Floats
    siblings: npt.NDArray[np.float64]
    n_siblings: npt.NDArray[np.int64]


def follow_hot(
    lasting: Lasting, families: Families, view: View, columns: tuple[Floats, Floats], p: dict[str, float]
) -> Hot:
    """Follow hot ports for a tick.

    `columns` are (events, packets) per s. `p` has floor_ratio and factor.
    """
    events, packets = columns
    near = above(events, p["floor_ratio"] * BUSY_PER_S)
    near = near[events[near] > p["floor_ratio"] * packets[near]]
    watched = np.union1d(near, lasting.ids).astype(np.int32)
    ratio = _ratio(events, packets, watched)
    mean, n = mean_of_others(families, near, ratio)
    hit = near[(n >= LEAST_SIBLINGS) & (ratio[near] > p["factor"] * np.fmax(mean, 0.0) + p["floor_ratio"])]
    dark = lasting.ids[np.isnan(events[lasting.ids]) | np.isnan(packets[lasting.ids])]
    found = last(lasting, view, hit, ratio[hit], dark)
    mean, n = mean_of_others(families, found.ids, ratio)
    return Hot(found.ids, found.since_s, found.values, mean, n)


def _ratio(events: Floats, packets: Floats, watched: Ids) -> Floats:
    """Return (n,) events to the packet where packets flow; worked out only where somebody is looked at."""
    if not len(watched):
        return events
    busy = packets >= BUSY_PER_S
    out = np.full(len(events), np.nan, dtype=np.float32)
    np.divide(events, packets, out=out, where=busy)
    return out


def hot_findings(view: View, hot: Hot, detector: str, signal: str, means: str) -> list[Finding]:
    """Return a finding for each hot port."""
    return [_finding(view, hot, i, (detector, signal, means)) for i in range(len(hot.ids))]


def _finding(view: View, hot: Hot, i: int, said: tuple[str, str, str]) -> Finding:
    detector, signal, means = said
    port = int(hot.ids[i])
    other = int(view.entities.other[port])
    value, normal = float(hot.ratio[i]), float(hot.siblings[i])
    return Finding(
        detector=detector, kind="port", entity=port, verdict="degraded", signal=signal, value=value,
        expected=normal, unit="of packets", against="peers", since_s=float(hot.since_s[i]),
        confidence=0.85 if hot.n_siblings[i] >= 8 else 0.7,
        evidence=(
            f"{signal} {percent(value)} of packets, its {hot.n_siblings[i]} siblings {percent(normal)}: {means}",
            *_bytes(view, port),
        ),
        others=(other,) if other >= 0 else (),
    )  # fmt: skip


def _bytes(view: View, port: int) -> tuple[str, ...]:
    sent = float(at(view, "tx_bytes", np.array([port]))[0])
    return () if np.isnan(sent) else (f"it sends {number(sent * 8)} b/s",)
