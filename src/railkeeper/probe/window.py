"""The ticks that an agent has under way: what it sent in them, what came back so far, what it lost by its own doing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.probe.aggregate import belongs, tick_stats
from railkeeper.probe.pathstats import TickReport
from railkeeper.probe.wire import join_probes, read_probes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.probe.aggregate import Table
    from railkeeper.probe.wire import Probes

MAX_PENDING = 1_000_000  # probes in memory (about 100 bytes each); more are dropped, as a full socket would
MAX_AHEAD = 4  # ticks by which a sender's clock may be ahead of ours
MAX_BEHIND = 16  # ticks that are still reported after a pause; of a longer one nothing is known


@dataclass
class OwnLoss:
    """What the agent itself lost in a tick; see TickReport."""

    unsent: int = 0
    socket_dropped: int = 0
    host_dropped: int = 0


@dataclass
class _Open:
    sent: npt.NDArray[np.int64]
    seq: npt.NDArray[np.int64]
    loss: OwnLoss = field(default_factory=OwnLoss)


class Window:
    """Ticks from the first whole one after `start_ns` on; times are unix ns and are handed in.

    The tick in which an agent starts is not reported: others sent to it before it was there.
    """

    def __init__(
        self, fabric: Fabric, node: int, table: Table, *, tick_s: float, grace_s: float, start_ns: int
    ) -> None:
        self._fabric, self._node, self._table = fabric, node, table
        self._tick_s, self._tick_ns, self._grace_ns = tick_s, round(tick_s * 1e9), round(grace_s * 1e9)
        self.next = self.tick_at(start_ns) + 1  # the next tick to close
        self._open: dict[int, _Open] = {}
        self._pending: list[Probes] = []
        self._n_pending = 0
        self.stray = 0
        self._skipped = 0

    def use(self, table: Table) -> None:
        """Go on with a table that has other rows behind those of the plan; rows that go had nothing under way."""
        self._table = table
        for tick, state in self._open.items():
            grown = self._new()
            n = min(len(table), len(state.sent))
            grown.sent[:n], grown.seq[:n], grown.loss = state.sent[:n], state.seq[:n], state.loss
            self._open[tick] = grown

    def tick_at(self, now_ns: int) -> int:
        """Return the number of the tick at a time."""
        return now_ns // self._tick_ns

    def started(self, now_ns: int) -> bool:
        """Return whether the first tick has begun."""
        return self.tick_at(now_ns) >= self.next

    def set_back(self, now_ns: int) -> bool:
        """Return whether the clock was set back so far that the window is in the future."""
        return self.tick_at(now_ns) < self.next - MAX_AHEAD

    def number(self, tick: int, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """Return the next sequence numbers of paths `rows` in a tick; rows may repeat."""
        seq = self._of(tick).seq
        order = np.argsort(rows, kind="stable")
        grouped = rows[order]
        turn = np.arange(len(rows)) - np.searchsorted(grouped, grouped)
        out = np.empty(len(rows), dtype=np.int64)
        out[order] = seq[grouped] + turn
        np.add.at(seq, rows, 1)
        return out

    def sent(self, tick: int, rows: npt.NDArray[np.intp], unsent: int) -> None:
        """Count probes of paths `rows` that left in a tick, and those that this host had no room for."""
        np.add.at(self._of(tick).sent, rows, 1)
        self._of(tick).loss.unsent += unsent

    def arrived(
        self,
        payload: npt.NDArray[np.uint8],
        length: npt.NDArray[np.integer],
        received_ns: npt.NDArray[np.int64],
        now_ns: int,
    ) -> None:
        """Take in packets; whatever is no probe for this agent is counted stray."""
        probes = read_probes(payload, length, received_ns)
        ours = belongs(self._fabric, self._node, self._table, probes)
        ours &= (probes.tick <= self.tick_at(now_ns) + MAX_AHEAD) & (probes.tick >= 0)
        self.stray += len(length) - int(ours.sum())
        if self._n_pending + len(probes) > MAX_PENDING:
            self.lost(now_ns, socket_dropped=int(ours.sum()))
            return
        self._n_pending += int(ours.sum())
        self._pending.append(probes.take(ours))

    def lost(self, now_ns: int, *, socket_dropped: int = 0, host_dropped: int = 0) -> None:
        """Note losses of the agent's own since the last call: any tick that is open may have suffered them."""
        if socket_dropped or host_dropped:
            for tick in range(self.next, self.tick_at(now_ns) + 1):
                self._of(tick).loss.socket_dropped += socket_dropped
                self._of(tick).loss.host_dropped += host_dropped

    def ripe(self, now_ns: int) -> bool:
        """Return whether a tick can be closed, all that came before `now_ns` being taken in."""
        return self._deadline(self.next) <= now_ns

    def close(self, now_ns: int) -> Iterator[TickReport]:
        """Close all ripe ticks, oldest first; ports and forgotten ticks are left to the caller."""
        newest = (now_ns - self._grace_ns) // self._tick_ns - 1
        if newest - self.next >= MAX_BEHIND:
            self._skip_to(newest - MAX_BEHIND + 1)
        while self.ripe(now_ns):
            yield self._close(self.next)

    def _close(self, tick: int) -> TickReport:
        probes, late = self._take(tick)
        state = self._open.pop(tick, None) or self._new()
        self.next = tick + 1
        stray, self.stray = self.stray, 0
        skipped, self._skipped = self._skipped, 0
        return TickReport(
            node=self._node, tick=tick, tick_s=self._tick_s, stats=tick_stats(self._table, state.sent, probes, late),
            unsent=state.loss.unsent, socket_dropped=state.loss.socket_dropped, host_dropped=state.loss.host_dropped,
            ticks_dropped=skipped, stray=stray, late=len(late),
        )  # fmt: skip

    def _take(self, tick: int) -> tuple[Probes, Probes]:
        """Take out the probes of a tick that came in time, and those of this or older ticks that did not."""
        everything = join_probes([*self._pending, _none()])
        over = everything.received_ns > (everything.tick + 1) * self._tick_ns + self._grace_ns
        late = over & (everything.tick <= tick)
        now = ~over & (everything.tick == tick)  # in time, but for an older tick: one that we never opened
        rest = everything.take(everything.tick > tick)
        self._pending, self._n_pending = [rest], len(rest)
        return everything.take(now), everything.take(late)

    def _skip_to(self, tick: int) -> None:
        self._skipped += tick - self.next
        self.next = tick
        self._open = {t: o for t, o in self._open.items() if t >= tick}

    def _deadline(self, tick: int) -> int:
        return (tick + 1) * self._tick_ns + self._grace_ns

    def _of(self, tick: int) -> _Open:
        if tick not in self._open:
            self._open[tick] = self._new()
        return self._open[tick]

    def _new(self) -> _Open:
        zero = np.zeros(len(self._table), dtype=np.int64)
        return _Open(zero, zero.copy())


def _none() -> Probes:
    return read_probes(np.zeros((0, 96), dtype=np.uint8), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
