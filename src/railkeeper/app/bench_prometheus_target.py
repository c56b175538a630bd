"""Exporters for the benchmark against Prometheus: one process that serves the error counters of many switches.

Run as `python -m railkeeper.app.bench_prometheus_target START_UNIX_S`; it prints its port. `/metrics/K` is target K.
Values are a function of time alone, so that whoever asks is told the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import dataclass

import numpy as np

NAME = "railkeeper_port_rx_crc_errors_total"
TARGETS = 50
SWITCHES = 20  # a target
PORTS = 500  # a switch
FIRST_VALUE = 1_000_000_000  # numbers keep their ten digits
SOME_PER_S = 0.05  # one port in a hundred has so many errors
BAD_PER_S = 5.0
# Switches with a bad port, over all targets.
BAD = (7, 123, 250, 388, 401, 555, 640, 777, 912, 999)


def switch_name(number: int) -> str:
    """Return the name of a switch, counted over all targets."""
    return f"p{number % 8}/t0-{number // 8}"


@dataclass
class Target:
    """The text of one target: where the ten digits of each number stand, and how fast each grows."""

    text: np.ndarray
    at: np.ndarray
    per_s: np.ndarray

    def at_time(self, seconds: float) -> bytes:
        """Return the text after so many seconds; only numbers that grow are written."""
        rows = np.flatnonzero(self.per_s)
        values = FIRST_VALUE + (self.per_s[rows] * max(seconds, 0.0)).astype(np.int64)
        for digit in range(10):
            self.text[self.at[rows] + 9 - digit] = 48 + values % 10
            values //= 10
        return self.text.tobytes()


def make_target(number: int) -> Target:
    """Return a target of SWITCHES x PORTS series."""
    lines = [f"# HELP {NAME} Frames with a bad checksum.\n# TYPE {NAME} counter\n"]
    rates = []
    for switch in range(number * SWITCHES, (number + 1) * SWITCHES):
        for port in range(PORTS):
            lines.append(f'{NAME}{{switch="{switch_name(switch)}",port="Ethernet{4 * port}"}} {FIRST_VALUE}\n')
            bad = switch in BAD and port == switch % PORTS
            rates.append(BAD_PER_S if bad else SOME_PER_S if (port * 7 + switch) % 100 == 0 else 0.0)
    ends = np.cumsum([len(line) for line in lines])[1:]
    text = np.frombuffer("".join(lines).encode(), np.uint8).copy()
    return Target(text, ends - 11, np.array(rates))


async def _serve(
    targets: list[Target], start_s: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            target = targets[int(head.split(b" ", 2)[1].rpartition(b"/")[2])]
            body = target.at_time(time.time() - start_s)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
    writer.close()


async def _main() -> None:
    start_s, targets = float(sys.argv[1]), [make_target(k) for k in range(TARGETS)]
    server = await asyncio.start_server(lambda r, w: _serve(targets, start_s, r, w), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
