"""A simulated InfiniBand subnet: ibsim and opensm, started by a test; programs of infiniband-diags speak to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

LIBRARY = "/usr/lib/{}/umad2sim/libumad2sim.so"


def net_file(leaves: int, spines: int, hosts: int) -> str:
    """A two-level tree with `hosts` hosts on each leaf."""
    out = []
    for s in range(spines):
        out += [
            f'Switch {leaves} "spine{s}"',
            *(f'[{leaf + 1}] "leaf{leaf}"[{hosts + s + 1}]' for leaf in range(leaves)),
            "",
        ]
    for leaf in range(leaves):
        out += [f'Switch {hosts + spines} "leaf{leaf}"']
        out += [f'[{h + 1}] "hca{leaf * hosts + h}"[1]' for h in range(hosts)]
        out += [*(f'[{hosts + s + 1}] "spine{s}"[{leaf + 1}]' for s in range(spines)), ""]
    for leaf in range(leaves):
        for h in range(hosts):
            out += [f'Hca 1 "hca{leaf * hosts + h}"', f'[1] "leaf{leaf}"[{h + 1}]', ""]
    return "\n".join(out)


class Subnet:
    """4 leaves, 4 spines and 64 hosts unless told otherwise."""

    def __init__(self, *, leaves: int = 4, spines: int = 4, hosts: int = 16) -> None:
        library = next((p for p in Path("/usr/lib").glob("*/umad2sim/libumad2sim.so")), None)
        missing = [p for p in ("ibsim", "opensm", "ibqueryerrors", "iblinkinfo", "ibnetdiscover") if not _where(p)]
        if missing or library is None:
            pytest.skip(
                f"{', '.join(missing) or 'umad2sim'} not installed (Debian: ibsim-utils opensm infiniband-diags)"
            )
        # The simulator's socket stands in its own directory; its path must be short.
        self.directory = Path(tempfile.mkdtemp(prefix="rkib"))
        (self.directory / "net").write_text(net_file(leaves, spines, hosts))
        os.mkfifo(self.directory / "console")
        port = 20000 + os.getpid() % 20000
        self.env = {
            "SIM_HOST": "hca0",
            "LD_PRELOAD": str(library),
            "IBSIM_SERVER_PORT": str(port),
            "IBSIM_SOCKNAME": f"rk{os.getpid()}",
            "OSM_CACHE_DIR": str(self.directory),
            "OSM_TMP_DIR": str(self.directory),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start()

    def _start(self) -> None:
        # The console is opened for both ways, so that neither side waits for the other.
        self.console = os.open(self.directory / "console", os.O_RDWR)
        self._spawn([_where("ibsim"), "-s", "net"], stdin=self.console, preload=False)
        time.sleep(0.2)
        self._spawn([_where("opensm"), "-R", "updn", "-f", str(self.directory / "osm.log")])
        for _ in range(200):
            if "Active" in self.run("iblinkinfo", "--line"):
                return
            time.sleep(0.05)
        self.stop()
        pytest.fail("the simulated subnet did not come up")

    def _spawn(self, command, *, stdin=subprocess.DEVNULL, preload: bool = True) -> None:
        env = {**os.environ, **{k: v for k, v in self.env.items() if preload or k != "LD_PRELOAD"}}
        quiet = subprocess.DEVNULL
        self.processes.append(
            subprocess.Popen(command, cwd=self.directory, env=env, stdin=stdin, stdout=quiet, stderr=quiet)
        )

    def run(self, program: str, *options: str) -> str:
        env = {**os.environ, **self.env}
        return subprocess.run(
            [_where(program), *options], env=env, capture_output=True, text=True, timeout=20, check=False
        ).stdout

    def say(self, command: str) -> None:
        """Give the simulator's console a command."""
        os.write(self.console, f"{command}\n".encode())
        time.sleep(0.3)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        os.close(self.console)
        shutil.rmtree(self.directory)


def _where(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path="/usr/sbin")
