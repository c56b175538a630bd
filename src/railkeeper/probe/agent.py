"""The mapper's agent, one a node: sends probes by plan, aggregates what comes back, reports once a tick.

It wakes some thirty times a second and not for each arrival: the kernel stamps arrivals, so nothing is lost by
reading them later, and the processor is left to the node's own work.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from railkeeper.base.errors import InputError, OutsideError
from railkeeper.fabric.paths import PathKind, join_paths, outer_addresses
from railkeeper.probe.aggregate import Table
from railkeeper.probe.extra import MOST_SHARE, Extra, read_ask
from railkeeper.probe.interfaces import InterfaceReader
from railkeeper.probe.link import KeeperLink
from railkeeper.probe.pathstats import encode_report
from railkeeper.probe.plan import make_plan
from railkeeper.probe.schedule import Schedule
from railkeeper.probe.sockets import BatchUdp
from railkeeper.probe.window import Window
from railkeeper.probe.wire import DEFAULT_PORT, PROBE_BYTES, make_stamper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.probe.interfaces import Interface
    from railkeeper.probe.link import Curve
    from railkeeper.probe.pathstats import TickReport
    from railkeeper.probe.plan import ProbeBudget, ProbePlan

# Probes stamped together: the last leaves some 10 us per probe after its stamp, so few, unless there are very many.
GROUP = 8
GROUPS_PER_WAKE = 8
# Arrivals that may wait in the socket, whose buffer holds several times as many: reading seldom is cheap.
AWAY_S = 5.0
READ_PACKETS = 2000
MAX_READS = 64  # batches read in one go; a flood must not keep the agent from its other work
_NO_INTERFACE = 0x7FFFFFFF  # a number that no interface has: sending fails, as it should
_BATCH = 256


@dataclass(frozen=True)
class AgentConfig:
    """Settings of one agent.

    `interfaces`: name of the interface of each of the node's ports, in the order of port ids. `grace_s`: how long
    after a tick's end its probes may still arrive; clocks of agents must agree to better than that.
    """

    fabric: Fabric
    node: int
    keeper: str
    interfaces: tuple[str, ...]
    tick_s: float = 0.5
    budget: ProbeBudget | None = None
    port: int = DEFAULT_PORT
    grace_s: float = 0.2
    wake_s: float = 0.04
    buffer_ticks: int = 240
    curve: Curve | None = None

    def __post_init__(self) -> None:
        ports = self.fabric.nics_per_node * self.fabric.planes
        if not 0 <= self.node < self.fabric.n_nodes:
            raise InputError("agent: node", f"is {self.node}", f"0 to {self.fabric.n_nodes - 1}")
        if len(self.interfaces) != ports:
            raise InputError("agent: interfaces", f"are {len(self.interfaces)}", f"one for each of the {ports} ports")


class Agent:
    """A running agent; `step()` does what is due and returns at once. Use `run_agent` for all of it."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = c = config
        self._plan = make_plan(c.fabric, c.node, c.budget)
        self._extra = Extra(self._plan.paths, MOST_SHARE * self._plan.probes_per_s, c.tick_s)
        self._use_paths()
        with contextlib.ExitStack() as stack:
            self._udp = stack.enter_context(BatchUdp(c.port, batch=_BATCH, size=_buffer_size(self._plan)))
            self._reader = InterfaceReader()
            stack.callback(self._reader.close)
            self._host = _HostDrops()
            stack.callback(self._host.close)
            self._link = KeeperLink(c.keeper, f"agent/n{c.node}", buffer=c.buffer_ticks, curve=c.curve)
            stack.callback(self._link.close)
            self._close = stack.pop_all().close
        self._train = 0
        self._read_at_s, self._read_every_s = 0.0, min(c.tick_s / 2, READ_PACKETS / self._plan.probes_per_s)
        self._socket_dropped = self._udp.dropped
        self._ports = self._read_ports()
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close sockets and the line to the keeper; the tick under way is not reported."""
        self._close()

    @property
    def connected(self) -> bool:
        """Whether the keeper is there."""
        return self._link.connected

    def step(self) -> None:
        """Receive, send what is due, close what is over, hear the keeper."""
        now_ns = time.time_ns()
        if self._window.set_back(now_ns):
            self._begin()
        if self._window.started(now_ns):
            self._send_singles()
            self._send_trains()
        if self._window.ripe(now_ns) or time.monotonic() >= self._read_at_s:
            self._read_at_s = time.monotonic() + self._read_every_s
            if self._receive(now_ns) and self._window.ripe(now_ns):
                self._report(now_ns)
        self._hear()

    def _begin(self) -> None:
        c = self._config
        self._window = Window(
            c.fabric, c.node, self._table(), tick_s=c.tick_s, grace_s=c.grace_s, start_ns=time.time_ns()
        )  # fmt: skip
        start_s = time.monotonic()
        self._singles = Schedule(self._plan.rate, start_s)
        self._trains = Schedule(self._plan.train_rate, start_s)
        self._extras = Schedule(self._extra.rates(start_s), start_s)

    def _table(self) -> Table:
        c, paths = self._config, self._paths
        here = (paths.kind != PathKind.ONEWAY) | (c.fabric.node_of(paths.dst) == c.node)
        return Table(paths, self._stamper.keys, here)

    def _use_paths(self) -> None:
        """Be ready to send on the plan's paths, and on the extra ones behind them."""
        f, paths = self._config.fabric, join_paths([self._plan.paths, self._extra.paths])
        self._paths, self._stamper, self._addresses = paths, make_stamper(paths), outer_addresses(f, paths)
        self._port_of_row = f.port_link(paths.src, paths.plane) - self._config.node * f.nics_per_node * f.planes

    def _hear(self) -> None:
        """Take up what the keeper asks to be probed, and leave what is over."""
        now_s, changed = time.monotonic(), False
        for message in self._link.poll():
            if message["type"] == "probe":
                ask = read_ask(self._config.fabric, self._config.node, message)
                changed |= ask is not None and self._extra.add(ask, now_s)
        if self._extra.drop(now_s) or changed:
            self._use_paths()
            self._window.use(self._table())
            self._extras = Schedule(self._extra.rates(now_s), now_s)

    # -- probes -------------------------------------------------------------------------------------
    def _send_singles(self) -> None:
        now_s = time.monotonic()
        rows, _ = self._singles.due(now_s)
        if len(self._extra):
            extra, _ = self._extras.due(now_s)
            rows = np.concatenate([rows, extra[self._extra.until_s[extra] > now_s] + len(self._plan)])
        size = max(GROUP, -(-len(rows) // GROUPS_PER_WAKE))
        for at in range(0, len(rows), size):
            self._send(rows[at : at + size], PROBE_BYTES)

    def _send_trains(self) -> None:
        rows, _ = self._trains.due(time.monotonic())
        for row in rows:
            self._train = self._train % 0xFFFFFFFF + 1
            self._send(np.repeat(row, self._plan.train_probes), self._plan.train_bytes, train=self._train)

    def _send(self, rows: npt.NDArray[np.intp], size: int, *, train: int = 0) -> None:
        packets = np.empty((len(rows), size), dtype=np.uint8)
        now_ns = time.time_ns()
        tick = self._window.tick_at(now_ns)
        self._stamper.stamp(
            packets, rows, tick=tick, time_ns=now_ns, seq=self._window.number(tick, rows), train=train,
            train_len=len(rows) if train else 1,
        )  # fmt: skip
        result = self._udp.send(
            packets, self._addresses[rows], self._config.port, interfaces=self._interfaces[self._port_of_row[rows]]
        )
        # What was refused never set out on its path: it is no loss of the path, and the port's state tells why.
        # What was stamped and then held up here for long may come too late: that is our doing, not the path's.
        held_up = len(rows) if time.time_ns() - now_ns > self._config.grace_s / 2 * 1e9 else 0
        self._window.sent(tick, rows[result.sent], max(result.unsent, held_up))

    def _receive(self, now_ns: int) -> bool:
        """Read what has come; returns whether all of it is read."""
        for _ in range(MAX_READS):
            got = self._udp.receive()
            if len(got):
                self._window.arrived(got.payload, got.length, got.time_ns, now_ns)
            if len(got) < _BATCH:
                return True
        return False

    # -- reports ------------------------------------------------------------------------------------
    def _report(self, now_ns: int) -> None:
        dropped = self._udp.dropped
        self._window.lost(
            now_ns, socket_dropped=(dropped - self._socket_dropped) % 2**32, host_dropped=self._host.new_drops()
        )
        self._socket_dropped = dropped
        self._ports = self._read_ports()
        for report in self._window.close(now_ns):
            self._send_report(report)

    def _send_report(self, report: TickReport) -> None:
        forgotten = self._link.take_forgotten() + report.ticks_dropped
        whole = replace(
            report, ticks_dropped=forgotten, port_state=tuple(_state(p) for p in self._ports),
            port_downs=tuple(p.downs if p else -1 for p in self._ports),
        )  # fmt: skip
        self._link.send("tick", encode_report(whole), weight=1 + forgotten)

    def _read_ports(self) -> list[Interface | None]:
        """Return the ports' interfaces; None where nothing could be read."""
        names = self._config.interfaces
        try:
            there = self._reader.read()
        except OutsideError:
            there = {}
        ports = [there.get(name) for name in names]
        self._interfaces = np.array([p.index if p else _NO_INTERFACE for p in ports], dtype=np.int64)
        return ports


def _state(port: Interface | None) -> int:
    return -1 if port is None else int(port.up)


def _buffer_size(plan: ProbePlan) -> int:
    return max(PROBE_BYTES, plan.train_bytes)


class _HostDrops:
    """Packets that the host's receive queues had no room for, over all its processors."""

    def __init__(self, path: str = "/proc/net/softnet_stat") -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1  # not there: what it would tell stays unknown, and other evidence has to do
        self._last = self._read()

    def new_drops(self) -> int:
        """Return the drops since the last call."""
        last, self._last = self._last, self._read()
        return max(0, self._last - last)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> int:
        if self._fd < 0:
            return 0
        lines = os.pread(self._fd, 1 << 20, 0).splitlines()
        return sum(int(line.split(None, 2)[1], 16) for line in lines)


class _Voice:
    """Says when the keeper is not there for a while, and when it is (again)."""

    def __init__(self, say: Callable[[str], None], keeper: str) -> None:
        self._say, self._keeper = say, keeper
        self._told = False
        self._away_since_s: float | None = time.monotonic()

    def hear(self, *, connected: bool) -> None:
        now_s = time.monotonic()
        if connected and self._away_since_s is not None:
            self._say(f"connected to {self._keeper}")
            self._away_since_s, self._told = None, False
        elif not connected and self._away_since_s is None:
            self._away_since_s = now_s
        elif self._away_since_s is not None and not self._told and now_s - self._away_since_s > AWAY_S:
            self._told = True
            self._say(
                f"no keeper answers at {self._keeper}; reports wait, and the oldest go when there is no more room"
            )


def run_agent(
    config: AgentConfig, stop: threading.Event | None = None, say: Callable[[str], None] = lambda _text: None
) -> None:
    """Run an agent until SIGTERM or SIGINT (or `stop`); in a thread, only `stop` ends it.

    `say` is told when the keeper is away or back. Raises OutsideError when the probe port or the keeper's endpoint
    can't be had.
    """
    stop = stop or threading.Event()
    voice = _Voice(say, config.keeper)
    with _stopping(stop), Agent(config) as agent:
        next_s = time.monotonic()
        while not stop.is_set():
            agent.step()
            voice.hear(connected=agent.connected)
            next_s = max(next_s + config.wake_s, time.monotonic())
            time.sleep(max(0.0, next_s - time.monotonic()))


@contextlib.contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.signal(s, lambda *_: stop.set()) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
