"""Compiled loops of strict location: links that no row clears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]
    Bytes = npt.NDArray[np.uint8]


@njit(cache=True)
def guilty_links(
    bad_rows: Ints,
    crossed: Ints,
    start: Ints,
    row: Ints,
    verdict: Bytes,
    clears: int,
    age: Bytes,
    most: int,
    seen: Bytes,
    out: Ints,
) -> int:
    """Write the directed links that bad rows cross and no other row clears to `out`; returns how many.

    A row with a `clears` bit, younger than `most`, clears its links. `seen` (directed links,) is all 0, and is so again
    afterwards.
    """
    n_seen, n = 0, 0
    places = np.empty(len(bad_rows) * crossed.shape[1], dtype=np.int32)
    for i in bad_rows:
        for c in crossed[i]:
            if c >= 0 and not seen[c]:
                seen[c] = 1
                places[n_seen] = c
                n_seen += 1
    for k in range(n_seen):
        c = places[k]
        seen[c] = 0
        clear = False
        for j in range(start[c], start[c + 1]):
            if verdict[row[j]] & clears and age[row[j]] < most:
                clear = True
                break
        if not clear:
            out[n] = c
            n += 1
    return n
