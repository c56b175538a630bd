"""A tick taken in: put to its rows, scanned for anything odd, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.fleet.index_kernels import put_on_entities
from railkeeper.health.fleet.plan_index import with_more
from railkeeper.health.fleet.scan_kernels import BLOCKS, scan
from railkeeper.health.fleet.state import PER_NEAR, Columns, FleetLocator, Memory, remember, start_memory
from railkeeper.health.fleet.windows import NOW
from railkeeper.health.track import CORRUPT, LOSS
from railkeeper.probe.pathstats import NO_TIME

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.fault import Observation
    from railkeeper.probe.pathstats import PathStats

    Longs = npt.NDArray[np.int64]
    Floats32 = npt.NDArray[np.float32]
    Bytes = npt.NDArray[np.uint8]

SPREADS = 8.0  # a delay must stand out of its peers by so many of their spreads
LEAST_PEERS = 4
ONEWAY_GROUPS = 3
NEAR_NOMINAL, OF_PEERS = 1.3, 0.5  # slow too: hardly above nominal, while peers are twice as fast
SLICES = 256  # ticks in which nominal exposures are counted anew
FEW_ROWS = 1 << 17  # up to so many they are counted anew in each tick
MEMORY = 0.98  # weight that a tick's losses on short rows keep in the next


def take_in(s: FleetLocator, obs: Observation, untrusted: set[int]) -> Columns:
    """Scan a tick and add it to the windows; returns its columns by row."""
    columns = _columns(s, obs.stats)
    m = _memory(s)
    m.exposure.begin(s.ticks_seen)
    probes = np.zeros((BLOCKS, len(PER_NEAR)), dtype=np.int64)
    c = s.config
    scan(
        columns.sent, columns.received, columns.corrupt, columns.delay_ns, columns.train_bps, _mute(s, untrusted),
        _limits_ms(s, columns), m.index.group, _slow_bps(c.slow_fraction, c.nominal_bps, columns.train_bps),
        m.exposure.now, m.exposure.fill[0], m.delay_before, m.slow_run, m.train_age, m.verdict, probes,
    )  # fmt: skip
    by_group = probes.sum(axis=0)
    m.near.probes = m.near.probes * MEMORY + float(by_group[0])
    m.sent.begin(s.ticks_seen)
    m.sent_now = float(by_group @ PER_NEAR)
    m.sent.add(m.sent_now)
    _count_nominal(s)
    return columns


def wrong_now(columns: Columns, family: str, rows: npt.NDArray[np.integer]) -> Longs:
    """Return what some rows lost (or found damaged) in this tick, as if all of them could be trusted."""
    sent = np.maximum(columns.sent[rows], 0)
    damaged = np.minimum(columns.corrupt[rows], sent)
    if family == CORRUPT:
        return np.asarray(damaged)
    came = columns.received[rows]
    return np.where(came < 0, 0, sent - damaged - np.minimum(came, sent - damaged))


def counts_of(m: Memory, family: str, columns: Columns, rows: Longs, scale: int) -> tuple[Longs, Longs]:
    """Return probes of rows that could go wrong in a family's way in a window, and how many did."""
    n = m.exposure.of(scale, rows)
    x = wrong_now(columns, family, rows) if scale == NOW else m.wrong[family].of_rows(scale, rows)
    if family == CORRUPT:
        n = n - (wrong_now(columns, LOSS, rows) if scale == NOW else m.wrong[LOSS].of_rows(scale, rows))
    return np.maximum(n, 0), x


def _memory(s: FleetLocator) -> Memory:
    if s.memory is None:
        raise AssertionError("a tick has been taken in")
    return s.memory


def _columns(s: FleetLocator, stats: PathStats) -> Columns:
    if s.memory is None:
        s.memory = start_memory(s.space, stats.paths)
    place = s.memory.index.place(stats.paths)
    if place is not None and (place < 0).any():
        s.memory = _grown(s, s.memory, stats.paths.take(place < 0))
        s.grown = True
        place = s.memory.index.place(stats.paths)
    if place is None:
        return Columns(stats.sent, stats.received, stats.corrupt, stats.delay_min_ns, stats.train_bps)
    n = len(s.memory.index)
    none = np.zeros(n, np.int64)
    out = Columns(none, none.copy(), none.copy(), np.full(n, NO_TIME), np.full(n, np.nan))
    out.sent[place], out.received[place], out.corrupt[place] = stats.sent, stats.received, stats.corrupt
    out.delay_ns[place], out.train_bps[place] = stats.delay_min_ns, stats.train_bps
    return out


