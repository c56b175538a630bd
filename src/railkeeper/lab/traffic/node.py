"""One node's sender and receiver as a process: works a few dozen times a second, so that it costs little CPU."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.lab.traffic import evstate, receiver, sender
from railkeeper.lab.traffic.flowstats import encode_flows
from railkeeper.lab.traffic.outbox import Burst, Outbox
from railkeeper.lab.traffic.report import Totals, make_report
from railkeeper.lab.traffic.ring import rings
from railkeeper.lab.traffic.wire import REVERSE, Parsed, Type, control, parse, read_sack
from railkeeper.probe.link import KeeperLink
from railkeeper.probe.sockets import BatchUdp

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.lab.traffic.config import TrafficConfig
    from railkeeper.lab.traffic.receiver import RxFlow
    from railkeeper.lab.traffic.ring import Ring
    from railkeeper.lab.traffic.sender import TxFlow
    from railkeeper.probe.sockets import Arrivals

KEEPALIVE_NS = 100_000_000
WAY_BACK_PROBE_NS = 200_000_000
KEEPER_EVERY_NS = 100_000_000
BURST_S = 0.1
_BATCH = 256


class TrafficNode:
    """All flows of one node; inert until `start`, then `step` again and again, then `close`."""

    def __init__(self, config: TrafficConfig) -> None:
        self.config = config
        f = config.fabric
        rng = np.random.default_rng([config.seed, config.node])
        self.tx: dict[tuple[int, int], TxFlow] = {}
        self.rx: dict[tuple[int, int], RxFlow] = {}
        self._jobs: list[tuple[TxFlow, RxFlow, Ring]] = []
        nics = range(config.node * f.nics_per_node, (config.node + 1) * f.nics_per_node)
        for ring in rings(f, chunk=config.chunk, order=config.order):
            for nic in (n for n in nics if n in ring.nics):
                out = sender.make_flow(f, nic, ring.successor(nic), rng, config.rules)
                back = receiver.make_receiver(f, ring.predecessor(nic), nic, rng)
                self.tx[out.src, out.dst], self.rx[back.src, back.dst] = out, back
                self._jobs.append((out, back, ring))
        self.totals = Totals()
        self._tokens = dict.fromkeys(self.tx, 0.0)
        self._asked_ns = dict.fromkeys(self.rx, 0)
        self._deny_version = -1
        self._keeper_ns = 0

    # -- life -------------------------------------------------------------------------------------------
    def start(self, now_ns: int) -> None:
        """Open the socket and the line to the keeper, in the network namespace that the process is in."""
        c = self.config
        # A later run of the node has a greater epoch: units of 67 ms, modulo 2**32.
        self._epoch = (now_ns >> 26) % (1 << 32)
        self._socket = BatchUdp(c.port, batch=_BATCH, buffer_bytes=4 << 20)
        self._outbox = Outbox(c.size, _BATCH, _indices(c))
        self._link = KeeperLink(c.keeper, f"sender/n{c.node}", curve=c.curve) if c.keeper else None
        self._last_ns = now_ns
        self._tick = self._tick_of(now_ns)
        self._socket_dropped = self._socket.dropped

    def close(self) -> None:
        """Close what `start` opened."""
        self._socket.close()
        if self._link is not None:
            self._link.close()

    def step(self, now_ns: int) -> None:
        """Do what is due at `now_ns` (unix clock)."""
        looked_ns = now_ns
        self._receive(now_ns)
        for flow in self.tx.values():
            sender.find_lost(flow, now_ns)
            sender.fall_silent(flow, now_ns)
            sender.change(flow, evstate.end_skips(flow.evs, now_ns))
        self._answer(looked_ns, now_ns)
        self._probe(now_ns)
        self._send(now_ns)
        self._flush(now_ns)
        self._talk(now_ns)
        self._last_ns = now_ns

    # -- in ---------------------------------------------------------------------------------------------
    def _receive(self, now_ns: int) -> None:
        while True:
            arrivals = self._socket.receive()
            if len(arrivals):
                self._take(arrivals, parse(arrivals.payload, arrivals.length), now_ns)
            if len(arrivals) < self._socket.batch:
                return

    def _take(self, arrivals: Arrivals, parsed: Parsed, now_ns: int) -> None:
        self.totals.stray += parsed.stray
        self._take_corrupt(parsed)
        kind = parsed.head["type"]
        is_data = kind == Type.DATA
        if is_data.any():
            self._take_data(parsed.head[is_data], arrivals.time_ns[parsed.rows[is_data]])
        for i in np.flatnonzero(~is_data).tolist():
            known = self._take_control(parsed.head[i], arrivals.payload[parsed.rows[i]], now_ns)
            self.totals.stray += not known

    def _take_corrupt(self, parsed: Parsed) -> None:
        for head in parsed.corrupt:
            self.totals.corrupt += 1
            flow = self.rx.get((int(head["src"]), int(head["dst"])))
            if flow is not None and head["type"] == Type.DATA:
                receiver.on_corrupt(flow, int(head["ev"]))

    def _take_data(self, head: npt.NDArray[Any], arrived_ns: npt.NDArray[np.int64]) -> None:
        known = 0
        for (src, dst), flow in self.rx.items():
            mine = (head["src"] == src) & (head["dst"] == dst)
            if mine.any():
                known += int(np.count_nonzero(mine))
                receiver.on_data(flow, head[mine], arrived_ns[mine])
        self.totals.stray += len(head) - known

    def _take_control(self, head: Any, payload: npt.NDArray[np.uint8], now_ns: int) -> bool:
        """Take in a SACK, PROBE or REPLY; return whether it was for a flow of ours."""
        src, dst, kind = int(head["src"]), int(head["dst"]), int(head["type"])
        if head["flags"] & REVERSE:
            flow = self.tx.get((dst, src))
            if flow is not None:
                self._from_receiver(flow, kind, head, payload, now_ns)
            return flow is not None
        back = self.rx.get((src, dst))
        if back is not None:
            self._from_sender(back, kind, head, now_ns)
        return back is not None

    def _from_receiver(self, flow: TxFlow, kind: int, head: Any, payload: npt.NDArray[np.uint8], now_ns: int) -> None:
        mark = int(head["mark"])
        sender.heard(flow, mark, now_ns)
        if kind == Type.SACK:
            sender.looked(flow, int(head["time_ns"]))
            sack = read_sack(payload)
            if sack.peer_epoch == self._epoch:
                sender.on_sack(flow, sack, mark=mark, now_ns=now_ns, size=self.config.size)
        elif kind == Type.REPLY:
            sender.probe_answered(flow, int(head["ev"]), int(head["seq"]), now_ns)
        elif kind == Type.PROBE:
            ev = int(sender.spray(flow, np.array([-1]))[0])
            self._put(flow, ev, Type.REPLY, now_ns, echo=head)

    def _from_sender(self, flow: RxFlow, kind: int, head: Any, now_ns: int) -> None:
        if receiver.enter_epoch(flow, int(head["epoch"])):
            receiver.adopt(flow, int(head["mark"]))
        if kind == Type.PROBE:
            self._put(flow, receiver.way_back(flow), Type.REPLY, now_ns, echo=head)
        elif kind == Type.REPLY:
            receiver.answered(flow, int(head["ev"]))

    # -- out --------------------------------------------------------------------------------------------
    def _put(
        self, flow: TxFlow | RxFlow, ev: int, kind: Type, now_ns: int, *, request: int = 0, echo: Any = None,
        sack: Any = None,
    ) -> None:  # fmt: skip
        """Queue a control packet over `ev`; a REPLY carries the EV and number of the PROBE `echo`."""
        forward = isinstance(flow, sender.TxFlow)
        paths = flow.paths if isinstance(flow, sender.TxFlow) else flow.back
        src, dst = (flow.src, flow.dst) if forward else (flow.dst, flow.src)
        packet = control(
            kind, src=src, dst=dst, plane=int(paths.plane[ev]), t1=int(paths.t1[ev]), epoch=self._epoch,
            ev=ev if echo is None else int(echo["ev"]), seq=request if echo is None else int(echo["seq"]),
            mark=flow.cum, time_ns=now_ns, flags=0 if forward else REVERSE, sack=sack,
        )  # fmt: skip
        self._outbox.add(packet, flow.addresses[ev], self._first_port(src) + int(paths.plane[ev]))

    def _first_port(self, nic: int) -> int:
        f = self.config.fabric
        return (nic % f.nics_per_node) * f.planes

    def _answer(self, looked_ns: int, now_ns: int) -> None:
        """Say what has arrived; now and then also that nothing has, which tells a lost packet from a silent peer."""
        for flow in self.rx.values():
            if flow.owed or now_ns - flow.said_ns >= KEEPALIVE_NS:
                sack = receiver.write_sack(flow, now_ns)
                self._put(flow, receiver.way_back(flow), Type.SACK, looked_ns, sack=sack)

    def _probe(self, now_ns: int) -> None:
        for flow in self.tx.values():
            for ev, request in sender.probes(flow, now_ns):
                self._put(flow, ev, Type.PROBE, now_ns, request=request)
        for key, back in self.rx.items():
            if now_ns - self._asked_ns[key] >= WAY_BACK_PROBE_NS:
                self._asked_ns[key] = now_ns
                ev, request = receiver.ask(back)
                self._put(back, ev, Type.PROBE, now_ns, request=request)

    def _send(self, now_ns: int) -> None:
        c = self.config
        elapsed_s = max(0, now_ns - self._last_ns) / 1e9
        for flow, back, ring in self._jobs:
            key = flow.src, flow.dst
            tokens = min(self._tokens[key] + elapsed_s * c.rate_pps, max(1.0, BURST_S * c.rate_pps))
            psns, lost_on = sender.due(flow, min(int(tokens), self._outbox.room), ring.limit(back.cum))
            self._tokens[key] = tokens - len(psns)
            if len(psns):
                burst = Burst(flow, psns, lost_on, sender.spray(flow, lost_on))
                self._outbox.add_data(
                    burst, epoch=self._epoch, first_port=self._first_port(flow.src), now_ns=time.time_ns()
                )  # fmt: skip

    def _flush(self, now_ns: int) -> None:
        unsent, bursts = self._outbox.flush(self._socket, self.config.port)
        self.totals.unsent += unsent
        for b, left, turned_down in bursts:
            sender.sent(b.flow, b.psns, b.lost_on, b.evs, left, now_ns=now_ns)
            b.flow.unsent += int(np.count_nonzero(~left & ~turned_down))
            if turned_down.any():
                sender.refused(b.flow, b.evs[turned_down], now_ns)

    # -- the keeper ---------------------------------------------------------------------------------------
    def _talk(self, now_ns: int) -> None:
        tick = self._tick_of(now_ns)
        if tick != self._tick:
            self._report(self._tick)
            self._tick = tick
        if self._link is not None and now_ns - self._keeper_ns >= KEEPER_EVERY_NS:
            self._keeper_ns = now_ns
            for command in self._link.poll():
                self._command(command, now_ns)

    def _tick_of(self, now_ns: int) -> int:
        return int(now_ns // round(self.config.tick_s * 1e9))

    def _report(self, tick: int) -> None:
        dropped = self._socket.dropped
        self.totals.socket_dropped = (dropped - self._socket_dropped) % (1 << 32)
        self._socket_dropped = dropped
        self.totals.ticks_dropped = self._link.take_forgotten() if self._link else 0
        report = make_report(self.config, tick, self._jobs, self.totals, self._deny_version)
        self.totals = Totals()
        self.reported(encode_flows(report))

    def reported(self, body: bytes) -> None:
        """Hand over one tick's report in its wire form."""
        if self._link is not None:
            self._link.send("flows", body)

    def _command(self, command: dict[str, Any], now_ns: int) -> None:
        version, links = command.get("version"), command.get("links")
        if command["type"] != "deny" or not isinstance(version, int) or not isinstance(links, list):
            return
        denied_links = np.array([x for x in links if isinstance(x, int)], dtype=np.int64)
        outcome = [sender.obey(flow, denied_links, now_ns) for flow in self.tx.values()]
        for back in self.rx.values():
            receiver.obey(back, denied_links)
        self._deny_version = version
        if self._link is not None:
            paths, refused = (sum(o[i] for o in outcome) for i in (0, 1))
            self._link.tell({"type": "denied", "version": version, "paths": paths, "refused": refused})


