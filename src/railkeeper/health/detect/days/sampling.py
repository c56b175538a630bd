"""From what happens to what is read: counters that add up, wrap and restart, samples that are late or missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Doubles = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]
    Columns = dict[str, Doubles]

# Expected events below this come by chance, above it as good as exactly.
_FEW = 100.0
# What happens as often as it happens, and not by chance.
EXACT = frozenset({"link_downs"})
NARROW = frozenset({
    "ack_timeouts", "seq_naks_rx", "implied_naks_rx", "out_of_sequence_rx", "duplicates_rx", "rnr_naks_rx",
    "no_receive_buffer", "retransmitted_packets",
})  # fmt: skip


@dataclass(frozen=True)
class Answers:
    """How targets answer in one tick, by entity (n,): when sampled (s), and which are missing or repeat themselves."""

    sampled_s: Doubles
    missing: Mask
    repeats: Mask


@dataclass
class Meter:
    """Counters of all entities of a kind; `names` and `totals` (k, n) come with the first tick."""

    entities: Entities
    rng: np.random.Generator
    names: tuple[str, ...] = ()
    totals: Doubles = field(default_factory=lambda: np.empty((0, 0)))
    last_s: Doubles = field(default_factory=lambda: np.empty(0))
    last: Block | None = None

    def read(self, counters: Columns, gauges: Columns, answers: Answers, restarted: Mask) -> Block:
        """Let counters go on to the time of each sample, and return what is read; NaN columns are absent."""
        if not self.names:
            self._begin(tuple(counters), answers.sampled_s)
        rates = np.stack([counters[name] for name in self.names]) if self.names else np.empty((0, len(self.entities)))
        passed = np.maximum(answers.sampled_s - self.last_s, 0.0)
        self.last_s = np.maximum(self.last_s, answers.sampled_s)
        self.totals[:, restarted] = 0.0
        self.totals += self._grown(np.nan_to_num(rates) * passed)
        block = self._block(rates, gauges, answers)
        if self.last is not None and answers.repeats.any():
            _repeat(block, self.last, answers.repeats)
        self.last = block
        return _without(block, answers.missing)

    def _begin(self, names: tuple[str, ...], now_s: Doubles) -> None:
        self.names = names
        self.totals = np.floor(self.rng.uniform(0, 1e9, (len(names), len(self.entities))))
        for row, name in enumerate(names):
            if name in NARROW:  # some are about to wrap
                self.totals[row] = 2.0**32 - np.floor(self.rng.exponential(2e4, len(self.entities)))
        self.last_s = now_s - 30.0

    def _grown(self, expected: Doubles) -> Doubles:
        few = expected < _FEW
        few[[name in EXACT for name in self.names]] = False
        grown = np.round(expected)
        grown[few] = self.rng.poisson(expected[few])
        return grown

    def _block(self, rates: Doubles, gauges: Columns, answers: Answers) -> Block:
        widths = np.array([32 if name in NARROW else 64 for name in self.names], dtype=np.uint8)
        values = self.totals.astype(np.uint64)
        values[widths == 32] %= np.uint64(2**32)
        values[np.isnan(rates)] = np.uint64(ABSENT)
        table = np.stack([*gauges.values()]) if gauges else np.empty((0, len(self.entities)))
        times = np.round(answers.sampled_s * 1e9).astype(np.int64)
        return Block(self.entities, times, self.names, widths, values, tuple(gauges), table.astype(np.float32))


def _repeat(block: Block, before: Block, repeats: Mask) -> None:
    """Let some targets say again what they said before."""
    block.t_ns[repeats] = before.t_ns[repeats]
    block.counters[:, repeats] = before.counters[:, repeats]
    block.gauges[:, repeats] = before.gauges[:, repeats]


def _without(block: Block, missing: Mask) -> Block:
    if not missing.any():
        return block
    t_ns, counters, gauges = block.t_ns.copy(), block.counters.copy(), block.gauges.copy()
    t_ns[missing], counters[:, missing], gauges[:, missing] = NO_TIME, np.uint64(ABSENT), np.nan
    return Block(block.entities, t_ns, block.counter_names, block.widths, counters, block.gauge_names, gauges)
