"""When which path is due: rates become even streams, without a timer per path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, are spread as evenly as can be
_NOTHING = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)


class Schedule:
    """Events at `rate` (n,) per second of each of n rows, from `start_s` on; time is handed in, in seconds.

    A caller that was away for long does not get all that it missed at once: per row at most `catch_up_s` seconds' worth
    (and at least one).
    """

    def __init__(self, rate: npt.NDArray[np.float64], start_s: float, *, catch_up_s: float = 0.1) -> None:
        self._rate, self._start_s = rate, start_s
        self._phase = (np.arange(1, len(rate) + 1) * _GOLDEN) % 1.0
        self._most = np.ceil(rate * catch_up_s).astype(np.int64)
        self._done = np.zeros(len(rate), dtype=np.int64)
        self._order = np.random.default_rng(0)

    def due(self, now_s: float) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        """Return the rows that are due since the last call, and for each which of its row's it is (0, 1, …).

        First each row's first, then each row's second …, each round in another order: nobody always goes last.
        """
        target = np.floor(self._rate * (now_s - self._start_s) + self._phase).astype(np.int64)
        count = np.minimum(np.maximum(target - self._done, 0), self._most)
        np.maximum(self._done, target, out=self._done)
        if not count.any():
            return _NOTHING
        rows = np.repeat(np.arange(len(count)), count)
        turn = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        order = np.lexsort((self._order.random(len(rows)), turn))
        return rows[order], turn[order]