def _indices(config: TrafficConfig) -> npt.NDArray[np.int64]:
    """Return the interface numbers of the node's ports; 0, the routing table's choice, where there is none."""
    indices = np.zeros(config.fabric.nics_per_node * config.fabric.planes, dtype=np.int64)
    for i, name in enumerate(config.interfaces):
        with contextlib.suppress(OSError):
            indices[i] = socket.if_nametoindex(name)
    return indices


def run_sender(config: TrafficConfig) -> None:
    """Run a node's traffic until SIGTERM or SIGINT; for the main thread of a process in the node's namespace."""
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: stopped.append(got))
    node = TrafficNode(config)
    node.start(time.time_ns())
    gc.freeze()  # what is there now stays: no need to look at it again
    period_ns = int(config.wake_s * 1e9)
    # Nodes wake at different moments, or they would all ask for the CPU at once.
    wake_ns = time.time_ns() + config.node * period_ns // config.fabric.n_nodes
    try:
        while not stopped:
            # Never longer than a period, whatever has been done to the clock.
            time.sleep(min(max(0, wake_ns - time.time_ns()), period_ns) / 1e9)
            now_ns = time.time_ns()
            node.step(now_ns)
            wake_ns = min(max(wake_ns + period_ns, now_ns), now_ns + period_ns)
    finally:
        node.close()
