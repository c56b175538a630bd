"""What labs leave a note of under /run/railkeeper, so that a killed one can be cleaned up, and only that one.

A lab claims its prefix with a file that names its owner (process and start time) and every namespace, written before
the first namespace comes to be. Kernel settings that labs change are noted with their old values, and set back with
the last lab. One lock guards it all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError
from railkeeper.lab import netns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STATE_DIR = Path("/run/railkeeper")
_SUFFIX = ".lab.json"
_SYSCTLS = "sysctls.json"

# Thousands of veths share one receive queue per CPU; and fallback tunnel devices triple the time to build.
WANTED = {"net.core.netdev_max_backlog": 50_000, "net.core.fb_tunnels_only_for_init_net": 1}


@dataclass(frozen=True)
class Owner:
    """A process, told from a later one of the same number by its start time."""

    pid: int
    start: int

    def alive(self) -> bool:
        """Return whether this very process still runs."""
        return start_time(self.pid) == self.start


def me() -> Owner:
    """Return the calling process."""
    return Owner(os.getpid(), start_time(os.getpid()) or 0)


def start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if it is gone (a zombie is)."""
    try:
        after = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if after[0] in "ZX" else int(after[19])


def claim(prefix: str, spaces: Sequence[str], state_dir: Path = STATE_DIR) -> None:
    """Note a lab before it is built; cleans a killed one of the same prefix first.

    Raises OutsideError when a live lab has the prefix, or when namespaces of these names are somebody else's.
    """
    with _locked(state_dir):
        _clean(state_dir)
        path = state_dir / f"{prefix}{_SUFFIX}"
        if path.exists():
            owner = _read(path)[0]
            raise OutsideError(f"a lab with prefix {prefix!r} already runs (process {owner.pid}): give another prefix")
        taken = [name for name in spaces if netns.exists(name)]
        if taken:
            raise OutsideError(
                f"namespace {taken[0]} is there already and no note says that a lab made it: "
                f"give another prefix, or remove it (ip netns delete {taken[0]})"
            )
        _write(path, {"schema": 1, "owner": asdict(me()), "spaces": list(spaces)})
        _raise_sysctls(state_dir)


def owner_of(prefix: str, state_dir: Path = STATE_DIR) -> Owner | None:
    """Return the live process that holds a prefix, None where there is none."""
    path = state_dir / f"{prefix}{_SUFFIX}"
    try:
        owner = _read(path)[0]
    except OSError:
        return None
    return owner if owner.alive() else None


def release(prefix: str, state_dir: Path = STATE_DIR) -> None:
    """Forget a lab whose namespaces are gone; kernel settings go back with the last."""
    with _locked(state_dir):
        (state_dir / f"{prefix}{_SUFFIX}").unlink(missing_ok=True)
        _restore_sysctls(state_dir)


def clean_stale(state_dir: Path = STATE_DIR) -> list[str]:
    """Remove what killed labs left, and only that; returns the names of the namespaces removed."""
    if not state_dir.is_dir():
        return []
    with _locked(state_dir):
        return _clean(state_dir)


def _clean(state_dir: Path) -> list[str]:
    removed: list[str] = []
    for path in sorted(state_dir.glob(f"*{_SUFFIX}")):
        owner, spaces = _read(path)
        if owner.alive():
            continue
        removed += [name for name in spaces if netns.exists(name)]
        netns.remove(spaces)
        path.unlink(missing_ok=True)
    _restore_sysctls(state_dir)
    return removed


def _read(path: Path) -> tuple[Owner, list[str]]:
    """Return owner and namespaces of a note; a torn note was written before any namespace and means none."""
    try:
        d = json.loads(path.read_text(encoding="utf-8"))
        return Owner(int(d["owner"]["pid"]), int(d["owner"]["start"])), [str(s) for s in d["spaces"]]
    except (ValueError, KeyError, TypeError):
        return Owner(0, -1), []


def _write(path: Path, value: object) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value), encoding="utf-8")
    draft.replace(path)


@contextlib.contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# -- kernel settings of the whole machine -------------------------------------------------------------
def _sysctl(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))


def _raise_sysctls(state_dir: Path) -> None:
    path = state_dir / _SYSCTLS
    if path.exists():
        return
    old = {name: _get(name) for name in WANTED}
    _write(path, {name: value for name, value in old.items() if value is not None})
    for name, value in WANTED.items():
        if (have := old[name]) is not None and have < value:
            _set(name, value)


def _restore_sysctls(state_dir: Path) -> None:
    path = state_dir / _SYSCTLS
    if any(state_dir.glob(f"*{_SUFFIX}")) or not path.exists():
        return
    for name, value in json.loads(path.read_text(encoding="utf-8")).items():
        if name in WANTED and _get(name) == WANTED[name]:
            _set(name, int(value))
    path.unlink()


def _get(name: str) -> int | None:
    try:
        return int(_sysctl(name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _set(name: str, value: int) -> None:
    with contextlib.suppress(OSError):  # a container may forbid it; the lab works without, only less well
        _sysctl(name).write_text(f"{value}\n", encoding="ascii")
