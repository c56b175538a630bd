"""Railkeeper keeps the backend networks of AI supercomputers healthy."""

from __future__ import annotations

import os

__version__ = "0.1.0"


def _keep_compiled() -> None:
    """Find a place for compiled code where the account can write neither beside the sources nor in a home.

    Numba refuses to begin without one. What lies there is run: so it must be ours alone.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  quicker to import
    places = (os.path.dirname(__file__), cache, os.path.dirname(cache))  # noqa: PTH120
    if "NUMBA_CACHE_DIR" in os.environ or any(os.access(place, os.W_OK) for place in places):
        return
    import contextlib  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    own = os.path.join(tempfile.gettempdir(), f"railkeeper-compiled-{os.getuid()}")  # noqa: PTH118
    with contextlib.suppress(OSError):  # it is there already, or nothing can be written: seen below
        os.mkdir(own, 0o700)  # noqa: PTH102
    os.environ["NUMBA_CACHE_DIR"] = own if _ours(own) else tempfile.mkdtemp(prefix="railkeeper-compiled-")


def _ours(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mode & 0o170777 == 0o040700


_keep_compiled()
