"""The host itself: RDMA ports, network interfaces, ethtool statistics and PCIe links, as readings.

`root` may be a captured tree instead of "/": ROOT/sys as it was, and beside it what programs said there:
ROOT/ethtool/NETDEV (`ethtool -S`), ROOT/rdma/statistic.json and ROOT/rdma/link.json (`rdma statistic show -j`,
`rdma link -j`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from railkeeper.adapters.hostread_ethtool import open_socket, parse_ethtool, read_ethtool
from railkeeper.adapters.hostread_files import check_root, inside
from railkeeper.adapters.hostread_net import Netdev, pci_address, read_netdevs, read_pci
from railkeeper.adapters.hostread_rdma import RdmaPort, read_links, read_rdma, read_statistic
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Value = int | float | str | None

RDMA_TIMEOUT_S = 2.0
MOST_FILE_BYTES = 16_000_000


def read_host(root: str | Path = "/", *, source: str = "host", host: str = "") -> list[Reading]:
    """Return everything that a host says of its network. `host` is its label, by default this machine's name.

    Raises InputError if the root holds no /sys, or what programs said in a captured tree can't be read.
    """
    top = check_root(root)
    return _HostReader(top, source, host or (socket.gethostname() if not top else "captured")).readings()


class HostTarget:
    """A `Target` for the machine that it runs on; a file that does not answer holds a thread, not the loop."""

    def __init__(self, *, source: str = "host", root: str = "/", host: str = "", interval_s: float = 1.0) -> None:
        self.source = source
        self.name = host or socket.gethostname()
        self.interval_s = interval_s
        self.timeout_s = 5.0
        self._root = root

    async def poll(self) -> Sequence[Reading]:
        """Read once. Raises OutsideError when the host can't be read."""
        try:
            return await asyncio.to_thread(read_host, self._root, source=self.source, host=self.name)
        except OSError as error:
            raise OutsideError(f"host {self.name}: {error.strerror or error}", retry=True) from error

    async def close(self) -> None:
        """Nothing is held open."""


class _HostReader:
    def __init__(self, top: str, source: str, host: str) -> None:
        self.top = top
        self.source = source
        self.host = host
        self.out: list[Reading] = []
        self.left_out: list[str] = []

    def readings(self) -> list[Reading]:
        ports = read_rdma(self.top, self.left_out)
        netdevs = read_netdevs(self.top, self.left_out)
        asked = (self._ask("statistic"), self._ask("link")) if ports or self.top else ({}, {})
        for port in ports:
            self._rdma_port(port, *asked)
        links = {str(values.get("netdev")): key for key, values in asked[1].items() if values.get("netdev")}
        self._netdevs(netdevs, ports, links)
        self._pci(ports, netdevs)
        self._account(ports, netdevs)
        return self.out

    def _say(self, dialect: str, labels: Mapping[str, str], values: Mapping[str, Value]) -> None:
        if values:
            everything = {"host": self.host, **{k: v for k, v in labels.items() if v}}
            self.out.append(Reading(self.source, self.host, dialect, everything, time.time_ns(), values))

    def _rdma_port(self, port: RdmaPort, statistic: _ByPort, link: _ByPort) -> None:
        labels = {"device": port.device, "port": port.port}
        key = (port.device, port.port)
        state = {name: value for name, value in port.state.items() if value is not None}
        self._say("rdma.port", labels, {**state, **link.get(key, {})})
        self._say(f"{port.family}.port", labels, port.counters)
        # Optional counters are known to `rdma` alone; what both know is taken from sysfs, which was read just now.
        self._say(f"{port.family}.hw", labels, {**statistic.get(key, {}), **port.hw})

    def _netdevs(self, netdevs: list[Netdev], ports: list[RdmaPort], links: Mapping[str, tuple[str, str]]) -> None:
        sock = None if self.top else open_socket()
        try:
            for netdev in netdevs:
                labels = {"netdev": netdev.name, **_rdma_labels(netdev, ports, links)}
                state = {name: value for name, value in netdev.state.items() if value is not None}
                self._say("netdev", labels, {**state, **netdev.statistics})
                said = read_ethtool(sock, netdev.name) if sock else self._saved_ethtool(netdev.name)
                self._say(f"{netdev.family or 'other'}.ethtool", labels, said or {})
        finally:
            if sock:
                sock.close()

    def _pci(self, ports: list[RdmaPort], netdevs: list[Netdev]) -> None:
        """Once for each card's function, however many ports it has."""
        owners: dict[str, dict[str, str]] = {}
        for port in ports:
            owners.setdefault(port.pci, {"device": port.device})
        for netdev in netdevs:
            owners.setdefault(netdev.pci, {"netdev": netdev.name})
        for path, labels in owners.items():
            if path and pci_address(path):
                self._say("pcie", {**labels, "pci": pci_address(path)}, read_pci(path))

    def _account(self, ports: list[RdmaPort], netdevs: list[Netdev]) -> None:
        """Tell what was read and what could not be, so that nothing is passed over in silence."""
        unread = sum(value is None for reading in self.out for value in reading.values.values())
        counts = {"rdma_ports": len(ports), "netdevs": len(netdevs), "unreadable": unread}
        self._say("host.reader", {}, {**counts, "left_out": "; ".join(self.left_out)})

    def _saved_ethtool(self, netdev: str) -> dict[str, int] | None:
        text = self._saved(f"ethtool/{netdev}")
        return None if text is None else parse_ethtool(text, f"ethtool/{netdev}")

    def _ask(self, what: str) -> _ByPort:
        read = read_statistic if what == "statistic" else read_links
        if self.top:
            text = self._saved(f"rdma/{what}.json")
            return {} if text is None else read(text, f"rdma/{what}.json")
        try:
            return read(_run_rdma(what))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self.left_out.append(f"rdma {what}: {str(error).strip()}")
            return {}

    def _saved(self, name: str) -> str | None:
        path = Path(self.top) / name
        if inside(self.top, str(path.parent)) is None or path.is_symlink() or not path.is_file():
            return None
        if path.stat().st_size > MOST_FILE_BYTES:
            raise InputError(str(path), "it is too long", f"at most {MOST_FILE_BYTES} bytes are read")
        return path.read_text(encoding="utf-8", errors="backslashreplace")


_ByPort = dict[tuple[str, str], dict[str, "Value"]]


def _rdma_labels(netdev: Netdev, ports: list[RdmaPort], links: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the RDMA device and port that an interface belongs to; empty if that is not sure."""
    if netdev.name in links:
        device, port = links[netdev.name]
        return {"device": device, "port": port}
    mine = [port for port in ports if port.pci and port.pci == netdev.pci]
    number = netdev.state.get("dev_port")
    if len(mine) > 1 and isinstance(number, int):
        mine = [port for port in mine if port.port == str(number + 1)]
    return {"device": mine[0].device, "port": mine[0].port} if len(mine) == 1 else {}


def _run_rdma(what: str) -> str:
    """Return what `rdma` prints. Raises OSError, SubprocessError or ValueError; sysfs says the most anyway."""
    if shutil.which("rdma") is None:
        raise OSError("rdma is not installed (Debian: iproute2)")
    done = subprocess.run(
        ["rdma", "-j", what, *(["show"] if what == "statistic" else [])],
        capture_output=True,
        text=True,
        timeout=RDMA_TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise OSError(done.stderr or f"exit code {done.returncode}")
    return done.stdout
