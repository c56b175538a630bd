"""Network namespaces by system call: create, name, enter, remove.

Named namespaces are bind mounts under /run/netns, as iproute2 keeps them, so that `ip netns exec` works on a lab. A
thread enters a namespace for itself alone; /proc/sys/net, new sockets and new child processes then belong to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

from railkeeper.base.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NETNS_DIR = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED, _MNT_DETACH = 0x1000, 0x4000, 0x100000, 2
_OWN = "/proc/thread-self/ns/net"

_libc = ctypes.CDLL(None, use_errno=True)


def path_of(name: str) -> Path:
    """Return the file that stands for a named namespace."""
    return NETNS_DIR / name


def exists(name: str) -> bool:
    """Return whether a namespace of this name is there."""
    return path_of(name).exists()


@contextlib.contextmanager
def entered(name: str) -> Iterator[None]:
    """Put the calling thread into a named namespace for a while."""
    with own_restored():
        enter(name)
        yield


@contextlib.contextmanager
def own_restored() -> Iterator[None]:
    """Bring the calling thread back to its own namespace at the end, wherever it went in between."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _enter_fd(home, "its own namespace")
        os.close(home)


def enter(name: str) -> None:
    """Put the calling thread into a named namespace for good."""
    fd = open_fd(name)
    try:
        _enter_fd(fd, name)
    finally:
        os.close(fd)


def open_fd(name: str) -> int:
    """Return a file descriptor of a named namespace; the caller closes it."""
    try:
        return os.open(path_of(name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as e:
        raise OutsideError(f"namespace {name} can't be opened: {e.strerror}") from e


def create(names: Iterable[str], setup: Callable[[str], None]) -> None:
    """Create named namespaces; `setup` runs inside each of them right after it came to be."""
    prepare_dir()
    with own_restored():
        for name in names:
            _check(_libc.unshare(_CLONE_NEWNET), f"a network namespace for {name}")
            _name_own(name)
            setup(name)


def unshare() -> None:
    """Put the calling thread into a new namespace without a name; it ends with the last who is in it."""
    _check(_libc.unshare(_CLONE_NEWNET), "a network namespace")


def prepare_dir() -> None:
    """Make /run/netns a shared mount as iproute2 does.

    Without that, a shell in one namespace of the lab would keep all others of the lab alive.
    """
    NETNS_DIR.mkdir(parents=True, exist_ok=True)
    at = bytes(NETNS_DIR)
    if _libc.mount(b"", at, b"none", _MS_SHARED | _MS_REC, None) != 0:
        _check(_libc.mount(at, at, b"none", _MS_BIND | _MS_REC, None), f"mounting {NETNS_DIR}")
        _check(_libc.mount(b"", at, b"none", _MS_SHARED | _MS_REC, None), f"sharing {NETNS_DIR}")


def remove(names: Iterable[str]) -> None:
    """Remove named namespaces; the kernel ends each once no process is left in it. Absent ones are no error."""
    for name in names:
        path = path_of(name)
        _libc.umount2(bytes(path), _MNT_DETACH)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def write_sysctl(name: str, value: str) -> None:
    """Set a kernel parameter, e.g. `net/ipv6/icmp/ratelimit`, of the namespace in which the calling thread is."""
    try:
        fd = os.open(f"/proc/sys/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as e:
        raise OutsideError(f"kernel parameter {name} can't be set: {e.strerror}") from e


def _name_own(name: str) -> None:
    path = path_of(name)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    except OSError as e:
        raise OutsideError(f"namespace {name} can't be named: {e.strerror}") from e
    _check(_libc.mount(_OWN.encode(), bytes(path), b"none", _MS_BIND, None), f"naming {name}")


def _enter_fd(fd: int, what: str) -> None:
    _check(_libc.setns(fd, _CLONE_NEWNET), f"entering {what}")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OutsideError(f"{what} failed: {os.strerror(ctypes.get_errno())}")
