"""Threads: few values are no work to share. Waiting for a second thread then takes longer than the work itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numba

if TYPE_CHECKING:
    from collections.abc import Iterator

# About a millisecond of work.
FEW = 1 << 19


@contextmanager
def threads_for(n: int) -> Iterator[int]:
    """Run compiled passes over n values on as many threads as they are worth; give how many these are."""
    every: int = numba.get_num_threads()
    if n >= FEW or every == 1:
        yield every
        return
    numba.set_num_threads(1)
    try:
        yield 1
    finally:
        numba.set_num_threads(every)
