"""What the locator is asked, told and answers: `LocatorConfig`, `Observation`, `Fault`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.ports import PortStates

OPEN, CLEARING, CLEARED = "open", "clearing", "cleared"
# What counters of ports say of a fault: the same, something else, nothing although they were read, all that is known.
AGREE, DISAGREE, CLEAN, ALONE = "agree", "disagree", "clean", "alone"


@dataclass(frozen=True)
class LocatorConfig:
    """Parameters of the locator.

    - false_alarms_per_day: the stated rate at which a quiet fabric may raise a fault by chance
    - nominal_bps: what a healthy link carries; a train slower than `slow_fraction` of it is slow
    - background_loss: share of probes that a healthy path may lose (or damage); more than this is learnt from peers
    - delay_floor_ms: a delay below this is never a fault
    - common_clock: one-way delays of different nodes compare directly (one machine, or clocks kept within 100 us)
    - silent_ticks: ticks without a report before an agent is away
    - expect_agents: a node whose agent was never heard is away; if False it has no data, until it is heard
    - hold_s: how long a dead part must be well before its fault is cleared
    - flap_window_s: two spells of death that begin within this time are a flap
    - flap_gap_s: a part that was cleared and dies again within this time of its last spell is a flap
    - optic_flap_max_s: a transceiver that takes longer than this to come back is down, not flapping
    - patience_s: how long evidence that fits several parts is gathered before it is told with all of them
    """

    tick_s: float = 0.5
    false_alarms_per_day: float = 0.1
    nominal_bps: float = 20e6
    slow_fraction: float = 0.95
    background_loss: float = 1e-5
    delay_floor_ms: float = 0.5
    common_clock: bool = True
    silent_ticks: int = 4
    hold_s: float = 4.0
    flap_window_s: float = 20.0
    flap_gap_s: float = 6.0
    optic_flap_max_s: float = 8.0
    patience_s: float = 30.0
    expect_agents: bool = True


@dataclass(frozen=True)
class Observation:
    """All evidence of one tick.

    - stats: rows of all agents, one-way halves joined
    - silent: nodes whose agent sent no report of this tick
    - unclean: nodes whose losses may be their own
    """

    tick: int
    stats: PathStats
    ports: PortStates
    silent: tuple[int, ...] = ()
    unclean: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fault:
    """One located fault.

    - key: the same from the first report to `cleared`, whatever else is refined
    - kind: a kind of `fabric.faults.KINDS`; `also_kinds` fit the evidence too
    - direction: `up`, `down`, `both`; `directions` are all that fit the evidence
    - rate, rate_low, rate_high: loss or corruption a crossing of one link, with its 95% interval; NaN where unused
    - delay_ms: added delay a crossing; gbps: what a slow link still carries; NaN where unused
    - indistinguishable: names of other parts that fit the evidence as well
    - network: whether the network is at fault (an agent away is not)
    - denied_links: directed links (2 * link + direction) that traffic should avoid
    - counters: `agree`, `disagree`, `clean` or `alone`, see above; empty where they say nothing
    """

    key: str
    target: str
    kind: str
    direction: str
    since_tick: int
    status: str
    confidence: float
    rate: float
    rate_low: float
    rate_high: float
    delay_ms: float
    gbps: float
    also_kinds: tuple[str, ...]
    directions: tuple[str, ...]
    indistinguishable: tuple[str, ...]
    evidence: tuple[str, ...]
    network: bool
    denied_links: tuple[int, ...]
    counters: str = ""
