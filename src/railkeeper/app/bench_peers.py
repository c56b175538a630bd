"""Peers for the benchmark of sources: one process that is thousands of targets, some of them bad.

Run as `python -m railkeeper.app.bench_peers DEVICES`; it prints its port. What a target is stands in its path:
`/well/NAME`, `/slow/NAME` (whole, after SLOW_S), `/silent/NAME` (takes the question and says nothing),
`/endless/NAME` (a body without end), `/garbage/NAME`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys

SLOW_S = 2.0
COUNTERS = (
    "receive_bytes", "receive_packets", "receive_errs", "receive_drop", "receive_fifo", "receive_frame",
    "transmit_bytes", "transmit_packets", "transmit_errs", "transmit_drop", "transmit_fifo", "transmit_carrier",
)  # fmt: skip
RDMA = (
    "port_data_received_bytes", "port_data_transmitted_bytes", "port_errors_received", "port_transmit_wait",
    "link_downed", "link_error_recovery", "symbol_error", "port_packets_received", "port_packets_transmitted",
)  # fmt: skip
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"


def text_of(name: str, devices: int, count: int) -> bytes:
    """Return what a node_exporter of a host with so many NICs would say, at its count-th scrape."""
    lines = [f'# TYPE node_uname_info gauge\nnode_uname_info{{nodename="{name}",sysname="Linux"}} 1']
    for counter in COUNTERS:
        lines.append(f"# HELP node_network_{counter}_total Counted by the kernel.")
        lines.append(f"# TYPE node_network_{counter}_total counter")
        lines += [f'node_network_{counter}_total{{device="eth{k}"}} {count * 1000 + k}' for k in range(devices)]
    for counter in RDMA:
        lines.append(f"# TYPE node_infiniband_{counter}_total counter")
        lines += [
            f'node_infiniband_{counter}_total{{device="mlx5_{k}",port="1"}} {count * 7919 + k}.0e+00'
            for k in range(devices)
        ]
    lines.append("# TYPE node_cpu_seconds_total counter")
    modes = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
    lines += [f'node_cpu_seconds_total{{cpu="{c}",mode="{m}"}} {count}.{c:02d}' for c in range(96) for m in modes]
    return ("\n".join(lines) + "\n").encode()


class Peers:
    """The server: texts are made once for a few scrapes, and only the host's name is put in at each."""

    def __init__(self, devices: int) -> None:
        self._texts = [text_of("@NAME@", devices, count) for count in range(1, 9)]
        self._turn = itertools.count()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until its other end has gone."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                _, kind, name = head.split(b" ", 2)[1].split(b"/", 2)
                await self._answer(kind.decode(), name, writer)
        writer.close()

    async def _answer(self, kind: str, name: bytes, writer: asyncio.StreamWriter) -> None:
        if kind == "silent":
            await asyncio.sleep(3600)
        if kind == "endless":
            writer.write(HEAD + b"\r\n")
            while True:
                writer.write(b"# more\n" * 10_000)
                await writer.drain()
        if kind == "slow":
            await asyncio.sleep(SLOW_S)
        body = self._texts[next(self._turn) % len(self._texts)].replace(b"@NAME@", name)
        if kind == "garbage":
            body = bytes(range(256)) * 64
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()


async def open_peers(devices: int) -> asyncio.Server:
    """Open the server on a free port of this machine."""
    return await asyncio.start_server(Peers(devices).serve, "127.0.0.1", 0, backlog=4096)


async def _main() -> None:
    server = await open_peers(int(sys.argv[1]))
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
