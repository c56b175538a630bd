"""A hub, a disk and messages for tests of those who take them in."""

from __future__ import annotations

from dataclasses import replace

from synthetic_world import FIRST_TICK, TICK_S

from railkeeper.base.errors import OutsideError
from railkeeper.probe.link import Message
from railkeeper.probe.pathstats import encode_report


def message(name, type_, body=b"", *, seq=1, session=1, **data):
    return Message(name, type_, seq, body, data, session, b"address")


def tick_message(report, *, seq=None, name=None, **changes):
    said = replace(report, **changes)
    number = said.tick - FIRST_TICK + 1000 if seq is None else seq
    return message(name or f"agent/n{said.node}", "tick", encode_report(said), seq=number)


class Line:
    """A hub that notes the order of what the keeper does, and a clock that goes on as it is polled."""

    def __init__(self, now=FIRST_TICK * TICK_S):
        self.now, self.queue, self.log, self.denied = now, [], [], []

    def clock(self):
        return self.now

    def poll(self, timeout_s=0.0):
        self.now += max(timeout_s, 1e-4)
        due = [m for t, m in self.queue if t <= self.now]
        self.queue = [(t, m) for t, m in self.queue if t > self.now]
        return due

    def say(self, *messages, at=0.0):
        self.queue += [(at, m) for m in messages]

    def ack(self, m):
        self.log.append(("ack", m.name, m.seq))

    def deny(self, version, links):
        self.denied.append((version, tuple(links)))

    def close(self):
        pass


class Disk:
    """A history that notes when it was made durable, and may refuse."""

    run = "1"

    def __init__(self, line, failing=0, retry=True):
        self.line, self.failing, self.retry, self.records = line, failing, retry, []

    def append(self, record):
        self.records.append(record)
        self.line.log.append(("append", record.name, record.seq))

    def sync(self):
        if self.failing:
            self.failing -= 1
            raise OutsideError("no space left", retry=self.retry)
        self.line.log.append(("sync",))