def _grown(s: FleetLocator, old: Memory, new: object) -> Memory:
    """Return memory with more rows; known rows keep their numbers and counts."""
    index = with_more(old.index, new)  # type: ignore[arg-type]
    out, n = remember(s.space, index), len(old.index)
    out.exposure.fill[:, :n], out.exposure.full[:, :n] = old.exposure.fill, old.exposure.full
    out.exposure.now[:n] = old.exposure.now
    for family, wrong in old.wrong.items():
        out.wrong[family].rows[:n], out.wrong[family].entities = wrong.rows, wrong.entities
        out.wrong[family].total = wrong.total
        out.believed[family][:n] = old.believed[family]
    out.delay_before[:n], out.slow_run[:n], out.train_age[:n] = old.delay_before, old.slow_run, old.train_age
    out.near, out.sent, out.hiccups = old.near, old.sent, old.hiccups
    out.nominal, out.coming, out.counted_to = old.nominal, old.coming, old.counted_to
    return out


def _mute(s: FleetLocator, untrusted: set[int]) -> Bytes:
    """Return (rows,) 1 where losses may be a host's own, or nothing where all can be trusted."""
    if not untrusted:
        return np.empty(0, dtype=np.uint8)
    bad = np.zeros(s.fabric.n_nodes, dtype=np.uint8)
    bad[[n for n in untrusted if 0 <= n < s.fabric.n_nodes]] = 1
    paths = _memory(s).index.paths
    return np.asarray(bad[s.fabric.node_of(paths.src)] | bad[s.fabric.node_of(paths.dst)])


def _limits_ms(s: FleetLocator, columns: Columns) -> Floats32:
    """Return (groups,) least delays from which on a row stands out of like rows; inf where nothing can be said.

    One-way delays say nothing where clocks of different nodes do not agree.
    """
    m = _memory(s)
    out = np.full(len(m.sample), np.inf, dtype=np.float32)
    for g, rows in enumerate(m.sample):
        if g >= ONEWAY_GROUPS and not s.config.common_clock:
            continue
        now = np.where(columns.delay_ns[rows] == NO_TIME, np.inf, columns.delay_ns[rows] / 1e6)
        least = np.minimum(now, m.delay_before[rows])
        least = least[np.isfinite(least)]
        if len(least) >= LEAST_PEERS:
            low, base = np.quantile(least, [0.05, 0.25])
            out[g] = base + max(s.config.delay_floor_ms, SPREADS * (base - low))
    return out


def _slow_bps(fraction: float, nominal: float, trains: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return below what a train is slow: the first, or the second where also below the third (half of its peers)."""
    some = trains[:: (len(trains) >> 16) | 1]  # an odd step, since plans repeat themselves in even ones
    some = some[np.isfinite(some)]
    peers = float(np.median(some)) if len(some) else 0.0
    return np.array([fraction * nominal, NEAR_NOMINAL * nominal, OF_PEERS * peers])


def learn(s: FleetLocator, family: str, rows: npt.NDArray[np.int32], x: npt.NDArray[np.int32]) -> None:
    """Learn what healthy rows lose (or find damaged): what went wrong on some rows in this tick is handed in.

    It is the lower quartile over groups of nodes of what their shortest rows lost in the last minute: a fault on few
    of them, or beyond their T0s, does not move it. The chance of a longer row follows from the links that it crosses.
    """
    m = _memory(s)
    near = m.index.group[rows] == 0
    node = s.fabric.node_of(m.index.paths.src[rows[near]])
    known = m.near.wrong[family]
    known *= MEMORY
    known += np.bincount(node % len(known), weights=x[near], minlength=len(known))
    usual = float(np.quantile(known, 0.25)) * len(known) / m.near.probes if m.near.probes else 0.0
    s.background[family] = max(s.config.background_loss, usual)


def _count_nominal(s: FleetLocator) -> None:
    """Count the probes a tick over each entity: all at once in a small plan or at first, else a slice a tick."""
    m, links = _memory(s), s.fabric.n_links
    rows, parts, now = len(m.index), s.space.parts_of_link, m.exposure.now
    if rows <= FEW_ROWS or not m.nominal.any():
        m.nominal[:] = 0
        put_on_entities(m.index.crossed, parts, links, now, m.index.group, PER_NEAR, 0, rows, m.nominal)
        return
    last = min(rows, m.counted_to + -(-rows // SLICES))
    put_on_entities(m.index.crossed, parts, links, now, m.index.group, PER_NEAR, m.counted_to, last, m.coming)
    m.counted_to = last
    if last == rows:
        m.nominal, m.coming, m.counted_to = m.coming, m.nominal, 0
        m.coming[:] = 0
