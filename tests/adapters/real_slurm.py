"""A real Slurm on loopback: munged, slurmctld and four slurmd of eight GPUs each, ended by their process ids."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "scontrol": "slurm-client"}
CONFIG = """
ClusterName=t
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={d}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool/%n
SlurmctldPidFile={d}/ctld.pid
SlurmdPidFile={d}/slurmd-%n.pid
SlurmctldLogFile={d}/ctld.log
SlurmdLogFile={d}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def need_slurm() -> None:
    missing = [package for program, package in PROGRAMS.items() if not _found(program)]
    if missing:
        pytest.skip(f"Slurm is not installed (Debian: {' '.join(missing)})")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")


def _found(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


@contextlib.contextmanager
def slurm(folder: Path):
    """Run a cluster of n001 to n004 with SLURM_CONF set to it."""
    need_slurm()
    d = folder
    for name in ("state", "spool", "dev"):
        (d / name).mkdir()
    for gpu in range(8):
        (d / "dev" / f"gpu{gpu}").touch()
    key = d / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    ports = _free_ports(5)
    nodes = "\n".join(
        f"NodeName=n00{k} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={ports[k]} CPUs=16 RealMemory=1000 Gres=gpu:8"
        for k in range(1, 5)
    )
    (d / "slurm.conf").write_text(CONFIG.format(d=d, ports=ports, nodes=nodes))
    (d / "gres.conf").write_text(f"Name=gpu File={d}/dev/gpu[0-7]\n")
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(d / "slurm.conf")
    with contextlib.ExitStack() as ends:
        ends.callback(
            os.environ.__setitem__ if before else os.environ.pop, "SLURM_CONF", *([before] if before else [None])
        )
        _start(ends, "munged", f"--key-file={key}", f"--socket={d}/munge.sock", f"--pid-file={d}/munged.pid",
               f"--log-file={d}/munged.log", f"--seed-file={d}/munge.seed", "--force", "--foreground")  # fmt: skip
        _wait((d / "munge.sock").exists, "munged", d)
        _start(ends, "slurmctld", "-D", "-f", str(d / "slurm.conf"))
        for k in range(1, 5):
            _start(ends, "slurmd", "-D", "-N", f"n00{k}", "-f", str(d / "slurm.conf"))
        _wait(lambda: "4 idle" in _quiet("sinfo", "-h", "-o", "%D %t"), "slurmd", d)
        yield
        _quiet("scancel", "--user=root", "--signal=KILL", "--full")
        _quiet("scancel", "--user=root")
        _wait(lambda: not _quiet("squeue", "-h"), "scancel", d)


def _start(ends: contextlib.ExitStack, program: str, *arguments: str) -> None:
    found = _found(program)
    assert found
    process = subprocess.Popen([found, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    ends.callback(end)


def _quiet(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=20).stdout


def _wait(ready, what: str, folder: Path) -> None:
    deadline = time.monotonic() + 20
    while not ready():
        if time.monotonic() > deadline:
            logs = "".join(path.read_text()[-300:] for path in folder.glob("*.log"))
            pytest.fail(f"{what} is not ready: {logs}")
        time.sleep(0.05)
