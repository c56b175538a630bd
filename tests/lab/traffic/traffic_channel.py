"""A flow and its receiver joined by a channel of our own making, in simulated time."""

import numpy as np

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec
from railkeeper.lab.traffic import evstate, receiver, sender
from railkeeper.lab.traffic.wire import HEADER

MS = 1_000_000
SIZE = 100
FABRIC = Fabric(parse_spec("[fabric]\nplanes=2\nt0_per_plane=2\nt1_per_plane=4\nnics_per_t0=2\n"))


def never(_ev):
    return False


def always(_ev):
    return True


def at_once(_ev):
    return 0


class Channel:
    """One direction each way; `drops(ev)` and `delay_ms(ev)` decide what becomes of data."""

    def __init__(self, drops=never, delay_ms=at_once, seed=0):
        self.drops, self.delay_ms = drops, delay_ms
        self.now = 1_000_000_000_000
        self.tx = sender.make_flow(FABRIC, 0, 2, np.random.default_rng(seed))
        self.rx = receiver.make_receiver(FABRIC, 0, 2, np.random.default_rng(seed + 1))
        self.flying = []
        self.dropped = 0
        self.deaf = False
        sender.heard(self.tx, 0, self.now)

    def step(self, budget=10, limit=1 << 30, ms=50):
        self.now += ms * MS
        self._arrive()
        if not self.deaf:
            sack = receiver.write_sack(self.rx, self.now)
            sender.heard(self.tx, self.rx.cum, self.now)
            sender.looked(self.tx, self.now)
            if sack.peer_epoch == 7:
                sender.on_sack(self.tx, sack, mark=self.rx.cum, now_ns=self.now, size=SIZE)
        sender.find_lost(self.tx, self.now)
        sender.change(self.tx, evstate.end_skips(self.tx.evs, self.now))
        sender.fall_silent(self.tx, self.now)
        self._probe()
        psns, lost_on = sender.due(self.tx, budget, limit)
        if len(psns):
            self._send(psns, lost_on)

    def _arrive(self):
        here = [p for p in self.flying if p[0] <= self.now]
        self.flying = [p for p in self.flying if p[0] > self.now]
        if here:
            here.sort(key=lambda p: p[0])
            head = np.array([p[1] for p in here], dtype=HEADER)
            receiver.on_data(self.rx, head, np.array([p[0] for p in here]))

    def _send(self, psns, lost_on):
        evs = sender.spray(self.tx, lost_on)
        self.last_evs = evs
        for i, (psn, ev) in enumerate(zip(psns.tolist(), evs.tolist(), strict=True)):
            if self.drops(ev):
                self.dropped += 1
                continue
            head = np.zeros((), dtype=HEADER)
            head["ev"], head["psn"], head["seq"], head["epoch"] = ev, psn, self.tx.next_seq + i, 7
            head["mark"], head["time_ns"] = self.tx.cum, self.now
            self.flying.append((self.now + (1 + self.delay_ms(ev)) * MS + i, head))
        sender.sent(self.tx, psns, lost_on, evs, np.ones(len(psns), dtype=bool), now_ns=self.now)

    def _probe(self):
        for ev, request in sender.probes(self.tx, self.now):
            if not self.drops(ev):
                sender.probe_answered(self.tx, ev, request, self.now)

    def run(self, steps, **kwargs):
        for _ in range(steps):
            self.step(**kwargs)

    @property
    def states(self):
        return [evstate.State(s) for s in self.tx.evs.state]
